"""The kind of a column: as the job lists it, else by its type in Parquet, or by all of its texts in CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.id_rules import is_text
from colonnade.tables.sheets.values import Words, looks_like_dates

NUMBER, CATEGORY, DATE = "number", "category", "date"
EMPTY, OTHER, LEFT_OUT = "empty", "other", "left out"


class Guess:
    """The kind of one column of texts, from all batches of it."""

    def __init__(self, words: Words, text: bool) -> None:
        self.words, self.present = words, False
        self.number, self.date = not text, True  # a column that is typed as text stays text

    def watch(self, texts: Any) -> None:
        """Take the texts of one more batch into account."""
        cleaned = self.words.cleaned(texts)
        if cleaned.null_count == len(cleaned):
            return
        self.present = True
        self.number = self.number and self.words.as_numbers(cleaned) is not None
        self.date = self.date and not self.number and looks_like_dates(cleaned)

    @property
    def kind(self) -> str:
        """The kind that fits all texts so far."""
        if not self.present:
            return EMPTY
        return NUMBER if self.number else DATE if self.date else CATEGORY


def kind_of_type(kind: Any) -> str:
    """The kind of a typed column; a column of texts is a category unless its texts show another kind."""
    types = arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return NUMBER
    if types.is_temporal(kind):
        return DATE
    if types.is_null(kind):
        return EMPTY
    return CATEGORY if is_text(kind) else OTHER


def listed_kinds(numbers: Sequence[str], categories: Sequence[str], leave_out: Sequence[str]) -> dict[str, str]:
    """The kinds that a job states."""
    return {
        **dict.fromkeys(numbers, NUMBER),
        **dict.fromkeys(categories, CATEGORY),
        **dict.fromkeys(leave_out, LEFT_OUT),
    }
