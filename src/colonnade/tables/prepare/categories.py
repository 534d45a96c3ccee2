"""Category columns: the texts that occurred in training, as one column each or as codes for a learnt embedding.

Texts of fewer rows than ``rarest`` share the category "other". At prediction, texts that training never saw are "other"
too, or all zeros if training had no such category. A missing value is a category of its own if training had some.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import TableError
from colonnade.tables.sheets.arrow import arrow

WAYS = ("one-hot", "embed")
MOST = {"one-hot": 256, "embed": 10_000}
_FEW = 50  # with fewer different texts, nearly as many texts as rows are no problem


@dataclass(frozen=True)
class Category:
    """One column as it was in training: its distinguished texts, and whether some were missing or rare."""

    column: str
    kept: tuple[str, ...]
    missing: bool
    other: bool

    @property
    def cardinality(self) -> int:
        """How many codes there are: 0 for rare or unseen texts, one for each text, one for missing values."""
        return 1 + len(self.kept) + self.missing

    @property
    def titles(self) -> tuple[str, ...]:
        """The names of its one-hot columns."""
        words = [*self.kept, *(["missing"] if self.missing else []), *(["other"] if self.other else [])]
        return tuple(f"{self.column}={word}" for word in words)

    def codes(self, texts: Any) -> np.ndarray:
        """A code from 0 for each of an Arrow array of texts."""
        pa, pc = arrow(), arrow("pyarrow.compute")
        places = pc.fill_null(pc.index_in(texts, value_set=pa.array(self.kept, pa.string())), -1)
        codes = np.asarray(places.to_numpy(zero_copy_only=False)).astype(np.int64) + 1
        if self.missing and texts.null_count:
            codes[texts.is_null().to_numpy(zero_copy_only=False)] = len(self.kept) + 1
        return codes

    def fill(self, texts: Any, out: np.ndarray) -> None:
        """Write the ones of the one-hot columns into an array of zeros [rows, len(titles)]."""
        codes = self.codes(texts)
        column = np.where(codes > 0, codes - 1, len(self.titles) - 1 if self.other else -1)
        rows = np.flatnonzero(column >= 0)
        out[rows, column[rows]] = 1

    def words(self, prepared: np.ndarray, way: str) -> np.ndarray:
        """The column before its preparation, from codes or one-hot columns: texts, "other", None for missing values."""
        if way == "embed":
            texts = np.array(["other", *self.kept, None], object)
            return np.asarray(texts[prepared[:, 0].astype(np.int64)])
        texts = np.array([*self.kept, *([None] if self.missing else []), "other"], object)
        known = prepared.any(axis=1)  # a text that training never saw has no column if training had no "other"
        return np.asarray(np.where(known, texts[prepared.argmax(axis=1)], "other"))


class Counts:
    """How many rows have each text of one column, counted batch by batch."""

    def __init__(self, sheet: str, column: str, most: int) -> None:
        self.sheet, self.column, self.most = sheet, column, most
        self.seen: Counter[str] = Counter()
        self.missing = 0

    def add(self, texts: Any) -> None:
        """Count the texts of a batch, and stop early if there are too many different ones."""
        counts = arrow("pyarrow.compute").value_counts(texts.drop_null())
        self.seen.update(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)))
        self.missing += texts.null_count
        if len(self.seen) > self.most:
            raise self._explosion(f"more than {self.most} different texts", f", or raise most= above {self.most}")

    def category(self, rarest: int) -> Category | None:
        """The category that was learnt, or None if the column has the same value in every row."""
        rows = sum(self.seen.values())
        if len(self.seen) > max(_FEW, rows // 2):
            raise self._explosion(f"{len(self.seen)} different texts in {rows} rows, nearly one for each", "")
        kept = tuple(sorted(text for text, count in self.seen.items() if count >= rarest))
        category = Category(self.column, kept, self.missing > 0, len(kept) < len(self.seen))
        return category if len(self.seen) + category.missing > 1 else None

    def _explosion(self, what: str, other: str) -> TableError:
        return TableError(
            f"category column '{self.column}' of '{self.sheet}' has {what}; leave it out with "
            f"leave_out=['{self.column}'], list it among numbers if it holds some{other}."
        )
