"""One party's preparation of raw columns as network inputs, learnt from its training rows, kept with its model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.core.options import whole
from colonnade.core.table import Table
from colonnade.errors import ColonnadeWarning, ConfigError, TableError, unknown
from colonnade.models import TableNet
from colonnade.tables.prepare.categories import MOST, WAYS, Category, Counts
from colonnade.tables.prepare.numbers import SCALES, Number, fit_number, titles_of
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.kinds import CATEGORY, DATE, EMPTY, NUMBER, OTHER
from colonnade.tables.sheets.rows import WantedRows
from colonnade.tables.sheets.values import Piece

_BYTES = 128 << 20  # the largest piece of raw numbers in memory while learning


@dataclass(frozen=True, eq=False)
class Preparation:
    """What a party has learnt about its own columns; it never leaves the party.

    ``seen`` are all columns of the training files, ``notes`` say which were dropped, and why. ``way`` is how categories
    are encoded: "one-hot", or "embed" as codes in the last columns, for :meth:`model`.
    """

    numbers: tuple[Number, ...]
    categories: tuple[Category, ...]
    way: str = "one-hot"
    seen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The raw columns that are used."""
        return tuple(number.column for number in self.numbers) + tuple(own.column for own in self.categories)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the prepared columns."""
        if self.way == "embed":
            return titles_of(self.numbers) + tuple(category.column for category in self.categories)
        return titles_of(self.numbers) + tuple(title for category in self.categories for title in category.titles)

    @property
    def width(self) -> int:
        """How many prepared columns there are."""
        return len(self.column_names)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many codes each of the last columns has; none unless categories are to be embedded."""
        return tuple(category.cardinality for category in self.categories) if self.way == "embed" else ()

    def model(self, hidden: Sequence[int] = (120,), dims: Sequence[int] | None = None) -> TableNet:
        """The model builder for the prepared columns."""
        return TableNet(tuple(hidden), self.cardinalities, None if dims is None else tuple(dims))

    def check(self, sheet: Sheet) -> tuple[str, ...]:
        """Refuse a sheet that lacks columns of the training files; notes say which of its columns are not used."""
        there = sheet.sources[0].names
        absent = [name for name in self.columns if name not in there]
        if absent:
            raise TableError(
                f"'{sheet.name}' lacks the column{'s' if len(absent) > 1 else ''} {', '.join(map(repr, absent))} "
                "that its model was trained on; give a file with the columns of the training files."
            )
        known = {*self.seen, *self.columns, *sheet.labels, sheet.id}
        extra = [name for name in there if name not in known]
        return tuple(f"column '{name}' was not in the training files and is not used" for name in extra)

    def apply(self, sheet: Sheet, rows: Any = None) -> np.ndarray:
        """The prepared columns of some rows, in their order: float32 [rows, width], a batch at a time."""
        self.check(sheet)
        out = np.zeros((WantedRows(rows, sheet.rows).count, self.width), np.float32)
        for piece in sheet.pieces(self.columns, rows) if self.columns else ():
            out[piece.places] = self._block(piece)
        return out

    def table(self, sheet: Sheet, rows: Any = None, name: str | None = None) -> Table:
        """The party's table of some rows, without labels; it refers to this preparation."""
        ids = sheet.ids_at(rows)
        columns = self.apply(sheet, rows) if self.width else None
        title = sheet.name if name is None else name
        return Table(ids, columns, name=title, column_names=self.column_names, preparation=self)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The preparation as plain data and arrays, for :meth:`from_state`."""
        from colonnade.tables.prepare.preparation_state import to_state  # imported late: that module imports this class

        return to_state(self)

    @staticmethod
    def from_state(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Preparation:
        """The preparation from the result of :meth:`state`."""
        from colonnade.tables.prepare.preparation_state import from_state

        return from_state(facts, arrays)

    def _block(self, piece: Piece) -> np.ndarray:
        block = np.zeros((len(piece.rows), self.width), np.float32)
        at = 0
        for number in self.numbers:
            until = at + len(number.titles)
            number.fill(piece.numbers(number.column), block[:, at:until])
            at = until
        for category in self.categories:
            texts = piece.texts(category.column)
            until = at + (1 if self.way == "embed" else len(category.titles))
            if self.way == "embed":
                block[:, at] = category.codes(texts)
            else:
                category.fill(texts, block[:, at:until])
            at = until
        return block


def fit(
    sheet: Sheet,
    rows: Any = None,
    *,
    numbers: str = "standard",
    categories: str = "one-hot",
    most: int | None = None,
    rarest: int = 1,
) -> Preparation:
    """Learn a sheet's preparation from its training rows.

    ``numbers`` are scaled to mean 0 and deviation 1 ("standard") or by rank to a normal distribution ("quantile").
    ``categories`` become "one-hot" columns or codes to "embed". A column of more than ``most`` different texts is
    refused (256 one-hot, 10,000 embedded); texts of fewer than ``rarest`` rows share the category "other".
    """
    if numbers not in SCALES:
        raise unknown("scale of numbers", numbers, SCALES)
    if categories not in WAYS:
        raise unknown("way with categories", categories, WAYS)
    most, rarest = _from_one(MOST[categories] if most is None else most, "most"), _from_one(rarest, "rarest")
    _warn_of_dates(sheet)
    by_kind = {kind: [name for name, own in sheet.kinds.items() if own == kind] for kind in (NUMBER, CATEGORY, EMPTY)}
    scaled = {name: fit_number(name, values, numbers) for name, values in _raw_numbers(sheet, by_kind[NUMBER], rows)}
    counted = _count(sheet, by_kind[CATEGORY], rows, most)
    encoded = {name: counts.category(rarest) for name, counts in counted.items()}
    dropped = [name for name, learnt in {**scaled, **encoded}.items() if learnt is None]
    notes = [f"column '{name}' is the same in all training rows and is dropped" for name in dropped]
    notes += [f"column '{name}' is empty and is dropped" for name in by_kind[EMPTY]]
    notes += [f"column '{name}' holds {sheet.kinds[name]} values and is left out" for name in _unusable(sheet)]
    return Preparation(
        tuple(number for number in scaled.values() if number is not None),
        tuple(category for category in encoded.values() if category is not None),
        categories,
        tuple(sheet.sources[0].names),
        tuple(notes),
    )


def _raw_numbers(sheet: Sheet, columns: list[str], rows: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Number columns one by one; as many are read at a time as fit into a piece of memory."""
    count = WantedRows(rows, sheet.rows).count
    together = max(1, _BYTES // max(1, 8 * count))
    for start in range(0, len(columns), together):
        names = columns[start : start + together]
        values = np.empty((len(names), count))
        for piece in sheet.pieces(names, rows):
            for k, name in enumerate(names):
                values[k, piece.places] = piece.numbers(name)
        yield from zip(names, values, strict=True)


def _count(sheet: Sheet, columns: list[str], rows: Any, most: int) -> dict[str, Counts]:
    counts = {name: Counts(sheet.name, name, most) for name in columns}
    for piece in sheet.pieces(columns, rows) if columns else ():
        for name, count in counts.items():
            count.add(piece.texts(name))
    return counts


def _unusable(sheet: Sheet) -> list[str]:
    return [name for name, kind in sheet.kinds.items() if kind in (DATE, OTHER)]


def _warn_of_dates(sheet: Sheet) -> None:
    names = _unusable(sheet)
    if names:
        warnings.warn(
            f"{', '.join(map(repr, names))} of '{sheet.name}' hold dates or values that are neither numbers nor "
            "categories and are left out; turn them into numbers first if they matter, or list them in leave_out.",
            ColonnadeWarning,
            stacklevel=4,
        )


def _from_one(value: int, what: str) -> int:
    count = whole(value, what)
    if count < 1:
        raise ConfigError(f"{what}={value} is out of range; give a whole number from 1.")
    return count
