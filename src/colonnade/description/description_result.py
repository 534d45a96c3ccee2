"""The result of a description: every column's figures, what was told to whom, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.description.column_figures import BinFigures, ColumnFigures
from colonnade.disk.csv_text import csv_text
from colonnade.errors import ConfigError
from colonnade.wire.ledger import Ledger

_COLUMN_FIELDS = ("party", "column", "kind", "target", "iv", "correlation", "missing", "stability")
_BIN_FIELDS = ("title", "rows", "positives", "negatives", "woe", "mean")


@dataclass(frozen=True)
class Description:
    """What :func:`colonnade.describe` found; it is the owner's, because it is made of the labels.

    ``columns`` has the figures of every column, one for each target: the class that is asked for (two classes), each
    class against the others, each label, or the values to predict.
    """

    task: str
    rows: int
    columns: tuple[ColumnFigures, ...]
    minimum: dict[str, int]
    """The rows of the smallest bin that each party allows."""
    sigma: dict[str, float]
    """The deviation of each party's noise on a count; 0 without noise."""
    notes: tuple[str, ...]
    """Which columns were left out, and why."""
    opened: tuple[str, ...]
    """What each side learnt, in plain sentences."""
    seconds: float
    """CPU seconds of all sides together."""
    ledger: Ledger = field(repr=False)

    @property
    def bytes(self) -> int:
        """All bytes that the description sent."""
        return self.ledger.total

    @property
    def strongest(self) -> list[ColumnFigures]:
        """All columns, those that tell most about their target first."""
        return sorted(self.columns, key=lambda column: -column.strength)

    def column(self, party: str, name: str, target: str | None = None) -> ColumnFigures:
        """One column's figures, against one of the targets if there are several."""
        for column in self.columns:
            if (column.party, column.column) == (party, name) and target in (None, column.target):
                return column
        against = "" if target is None else f" against '{target}'"
        raise ConfigError(f"'{party}' has no described column '{name}'{against}; print the description to see all.")

    def to_csv(self, table: str = "columns") -> str:
        """A table as CSV text: one line per "columns", or one per bin of every column ("bins")."""
        if table not in ("columns", "bins"):
            raise ConfigError(f"table={table!r} is unknown; give 'columns' or 'bins'.")
        if table == "columns":
            return csv_text(
                _COLUMN_FIELDS, ([getattr(column, name) for name in _COLUMN_FIELDS] for column in self.columns)
            )
        whose = _COLUMN_FIELDS[:4]
        bins = [(column, one) for column in self.columns for one in column.bins]
        rows = ([*(getattr(column, name) for name in whose), *_plain(one).values()] for column, one in bins)
        return csv_text([*whose, *_BIN_FIELDS], rows)

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        columns = [
            {**{name: getattr(column, name) for name in _COLUMN_FIELDS}, "bins": list(map(_plain, column.bins))}
            for column in self.columns
        ]
        plain = ("task", "rows", "minimum", "sigma", "seconds", "bytes")
        lists = {"columns": columns, "notes": list(self.notes), "opened": list(self.opened)}
        return {**{name: getattr(self, name) for name in plain}, **lists}

    @staticmethod
    def from_json(kept: Mapping[str, Any]) -> Description:
        """A description that was written as plain data, with the lines of its ledger as ``ledger``."""
        ledger = Ledger()
        ledger.replace(kept["ledger"])
        columns = [
            ColumnFigures(**{name: column[name] for name in _COLUMN_FIELDS}, bins=tuple(map(_bin, column["bins"])))
            for column in kept["columns"]
        ]
        plain: dict[str, Any] = {name: kept[name] for name in ("task", "rows", "minimum", "sigma", "seconds")}
        lists: dict[str, Any] = {name: tuple(kept[name]) for name in ("notes", "opened")}
        return Description(**plain, **lists, columns=tuple(columns), ledger=ledger)

    def lines(self) -> list[tuple[str, ...]]:
        """The table of columns as texts, the head first and the strongest column next."""
        several = len({column.target for column in self.columns}) > 1
        head = ("column", "party", *(["target"] if several else []), "IV", "correlation", "missing", "stability")
        return [head, *(self._line(column, several) for column in self.strongest)]

    def _line(self, column: ColumnFigures, several: bool) -> tuple[str, ...]:
        least = self.minimum.get(column.party, 0) / self.rows
        absent = f"< {100 * least:.1f} %" if column.missing is None else f"{100 * column.missing:.1f} %"
        numbers = [_short(column.iv), _short(column.correlation), absent, _short(column.stability)]
        return (column.column, column.party, *([column.target] if several else []), *numbers)

    def __str__(self) -> str:
        lines = self.lines()
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        shown = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        cost = f"{self.rows:,} rows, {self.bytes:,} bytes, {self.seconds:.1f} CPU seconds"
        return "\n".join([*shown, cost, *self.notes, *self.opened])


def _bin(kept: Mapping[str, Any]) -> BinFigures:
    return BinFigures(*(kept[name] for name in BinFigures._fields))


def _plain(one: BinFigures) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _BIN_FIELDS}


def _short(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"
