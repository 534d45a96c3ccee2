"""Which rows of the sample an attack may choose its settings on, which it may be told, and which it is judged on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colonnade.core.schedule import derive_seed
from colonnade.errors import TableError
from colonnade.privacy.material import Array

KNOWN_ROWS = 200
"""Rows whose columns a decoder is told, but at most half of the rows."""
KNOWN_LABELS = 10
"""Rows a class whose labels are told."""
LEAST_ROWS = 100
"""With fewer rows no interval is tight enough to say anything."""
LEAST_OF_A_CLASS = 8
"""Rows that the rarer of two classes has among those scored, at least."""


class RowSets(NamedTuple):
    """Three sets of places in the sample that have no row in common."""

    chosen_on: Array
    known: Array
    scored: Array


def in_order(rows: int, seed: int) -> Array:
    """The places of a sample in the order in which they are drawn for the sets."""
    return np.random.default_rng(derive_seed(seed, "audit")).permutation(rows)


def row_sets(usable: Array, labels: Array | None, seed: int) -> RowSets:
    """The sets, drawn from the usable rows [n]; for class numbers as the secret, the first known rows are balanced.

    >>> sets = row_sets(np.ones(500, dtype=bool), None, seed=0)
    >>> [len(rows) for rows in sets]
    [75, 200, 225]
    """
    order = in_order(len(usable), seed)
    order = order[usable[order]]
    if len(order) < LEAST_ROWS:
        raise TableError(
            f"{len(order)} rows of the sample have a part in the messages; an audit needs at least {LEAST_ROWS}, so "
            "record more rows or train on more."
        )
    few = order[: min(KNOWN_ROWS, len(order) // 2)] if labels is None else _balanced(order, labels)
    rest = order[~np.isin(order, few)]
    tenth = min(len(rest) // 4, max(20, 3 * len(order) // 20))
    return RowSets(rest[:tenth], few, _checked(rest[tenth:], labels))


def _balanced(order: Array, labels: Array) -> Array:
    """The first few rows of every class, one class after the other in turn, but at most a third of a class."""
    places = [order[labels[order] == one] for one in np.unique(labels[order])]
    each = [rows[: max(1, min(KNOWN_LABELS, len(rows) // 3))] for rows in places if len(rows) > 1]
    longest = max(map(len, each), default=0)
    return np.array([rows[k] for k in range(longest) for rows in each if k < len(rows)], dtype=np.int64)


def _checked(scored: Array, labels: Array | None) -> Array:
    if labels is None:
        return scored
    counts = np.bincount(labels[scored])
    rarest, kinds = int(counts[counts > 0].min()), int((counts > 0).sum())
    if kinds < 2 or (kinds == 2 and rarest < LEAST_OF_A_CLASS):
        raise TableError(
            f"the rarer class has {rarest if kinds == 2 else 0} of the {len(scored)} rows that attacks are judged on; "
            f"an audit of two classes needs at least {LEAST_OF_A_CLASS} of each, so record more rows."
        )
    return scored
