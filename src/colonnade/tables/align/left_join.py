"""A left join: all of the owner's rows, and for every party which of them it has, by one alignment of each pair.

The owner is aligned with each party alone, by the same protocol as any two parties, so no party learns anything of
another's rows. Then the owner orders all its rows at random and tells each party the places of the rows that both
have. The order is drawn, not computed from ids: whoever could compute it could try out ids against the gaps.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from colonnade.core.schedule import permutation
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.alignment import Alignment
from colonnade.wire.ledger import Ledger


def order_of(ids: Sequence[bytes], seed: int, secret: bytes | None = None) -> np.ndarray:
    """The owner's rows in the order of training, whatever their order in the file.

    Between organisations it follows from the owner's secret, in a simulation, which must repeat, from the seed.
    """
    if secret is not None:
        keyed = [hmac.digest(secret, b"left join" + text, "sha256") for text in ids]
        return np.array(sorted(range(len(ids)), key=keyed.__getitem__), dtype=np.int64)
    by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)
    order: np.ndarray = by_id[permutation(len(ids), seed, "left join").numpy()]
    return order


def places_of(order: np.ndarray) -> np.ndarray:
    """The place of each of the owner's rows in the order of training."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def pair_terms(terms: AlignTerms, party: int) -> AlignTerms:
    """The terms of the alignment of the owner with one party."""
    return replace(terms, names=(terms.names[0], terms.names[party]), join="left")


def in_order(alignment: Alignment, order: np.ndarray) -> Alignment:
    """The same left join with the owner's rows in another order."""
    places = places_of(alignment.rows[alignment.names[0]])[order]
    return replace(alignment, rows={name: rows[places] for name, rows in alignment.rows.items()})


def spread_out(rows: np.ndarray, places: np.ndarray, total: int) -> np.ndarray:
    """A party's rows at the owner's places, -1 where it has none.

    >>> spread_out(np.array([7, 9]), np.array([2, 0]), 4).tolist()
    [9, -1, 7, -1]
    """
    spread = np.full(total, -1, np.int64)
    spread[places] = rows
    return spread


def joined(names: tuple[str, ...], order: np.ndarray, pairs: Sequence[Alignment], opened: tuple[str, ...]) -> Alignment:
    """One alignment of all: of each party's rows those that stand at the owner's places, -1 where it has none."""
    owner, places, ledger = names[0], places_of(order), Ledger()
    rows, seconds = {owner: order}, dict.fromkeys(names, 0.0)
    for party, pair in zip(names[1:], pairs, strict=True):
        rows[party] = spread_out(pair.rows[party], places[pair.rows[owner]], len(order))
        ledger.add(pair.ledger)
        for name in (owner, party):
            seconds[name] += pair.seconds_by_party[name]
    return Alignment(
        names=names,
        rows=rows,
        sizes={name: size for pair in pairs for name, size in pair.sizes.items()},
        mode=pairs[0].mode,
        proof=hashlib.sha256("".join(pair.proof for pair in pairs).encode()).hexdigest(),
        opened=opened,
        seconds=sum(pair.seconds for pair in pairs),
        seconds_by_party=seconds,
        ledger=ledger,
        join="left",
    )
