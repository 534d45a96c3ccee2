"""``align``: find the rows that all parties have in common, without revealing any other row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from colonnade.core.method import Turn
from colonnade.core.options import seed_of, whole
from colonnade.errors import ConfigError, NoCommonIdError, PrivacyError, TableError, unknown
from colonnade.runtime.group import ProtocolGroup
from colonnade.runtime.setup import local_parties
from colonnade.signatures import Identity
from colonnade.tables.align.align_terms import JOINS, MODES, AlignTerms
from colonnade.tables.align.alignment import Alignment, who_learns
from colonnade.tables.align.alignment_owner import AlignmentOwner, Progress
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.tables.align.comparison import too_few
from colonnade.tables.align.id_texts import texts
from colonnade.tables.align.left_join import joined, order_of, pair_terms, places_of
from colonnade.tables.align.mask_work import MaskWork, Workers
from colonnade.tables.sheets.sheet_list import refuse_frames
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER
from colonnade.wire.owner_half import OwnerHalf

__all__ = ["Alignment", "AlignmentGroup", "HasIds", "align", "who_learns"]

RUNTIMES = ("loop", "bytes")


class HasIds(Protocol):
    """An object with a name and ids: a table, or a sheet of files."""

    @property
    def name(self) -> str:
        """The party's name."""

    @property
    def ids(self) -> Any:
        """One id per row."""


class AlignmentGroup(ProtocolGroup):
    """One party of an alignment in this process: its end of the protocol, and its working time."""

    about: ClassVar[str] = "an alignment, which is about ids only"

    def __init__(self, member: int, peer: AlignmentParty) -> None:
        super().__init__(member, peer.name)
        self.peer = peer
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """The CPU seconds of this party's steps, and of the threads that mask for it."""
        return self._seconds + self.peer.work.seconds

    def run(self, step: Callable[..., Any], turn: Turn, received: Sequence[Any], shared: bool) -> list[Any]:
        """Run the step at this party."""
        began = time.thread_time()
        try:
            return [getattr(self.peer, step.__name__)(*received)]
        finally:
            self._seconds += time.thread_time() - began


def align(
    sheets: Sequence[HasIds],
    *,
    mode: str = "psi",
    join: str = "inner",
    minimum: int = 1,
    seed: int = 0,
    maximum: int | None = None,
    on_progress: Progress | None = None,
    names: Sequence[str] | None = None,
    runtime: str = "loop",
    threads: int | None = None,
) -> Alignment:
    """Find the rows that all parties have, in one order for all; ``alignment.take(tables)`` is the federation of those.

    ``sheets`` are tables, or anything with a ``name`` and ``ids``, the owner's first; ``names`` replaces their names.
    Ids are compared as texts: the number 7 and the text "7" are the same. With ``mode="psi"`` nobody learns an id of
    another party that is not common to all (:func:`who_learns` says who learns what);
    ``mode="plain"`` is quick and shows the owner a hash of every id. Fewer common ids than ``minimum`` are an error,
    and nobody is told which they are; a set of more than ``maximum`` ids is refused. The order follows from ``seed``
    and the common ids, so it is the same every time and in both modes. ``on_progress(done, in_all)`` hears how many
    ids were masked. ``runtime="bytes"`` really encodes every message.

    With ``join="left"`` the federation has all of the owner's rows: the owner is aligned with each party alone, and
    ``minimum`` holds for each such pair. ``alignment.rows`` is -1 where a party does not have the row.

    >>> import colonnade as cn
    >>> bank = cn.Table(ids=["ann", "bob", "eve"], labels=[0, 1, 1], name="bank")
    >>> shop = cn.Table(ids=["eve", "dan", "ann"], columns=[[3.0], [4.0], [1.0]], name="shop")
    >>> alignment = cn.align([bank, shop])
    >>> alignment.count, [sorted(table.ids.tolist()) for table in alignment.take([bank, shop])]
    (2, [['ann', 'eve'], ['ann', 'eve']])
    """
    called = _names(sheets, names)
    _check_rules(sheets, called)
    terms = _terms(mode, (OWNER, *called[1:]), minimum, seed, maximum)
    for what, came, known in (("runtime", runtime, RUNTIMES), ("join", join, JOINS)):
        if came not in known:
            raise unknown(f"{what} of an alignment", came, known)
    ids = [texts(sheet.ids, name) for sheet, name in zip(sheets, called, strict=True)]
    encoded = runtime == "bytes"
    with Workers(threads) as workers:
        one = partial(_aligned, on_progress=on_progress, workers=workers, encoded=encoded)
        if join == "inner":
            return one(called, ids, terms)
        order = order_of(ids[0], terms.seed)
        pairs = [
            one((called[0], name), [ids[0], own], pair_terms(terms, k), order=order)
            for k, (name, own) in enumerate(zip(called[1:], ids[1:], strict=True), 1)
        ]
    return joined(called, order, pairs, who_learns(mode, called, join))


