"""Arrow values in the two forms that a preparation reads: numbers, with NaN for missing ones, and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import TableError, printable
from colonnade.tables.sheets.arrow import arrow, as_texts
from colonnade.tables.sheets.id_rules import WHOLE, is_text

MISSING = ("", "?", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "Null", "null")
_YES, _NO = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
_LARGEST = float(np.finfo(np.float32).max)  # some files use the largest number of a type for "missing"
_DATE = (
    r"^([0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4})"
    r"([T ][0-9]{1,2}:[0-9]{2}.*)?$"
)


@dataclass(frozen=True)
class Words:
    """How to read texts: those that mean a missing value, and the decimal sign."""

    missing: tuple[str, ...] = MISSING
    decimal: str = "."

    def cleaned(self, texts: Any) -> Any:
        """Texts without surrounding white space, null for those that mean a missing value."""
        pa, pc = arrow(), arrow("pyarrow.compute")
        texts = pc.utf8_trim_whitespace(as_texts(texts))
        absent = pc.is_in(texts, value_set=pa.array(self.missing, pa.string()))
        return pc.if_else(absent, pa.scalar(None, pa.string()), texts)

    def as_numbers(self, cleaned: Any) -> np.ndarray | None:
        """Cleaned texts as float64, or None if one of them is no number."""
        pa, pc = arrow(), arrow("pyarrow.compute")
        if self.decimal != ".":
            cleaned = pc.replace_substring(cleaned, pattern=self.decimal, replacement=".")
        try:
            return floats(pc.cast(cleaned, pa.float64()))
        except pa.ArrowInvalid:
            pass
        for words, digit in ((_YES, "1"), (_NO, "0")):
            cleaned = pc.if_else(pc.is_in(cleaned, value_set=pa.array(words)), digit, cleaned)
        try:
            return floats(pc.cast(cleaned, pa.float64()))
        except pa.ArrowInvalid:
            return None


@dataclass(frozen=True)
class Piece:
    """Some of the wanted rows of some columns; ``places`` are their places among all wanted rows."""

    sheet: str
    words: Words
    places: np.ndarray
    rows: np.ndarray
    values: dict[str, Any]

    def numbers(self, column: str) -> np.ndarray:
        """A column as float64; NaN where a value is missing or not finite."""
        pa, pc = arrow(), arrow("pyarrow.compute")
        values = _decoded(self.values[column])
        if is_text(values.type):
            cleaned = self.words.cleaned(values)
            numbers = self.words.as_numbers(cleaned)
            if numbers is None:
                raise self._no_number(column, cleaned)
            return numbers
        try:
            return floats(pc.cast(values, pa.float64(), safe=False))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise TableError(
                f"column '{column}' of '{self.sheet}' holds {values.type} values where numbers are expected; "
                "leave it out, or turn it into numbers first."
            ) from None

    def texts(self, column: str) -> Any:
        """A column as an Arrow array of texts, null where a value is missing."""
        pa, pc = arrow(), arrow("pyarrow.compute")
        values = _decoded(self.values[column])
        if is_text(values.type):  # pandas writes the number 7 as 7.0 in a column with missing values
            return pc.replace_substring_regex(self.words.cleaned(values), pattern=WHOLE, replacement=r"\1")
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_finite(values), values, None)
        try:
            return as_texts(values)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise TableError(
                f"column '{column}' of '{self.sheet}' holds {values.type} values where categories are expected; "
                "leave it out, or turn it into texts first."
            ) from None

    def _no_number(self, column: str, cleaned: Any) -> TableError:
        present = [(row, text) for row, text in zip(self.rows, cleaned.to_pylist(), strict=True) if text is not None]
        row, text = next(pair for pair in present if self.words.as_numbers(arrow().array([pair[1]])) is None)
        return TableError(
            f"column '{column}' of '{self.sheet}' holds {text!r:.60} in row {row + 1} where a number is expected; "
            "correct the file, or read the column among categories."
        )


def floats(values: Any) -> np.ndarray:
    """Arrow numbers as a float64 array, with NaN for missing values and those that are infinite in float32."""
    pc = arrow("pyarrow.compute")
    numbers = np.array(pc.fill_null(values, float("nan")).to_numpy(zero_copy_only=False), np.float64)
    numbers[~(np.abs(numbers) <= _LARGEST)] = np.nan
    return numbers


def looks_like_dates(cleaned: Any) -> bool:
    """Whether all cleaned texts that are not null are dates such as 2024-01-31 or 31.01.2024."""
    pc = arrow("pyarrow.compute")
    return bool(pc.all(pc.match_substring_regex(cleaned, pattern=_DATE), min_count=0).as_py())


def examples(texts: Sequence[str | None], most: int = 3) -> str:
    """The first few different texts, to be shown only to the party itself."""
    different = list(dict.fromkeys(text for text in texts if text is not None))
    return ", ".join(printable(f"{text:.20}") for text in different[:most])


def _decoded(values: Any) -> Any:
    return values.dictionary_decode() if arrow().types.is_dictionary(values.type) else values
