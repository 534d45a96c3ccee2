"""A view: what one side received and sent, as it was on the wire, about a sample of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

EVERYBODY = "all"
"""Whose view it is when one process computes all sides."""
Line = tuple[str, str, str, str]
"""Purpose, step, sender and receiver: the key of a line of the ledger."""


class Seen(NamedTuple):
    """One message as its receiver read it: after seals, as the bytes say, for the rows of the sample.

    A message to several parties is one Seen for each of them; they share their arrays.
    """

    purpose: str
    step: str
    sender: str
    receiver: str
    round: int
    summed: bool
    """Whether this is the opened sum over all parties; the sender is then called "sum"."""
    table: str
    """Which table the rows are of: "train", or the name of another one."""
    rows: np.ndarray
    """The numbers of the sampled rows of this turn in that table, int64 [n]."""
    fields: Mapping[str, np.ndarray]
    """Values with a row each [n, ...], of the sampled rows only."""
    others: Mapping[str, np.ndarray]
    """Values that belong to no row, such as a head."""


@dataclass
class View:
    """What one side saw, or in one process what all sides saw.

    ``counts`` has the messages and payload bytes of every line, of all rows and rounds, so that it can be compared with
    the ledger; ``seen`` has the values of the rounds and rows that were recorded.
    """

    side: str
    """Whose view it is; "all" in one process."""
    sample: np.ndarray
    """The numbers of the sampled training rows, int64, in increasing order."""
    seen: list[Seen] = field(default_factory=list)
    counts: dict[Line, tuple[int, int]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """What was not recorded, or was dropped because it did not fit, as sentences."""

    @property
    def nbytes(self) -> int:
        """How many bytes the values take; arrays that messages share count once."""
        return size_of(self.seen)


def size_of(seen: Iterable[Seen]) -> int:
    """How many bytes the values of messages take; arrays that messages share count once."""
    arrays = {id(array): array for one in seen for array in (one.rows, *one.fields.values(), *one.others.values())}
    return sum(array.nbytes for array in arrays.values())