def _aligned(
    called: tuple[str, ...],
    ids: list[list[bytes]],
    terms: AlignTerms,
    *,
    on_progress: Progress | None,
    workers: Workers,
    order: np.ndarray | None = None,
    encoded: bool = False,
) -> Alignment:
    """One run of the protocol; with an ``order`` of the owner's rows the other party of a pair learns its places."""
    began = time.process_time()
    groups = _groups(ids, terms, workers)
    half = OwnerHalf(Ends())
    parties = local_parties([group.name for group in groups], groups, half, {0}, encoded=encoded)
    owner = AlignmentOwner(parties, terms, on_progress)
    try:
        owner.run()
    except (PrivacyError, NoCommonIdError):
        compared = groups[terms.comparer].peer.comparison
        if compared is None or compared.count is None:
            raise
        raise too_few(terms, compared.count) from None  # this process has all tables, so its user may know the number
    if order is not None:
        owner.tell_places(places_of(order)[groups[0].peer.rows], len(order))
    seconds = time.process_time() - began
    by_party = {name: group.seconds for name, group in zip(called, groups, strict=True)}
    # The time for relaying, which the owner does beside its own steps.
    by_party[called[0]] += seconds - sum(by_party.values())
    return Alignment(
        names=called,
        rows={name: group.peer.rows for name, group in zip(called, groups, strict=True)},
        sizes=dict(zip(called, groups[0].peer.sizes, strict=True)),
        mode=terms.mode,
        proof=groups[0].peer.proof,
        opened=who_learns(terms.mode, called),
        seconds=seconds,
        seconds_by_party=by_party,
        ledger=half.ledger,
    )


def _groups(ids: list[list[bytes]], terms: AlignTerms, workers: Workers | None = None) -> list[AlignmentGroup]:
    """Every party with its end of the protocol and an identity of its own."""
    identities = {name: Identity.new() for name in terms.names}
    keys = {name: identity.public for name, identity in identities.items()}
    return [
        AlignmentGroup(place, AlignmentParty(terms, place, own, identities[name], keys, MaskWork(workers)))
        for place, (name, own) in enumerate(zip(terms.names, ids, strict=True))
    ]


def _names(sheets: Sequence[HasIds], names: Sequence[str] | None) -> tuple[str, ...]:
    refuse_frames(sheets)
    if not isinstance(sheets, Sequence) or isinstance(sheets, str) or len(sheets) < 2:
        raise TableError("an alignment is between two parties or more; give a list of their tables, the owner's first.")
    for sheet in sheets:
        if not hasattr(sheet, "ids") or not hasattr(sheet, "name"):
            raise TableError(f"a {type(sheet).__name__} has no name and ids; give tables, or what cn.read gives.")
    called = tuple(sheet.name for sheet in sheets) if names is None else tuple(names)
    if len(called) != len(sheets):
        raise ConfigError(f"{len(called)} names came for {len(sheets)} parties; give one for each.")
    for name in called:
        if not (isinstance(name, str) and name.isascii() and name.isprintable() and 0 < len(name) <= 64):
            raise TableError(f"the name {name!r} cannot travel; use 1 to 64 printable ASCII characters.")
    if len(set(called)) < len(called):
        raise TableError(f"two parties have the same name among {', '.join(called)}; give each its own with names=.")
    if OWNER in called[1:]:
        raise TableError("a party is named 'owner'; that name is the owner's in every ledger: choose another.")
    return called


def _check_rules(sheets: Sequence[HasIds], called: Sequence[str]) -> None:
    """Refuse files whose ids were normalised by different rules: too few ids, or wrong ones, would be common."""
    rules = {name: sheet.rule for sheet, name in zip(sheets, called, strict=True) if hasattr(sheet, "rule")}
    if len(set(rules.values())) > 1:
        each = ", ".join(f"'{name}' {'+'.join(rule) or 'nothing'}" for name, rule in rules.items())
        raise TableError(f"ids were normalised by different rules ({each}); read all files with the same normalise=.")


def _terms(mode: str, names: tuple[str, ...], minimum: int, seed: int, maximum: int | None) -> AlignTerms:
    if mode not in MODES:
        raise unknown("mode of an alignment", mode, MODES)
    least = whole(minimum, "minimum")
    if least < 1:
        raise ConfigError(f"minimum={minimum} is out of range; give a whole number of common ids from 1.")
    most = None if maximum is None else whole(maximum, "maximum")
    if most is not None and most < least:
        raise ConfigError(f"maximum={maximum} is below minimum={minimum}; give a larger one, or None for no limit.")
    return AlignTerms(mode, names, seed_of(seed), least, most)
