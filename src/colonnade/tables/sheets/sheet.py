"""One organisation's raw files. Only the ids are kept in memory; columns are read when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import TableError, printable
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.id_rules import id_texts
from colonnade.tables.sheets.kinds import CATEGORY, LEFT_OUT, NUMBER
from colonnade.tables.sheets.names import shown_names
from colonnade.tables.sheets.paths import File, digest_of
from colonnade.tables.sheets.row_rules import RowRules
from colonnade.tables.sheets.rows import WantedRows
from colonnade.tables.sheets.values import Piece, Words, examples

_LONG_ID = 64  # characters; with longer ids numpy's fixed-width texts would take too much memory


@dataclass(frozen=True, eq=False)
class Sheet:
    """The result of :func:`colonnade.read`: ids in memory, everything else in the files.

    ``kinds`` says of every column but the id and the label whether it is a "number", a "category", a "date", "empty",
    something "other", or "left out". ``digest`` is the SHA-256 of the files, as they were when they were read.
    """

    name: str
    id: str
    label: str | tuple[str, ...] | None
    kinds: dict[str, str]
    rule: tuple[str, ...]
    digest: str
    rows: int
    words: Words = field(repr=False)
    sources: tuple[File, ...] = field(repr=False)
    id_texts: Any = field(repr=False)
    """The normalised ids as an Arrow array, a third of the memory of ``ids``."""
    row_rules: RowRules = field(default_factory=RowRules)
    kept: np.ndarray | None = field(default=None, repr=False)
    """Which rows of the files these are, if the rules took some away."""

    @cached_property
    def ids(self) -> np.ndarray:
        """The normalised ids, one text per row."""
        return self.ids_at(None)

    def ids_at(self, rows: Any) -> np.ndarray:
        """The normalised ids of these rows, in their order; of all rows if ``None``."""
        pc = arrow("pyarrow.compute")
        texts = self.id_texts if rows is None else self.id_texts.take(arrow().array(np.asarray(rows, np.int64)))
        longest = pc.max(pc.utf8_length(texts)).as_py() or 1
        ids = np.empty(len(texts), object if longest > _LONG_ID else f"<U{longest}")
        at = 0
        for chunk in texts.chunks:
            for start in range(0, len(chunk), 1 << 16):  # at most this number of Python strings at a time
                piece = chunk.slice(start, 1 << 16)
                ids[at : at + len(piece)] = piece.to_numpy(zero_copy_only=False)
                at += len(piece)
        return ids

    def own_ids_at(self, rows: Any) -> np.ndarray:
        """The ids of these rows as the files have them, which other tables of this organisation are joined by."""
        own = np.empty(WantedRows(rows, self.rows).count, object)
        for piece in self.pieces([self.id], rows):
            texts = id_texts(piece.values[self.id], self.name, self.id)
            own[piece.places] = texts.to_numpy(zero_copy_only=False)
        return own

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the rows."""
        return tuple(source.path for source in self.sources)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label columns: none, one, or several."""
        return (self.label,) if isinstance(self.label, str) else self.label or ()

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that a preparation uses: numbers and categories."""
        return tuple(name for name, kind in self.kinds.items() if kind in (NUMBER, CATEGORY))

    def leaving_out(self, column: str) -> Sheet:
        """The same sheet, in which this column is no input of a model."""
        return replace(self, kinds={**self.kinds, column: LEFT_OUT})

    def check_unchanged(self) -> None:
        """Refuse to go on if the files have changed since they were read."""
        now = self.row_rules.digest(digest_of(self.sources))
        if now != self.digest:
            raise TableError(
                f"the files of '{self.name}' have changed since they were read (SHA-256 {now[:12]}..., it was "
                f"{self.digest[:12]}...); read and align them again."
            )

    def pieces(self, columns: Sequence[str], rows: Any = None) -> Iterator[Piece]:
        """The wanted rows of some columns, a batch at a time, in the order of the files."""
        self.check_columns(columns)
        wanted = WantedRows(rows, self.rows, self.kept)
        start = 0
        for source in self.sources:
            yield from self._pieces_of(source, start, columns, wanted)
            start += source.rows

    def _pieces_of(self, source: File, start: int, columns: Sequence[str], wanted: WantedRows) -> Iterator[Piece]:
        pc = arrow("pyarrow.compute")
        asked = dict.fromkeys(columns)
        for at, batch in source.batches(list(asked), lambda low, high: wanted.any_within(start + low, start + high)):
            first = start + at
            numbers, places = wanted.within(first, first + batch.num_rows)
            if len(numbers):
                whole = len(numbers) == batch.num_rows and numbers[-1] - numbers[0] + 1 == len(numbers)
                taken = batch if whole else pc.take(batch, arrow().array(numbers - first))
                yield Piece(self.name, self.words, places, numbers, {name: taken.column(name) for name in asked})

    def columns(self, columns: Sequence[str] | None = None, rows: Any = None) -> dict[str, np.ndarray]:
        """Raw columns as arrays: float32 for numbers, NaN where one is missing; texts, or None, for all others."""
        names = list(self.features if columns is None else columns)
        wanted = WantedRows(rows, self.rows)
        kinds = {name: np.float32 if self.kinds.get(name) == NUMBER else object for name in names}
        arrays: dict[str, np.ndarray] = {name: np.empty(wanted.count, kind) for name, kind in kinds.items()}
        for piece in self.pieces(names, rows):
            for name, kind in kinds.items():
                values = piece.numbers(name) if kind is np.float32 else piece.texts(name).to_numpy(zero_copy_only=False)
                arrays[name][piece.places] = values
        return arrays

    def __len__(self) -> int:
        return self.rows

    def describe(self) -> str:
        """A table of the columns for the party itself: kind, number of missing values, a few examples."""
        missing = dict.fromkeys(self.kinds, 0)
        shown: dict[str, list[str | None]] = {name: [] for name in self.kinds}
        for piece in self.pieces(list(self.kinds)):
            for name in self.kinds:
                texts = _any_texts(piece, name)
                missing[name] += texts.null_count
                shown[name] += texts.slice(0, 100).to_pylist() if len(shown[name]) < 100 else []
        lines = [("column", "kind", "missing", "examples")]
        lines += [(printable(n, 60), kind, str(missing[n]), examples(shown[n])) for n, kind in self.kinds.items()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in lines
        )

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that the files do not have, by name."""
        there = dict.fromkeys(self.sources[0].names)
        absent = [name for name in dict.fromkeys(columns) if name not in there]
        if absent:
            raise TableError(
                f"'{self.name}' has no column {', '.join(map(repr, absent[:10]))}; it has {shown_names([*there])}."
            )


def _any_texts(piece: Piece, name: str) -> Any:
    try:
        return piece.texts(name)
    except TableError:  # lists and similar values, which are left out anyway
        pa = arrow()
        return pa.array([None if value is None else "..." for value in piece.values[name].to_pylist()], pa.string())
