"""A split by date: the owner's date column decides which rows are to train on and which to test on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime
from typing import Any

import numpy as np

from colonnade.errors import ConfigError, TableError, unknown
from colonnade.tables.prepare.dates import HOW, ZONED, date_of, dates_of
from colonnade.tables.prepare.row_parts import RowParts
from colonnade.tables.sheets import Sheet

MISSING = ("refuse", "leave out")
_WORDS = {"Y": "years", "M": "months", "D": "days", "s": "times"}


@dataclass(frozen=True)
class TimeSplit:
    """Rows whose date in the owner's ``column`` is ``after`` or later are to test on, all earlier ones to train on.

    ``after`` is a year, a month, a day or a time; in a column of months it is not the middle of one. Rows without a
    date are refused, or with ``missing="leave out"`` left out of both parts. The column is no input of the model unless
    ``feature`` says so.

    >>> TimeSplit("month", 202406)
    TimeSplit(column='month', after='202406', missing='refuse', feature=False)
    """

    column: str
    after: Any
    missing: str = "refuse"
    feature: bool = False

    def __post_init__(self) -> None:
        for name, kind, words in (("column", str, "a column's name"), ("feature", bool, "true or false")):
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} = {getattr(self, name)!r:.60} in split is not {words}.")
        if self.missing not in MISSING:
            raise unknown("way with missing dates", self.missing, MISSING)
        object.__setattr__(self, "after", _text(self.after))
        self._after()

    @staticmethod
    def of(given: TimeSplit | Mapping[str, Any]) -> TimeSplit:
        """The split that somebody gave, as one or as its fields."""
        if isinstance(given, TimeSplit):
            return given
        known = [field.name for field in fields(TimeSplit)]
        if not isinstance(given, Mapping) or not {"column", "after"} <= given.keys():
            raise ConfigError(
                f"split = {given!r:.80} does not say by what; write {{column = 'month', after = '2024-06'}}."
            )
        for name in given:
            if name not in known:
                raise unknown("key of split", name, known)
        return TimeSplit(**given)

    @property
    def plain(self) -> dict[str, Any]:
        """Its fields, as JSON and TOML have them."""
        return asdict(self)

    def learns(self, owner: str) -> str:
        """What the parties learn from it, in one sentence."""
        also = ", earlier or missing" if self.missing == "leave out" else ""
        return (
            f"Every party learns of each common row whether its date in column '{self.column}' of '{owner}' is "
            f"{self.after} or later{also}."
        )

    def check(self, owner: Sheet, others: Sequence[Sheet] = ()) -> None:
        """Refuse an owner's sheet that cannot be split so, before its ids are compared with anybody's."""
        self.check_column(owner, others)
        self.parts(owner, np.arange(owner.rows))

    def check_column(self, owner: Sheet, others: Sequence[Sheet] = ()) -> None:
        """Refuse a column that the owner does not have, or that has another use."""
        if self.column in (owner.id, *owner.labels):
            use = "id" if self.column == owner.id else "label"
            raise ConfigError(f"column '{self.column}' of '{owner.name}' is its {use}, so it cannot split the rows.")
        if self.column in owner.sources[0].names:
            return
        elsewhere = [sheet.name for sheet in others if self.column in sheet.sources[0].names]
        there = f"; '{elsewhere[0]}' has it, but" if elsewhere else ";"
        raise TableError(
            f"'{owner.name}' has no column '{self.column}' to split by{there} only the owner's dates decide: add it to "
            "the owner's file, or name one of its columns."
        )

    def inputs_of(self, owner: Sheet) -> Sheet:
        """The owner's sheet whose columns are inputs of the model."""
        return owner if self.feature else owner.leaving_out(self.column)

    def parts(self, owner: Sheet, rows: np.ndarray) -> RowParts:
        """Which of the owner's aligned rows are in which part; there is at least one row in each."""
        dates = dates_of(owner, self.column, rows, leave_out=self.missing == "leave out")
        start = self._start(owner, dates)
        known, later = ~np.isnat(dates), dates >= start
        parts = RowParts(np.flatnonzero(known & ~later), np.flatnonzero(known & later), dates)
        if not len(parts.test):
            raise self._one_sided(owner, f"before {self.after}, the last at {dates[known].max()}; give an earlier date")
        if not len(parts.train):
            first = dates[known].min()
            raise self._one_sided(owner, f"at {self.after} or later, the first at {first}; give a later date")
        return parts

    def _start(self, owner: Sheet, dates: np.ndarray) -> np.datetime64:
        """The first test date, in the unit of the column."""
        (kind, start), unit = self._after(), np.datetime_data(dates.dtype)[0]
        if start.astype(dates.dtype).astype("datetime64[s]") != start:
            raise ConfigError(
                f"after = '{self.after}' is {kind} and column '{self.column}' of '{owner.name}' holds {_WORDS[unit]}, "
                "which do not say on which side of it they lie; give one of those."
            )
        return start.astype(dates.dtype)  # type: ignore[no-any-return]

    def _after(self) -> tuple[str, np.datetime64]:
        found = date_of(self.after)
        if found is None or found.kind == ZONED:
            what = "no date" if found is None else "a time of a zone"
            raise ConfigError(f"after = '{self.after:.60}' in split is {what}; write {HOW}, without a zone.")
        return found

    def _one_sided(self, owner: Sheet, where: str) -> TableError:
        return TableError(
            f"all rows of '{owner.name}' that could be used lie, by column '{self.column}', {where}, so that there are "
            "rows to train on and rows to test on."
        )


def _text(after: Any) -> str:
    """A date as a text: TOML has dates of its own, and 202406 is a number."""
    if isinstance(after, date | datetime):
        return after.isoformat(" ") if isinstance(after, datetime) else after.isoformat()
    if isinstance(after, bool) or not isinstance(after, str | int):
        raise ConfigError(f"after = {after!r:.60} in split is no date; write {HOW}.")
    return str(after).strip()
