"""The messages of a description: encrypted labels to the parties, sums of them per bin back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colonnade.description.own_columns import FINE
from colonnade.disk.json_form import COUNT, NUMBER, TEXT, first_wrong
from colonnade.errors import MessageError, printable

CHUNK = 16_384
"""The number of rows in one message: about a megabyte."""
MOST_COLUMNS, MOST_BINS = 20_000, 102  # as many bins as a party may ask for, and two for missing and other values
SQUARES = (FINE + 0.51) ** 2  # the largest mean square of a column's levels: rounding adds half a level at most
_LARGEST_FACTS = 16 << 20
_LONGEST_NAME = 100


class Targets(NamedTuple):
    """The owner's first message: public keys, uint8 [T, 32], and three whole numbers, int64.

    Those are the number of rows, the largest number of a row, and how many numbers of a row may differ from nought.
    """

    keys: Tensor
    sizes: Tensor


class LabelChunk(NamedTuple):
    """The encrypted numbers of some rows, uint8 [rows, T + 1, 32], and the first of these rows."""

    start: Tensor
    points: Tensor


class LabelProofs(NamedTuple):
    """The proof that the encrypted numbers of the last rows are 0 or 1 (``seal/bit_proofs.py``): its two parts."""

    scalars: Tensor
    whole: Tensor


class GroupProofs(NamedTuple):
    """Proofs that every target has at least ``minimum`` rows, and that as many have it not: two for each target.

    ``minimum`` is a whole number; the others are the parts of the proofs, one behind the other.
    """

    minimum: Tensor
    digits: Tensor
    scalars: Tensor
    whole: Tensor


class BinSums(NamedTuple):
    """A party's answer: what it says about its columns, JSON as uint8, and encrypted sums, uint8 [..., T + 1, 32].

    ``sums`` has a line for each bin of each column, ``products`` one for each column of numbers: labels times levels.
    """

    facts: Tensor
    sums: Tensor
    products: Tensor


FORM = {
    "minimum": COUNT,
    "sigma": NUMBER,
    "notes": [TEXT],
    "columns": [
        {
            "name": TEXT,
            "titles": [TEXT],
            "counts": [COUNT],
            "missing": (NUMBER, None),
            "stability": (NUMBER, None),
            "levels": ([NUMBER], None),
        }
    ],
}


@dataclass(frozen=True)
class ToldColumn:
    """What a party tells about one column beside the encrypted sums.

    ``missing`` is None if some values are missing but fewer than the minimum. ``levels`` has the sum and the sum of
    squares of a column of numbers, in levels, or nothing if noise was added; it is None for categories.
    """

    name: str
    titles: tuple[str, ...]
    counts: tuple[int, ...]
    missing: float | None
    stability: float | None
    levels: tuple[float, ...] | None


@dataclass(frozen=True)
class ToldFacts:
    """What a party tells about all its columns, its smallest bin, and the deviation of its noise on a count."""

    minimum: int
    sigma: float
    notes: tuple[str, ...]
    columns: tuple[ToldColumn, ...]

    @property
    def bins(self) -> int:
        """How many bins all columns have together."""
        return sum(len(column.titles) for column in self.columns)

    @property
    def numbers(self) -> list[int]:
        """Which columns are numbers."""
        return [k for k, column in enumerate(self.columns) if column.levels is not None]


def facts_tensor(facts: ToldFacts) -> Tensor:
    """The facts as bytes of JSON."""
    columns = [vars(column) for column in facts.columns]
    text = json.dumps({**vars(facts), "columns": columns}, allow_nan=False)
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def read_facts(tensor: Tensor, rows: int) -> ToldFacts:
    """Another side's facts, if they are of the expected form and fit a table of this many rows."""
    if tensor.dtype != torch.uint8 or tensor.ndim != 1 or not 0 < tensor.numel() <= _LARGEST_FACTS:
        raise MessageError(
            f"facts about columns came as {tensor.dtype} of shape {tuple(tensor.shape)}; expected bytes."
        )
    try:
        said = json.loads(tensor.numpy().tobytes().decode())
    except (ValueError, RecursionError):
        raise MessageError("facts about columns came in bytes that are no JSON; leave that side out.") from None
    wrong = first_wrong(said, FORM)
    if wrong is not None:
        raise MessageError(f"in the facts about columns {wrong}; check that all sides use the same version.")
    facts = ToldFacts(
        said["minimum"], said["sigma"], tuple(printable(note) for note in said["notes"][:MOST_COLUMNS]),
        tuple(_column(entry) for entry in said["columns"]),
    )  # fmt: skip
    _check_facts(facts, rows)
    return facts


def _column(entry: dict[str, Any]) -> ToldColumn:
    titles = tuple(printable(title, _LONGEST_NAME) for title in entry["titles"])
    levels = entry["levels"]
    return ToldColumn(
        printable(entry["name"], _LONGEST_NAME), titles, tuple(entry["counts"]), entry["missing"], entry["stability"],
        None if levels is None else tuple(map(float, levels)),
    )  # fmt: skip


def _check_facts(facts: ToldFacts, rows: int) -> None:
    if not 0 < len(facts.columns) <= MOST_COLUMNS or not 0 <= facts.sigma <= 1e9 or not 1 <= facts.minimum <= rows:
        raise MessageError(
            f"facts about {len(facts.columns)} columns, a minimum of {facts.minimum} and noise of {facts.sigma:g} "
            "came; a party has 1 to 20,000 columns and noise below 1e9."
        )
    for column in facts.columns:
        exact = facts.sigma == 0
        if not 2 <= len(column.counts) == len(column.titles) <= MOST_BINS:
            raise MessageError(
                f"column '{column.name}' came with {len(column.titles)} bins; 2 to {MOST_BINS} are expected."
            )
        if exact and (sum(column.counts) != rows or min(column.counts) < facts.minimum):
            raise MessageError(
                f"the bins of column '{column.name}' have {sum(column.counts)} rows and the smallest "
                f"{min(column.counts)}; {rows} rows in bins of at least {facts.minimum} are expected."
            )
        if not 0 <= (column.missing or 0.0) <= 1 or not -1e-9 <= (column.stability or 0.0) <= 1e9:
            raise MessageError(f"column '{column.name}' came with a missing share or a stability out of range.")
        _check_levels(column, rows, exact)


def _check_levels(column: ToldColumn, rows: int, exact: bool) -> None:
    if column.levels is None:
        return
    fits = len(column.levels) == (2 if exact else 0)
    if fits and exact:
        total, squares = column.levels
        fits = 0 < squares <= SQUARES * rows and total**2 <= rows * squares
    if not fits:
        raise MessageError(f"column '{column.name}' came with sums of levels that no standardised column has.")
