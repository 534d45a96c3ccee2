"""A column of dates: years, months, days or times, written in ISO's way or as numbers, or typed in Parquet."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from colonnade.errors import TableError
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.rows import WantedRows
from colonnade.tables.sheets.values import Piece

YEAR, MONTH, DAY, TIME, UTC, ZONED = "a year", "a month", "a day", "a time", "a time in UTC", "a time of another zone"
UNITS = {YEAR: "Y", MONTH: "M", DAY: "D", TIME: "s", UTC: "s"}
HOW = "2024, 2024-06, 202406, 2024-06-30, 20240630 or 2024-06-30 17:45"
_FORM = re.compile(
    r"(\d{4})(?:(?P<sign>[-/]?)(\d{2})(?:(?P=sign)(\d{2})"
    r"(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:[.,]\d+)?(Z|[+-]\d{2}(?::?\d{2})?)?)?)?)?"
)
_NONE = np.datetime64("NaT", "s")


class Date(NamedTuple):
    """One date, to the second of its beginning, and its kind."""

    kind: str
    start: np.datetime64


class DateExample(NamedTuple):
    """A text of the column, and the row in which it stands, from 1."""

    text: str
    row: int


def date_of(text: str) -> Date | None:
    """The date that a text is, or None.

    >>> date_of("2024-06"), date_of("20240630").kind, date_of("June")
    (Date(kind='a month', start=np.datetime64('2024-06-01T00:00:00')), 'a day', None)
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, _, month, day, clock, zone = found.groups()
    kind = TIME if clock else DAY if day else MONTH if month else YEAR
    if zone:
        kind = UTC if zone.strip("Z+-0:") == "" else ZONED
    try:
        whole = "-".join(filter(None, [year, month, day])) + (f"T{clock}" if clock else "")
        return Date(kind, np.datetime64(whole).astype("datetime64[s]"))
    except ValueError:  # the thirteenth month, the thirtieth of February
        return None


def dates_of(sheet: Sheet, column: str, rows: Any = None, *, leave_out: bool = False) -> np.ndarray:
    """The dates of some rows, in their order: ``datetime64`` in the unit that the column has (Y, M, D or s).

    Rows without a date, or with a text that is none, are refused; with ``leave_out`` they are NaT.
    """
    reading = _DateReading(WantedRows(rows, sheet.rows).count)
    for piece in sheet.pieces([column], rows):
        reading.add(piece, column)
    return reading.finished(f"column '{column}' of '{sheet.name}'", leave_out=leave_out)


class _DateReading:
    """The dates of one column, batch by batch, with the first text of every kind."""

    def __init__(self, rows: int) -> None:
        self.starts = np.full(rows, _NONE)
        self.kinds: dict[str, DateExample] = {}
        self.bad: DateExample | None = None
        self.missing: list[int] = []

    def add(self, piece: Piece, column: str) -> None:
        """Read the dates of a batch; each different text is read once."""
        coded = piece.texts(column).dictionary_encode()
        texts = coded.dictionary.to_pylist()
        codes = np.asarray(coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False), np.int64)
        dates = [date_of(text) for text in texts]
        starts = np.array([*(_NONE if date is None else date.start for date in dates), _NONE], "datetime64[s]")
        self.starts[piece.places] = starts[codes]
        rows = piece.rows + 1
        if coded.indices.null_count:
            self.missing.append(int(rows[codes == len(texts)][0]))
        for code, (text, date) in enumerate(zip(texts, dates, strict=True)):
            if date is not None and date.kind not in self.kinds:
                self.kinds[date.kind] = DateExample(text, int(rows[codes == code][0]))
            if date is None and self.bad is None:
                self.bad = DateExample(text, int(rows[codes == code][0]))

    def finished(self, what: str, *, leave_out: bool) -> np.ndarray:
        """All dates, if they are of one kind."""
        self._refuse_zones(what)
        self._refuse_mixed(what)
        option = "leave such rows out by missing = 'leave out' in split"
        if self.bad is not None and not leave_out:
            raise TableError(
                f"{what} holds {self.bad.text!r:.60} in row {self.bad.row}, which is no date; write {HOW}, or {option}."
            )
        if self.missing and not leave_out:
            raise TableError(
                f"{what} has no date in {int(np.isnat(self.starts).sum())} rows, the first is row "
                f"{min(self.missing)}; fill them in, or {option}."
            )
        if not self.kinds:
            raise TableError(f"{what} holds no date at all; write {HOW}, or split by another column.")
        return self.starts.astype(f"datetime64[{UNITS[next(iter(self.kinds))]}]")

    def _refuse_zones(self, what: str) -> None:
        if ZONED in self.kinds:
            text, row = self.kinds[ZONED]
            raise TableError(
                f"{what} holds {text!r:.60} in row {row}, a time of a zone, which may lie on two days; write local "
                "times without a zone, or UTC, in all rows."
            )

    def _refuse_mixed(self, what: str) -> None:
        if len(self.kinds) > 1:
            (one, first), (other, second), *_ = self.kinds.items()
            raise TableError(
                f"{what} mixes kinds of dates: {first.text!r:.40} in row {first.row} is {one}, and {second.text!r:.40} "
                f"in row {second.row} is {other}; write all alike."
            )
