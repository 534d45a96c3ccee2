"""The owner's labels: classes by name, values to predict, or several yes-or-no questions at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from colonnade.errors import ConfigError, TableError, unknown
from colonnade.tables.sheets import Sheet
from colonnade.tables.sheets.rows import WantedRows

KINDS = ("classes", "values", "several")
_MOST_CLASSES = 1000


class LabelColumn(NamedTuple):
    """Labels in the order of the rows, and the names of the classes if they are classes."""

    values: np.ndarray
    classes: tuple[str, ...] = ()


def labels_of(sheet: Sheet, kind: str = "classes", rows: Any = None, classes: Sequence[str] = ()) -> LabelColumn:
    """The labels of some rows of a sheet, all of them if ``rows`` is None.

    - ``"classes"``: class numbers from 0 (int64). Classes are sorted, as numbers if all are numbers. ``classes`` gives
      those of an earlier run instead; then a label that is none of them is refused.
    - ``"values"``: numbers to predict, float32.
    - ``"several"``: one column per label column, 0 or 1, float32 [rows, labels].
    """
    if kind not in KINDS:
        raise unknown("kind of labels", kind, KINDS)
    if not sheet.labels:
        raise TableError(f"'{sheet.name}' has no label; read it with label=, the name of the label column.")
    if kind == "several":
        return LabelColumn(np.stack([_yes_or_no(sheet, column, rows) for column in sheet.labels], axis=1), sheet.labels)
    if len(sheet.labels) > 1:
        raise ConfigError(f"{len(sheet.labels)} label columns came for labels='{kind}'; give one, or labels='several'.")
    if kind == "values":
        return LabelColumn(_numbers(sheet, sheet.labels[0], rows).astype(np.float32))
    return _classes(sheet, sheet.labels[0], rows, tuple(classes))


def _classes(sheet: Sheet, column: str, rows: Any, known: tuple[str, ...]) -> LabelColumn:
    texts = _texts(sheet, column, rows)
    names, codes = np.unique(texts, return_inverse=True)
    if len(names) > _MOST_CLASSES:
        raise TableError(
            f"the label '{column}' of '{sheet.name}' has {len(names)} different values; "
            "if it is a number to predict, give labels='values' (a job: task = 'values'), else choose another column."
        )
    numbers = [_number(text) for text in names]
    if all(number is not None for number in numbers):
        names, codes = _by_number(sheet, column, np.array(numbers, np.float64), codes)
    if not known:
        return LabelColumn(codes, tuple(map(str, names)))
    strange = [str(text) for text in names if str(text) not in known]
    if strange:
        raise TableError(
            f"the label '{column}' of '{sheet.name}' holds {strange[0]!r:.60}, which is none of the classes "
            f"{', '.join(known)} of the training labels; correct it, or train again."
        )
    return LabelColumn(np.array([known.index(str(text)) for text in names], np.int64)[codes], known)


def _by_number(sheet: Sheet, column: str, numbers: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Classes that are numbers, in their order and with one name each: 1 and 1.0 are the same class."""
    if (numbers != np.round(numbers)).any():
        broken = numbers[numbers != np.round(numbers)][0]
        raise TableError(
            f"the label '{column}' of '{sheet.name}' holds {broken}, which is no class; if it is a number to predict, "
            "give labels='values' (a job: task = 'values')."
        )
    whole, inverse = np.unique(numbers.astype(np.int64), return_inverse=True)
    return whole.astype(str), inverse[codes]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) and abs(number) < 2**53 else None


def _texts(sheet: Sheet, column: str, rows: Any) -> np.ndarray:
    labels = np.empty(WantedRows(rows, sheet.rows).count, object)
    for piece in sheet.pieces([column], rows):
        texts = piece.texts(column)
        labels[piece.places] = texts.to_numpy(zero_copy_only=False)
    _refuse_missing(sheet, column, np.array([text is None for text in labels], bool), rows)
    return labels.astype(str)


def _numbers(sheet: Sheet, column: str, rows: Any) -> np.ndarray:
    labels = np.empty(WantedRows(rows, sheet.rows).count, np.float64)
    for piece in sheet.pieces([column], rows):
        labels[piece.places] = piece.numbers(column)
    _refuse_missing(sheet, column, np.isnan(labels), rows)
    return labels


def _yes_or_no(sheet: Sheet, column: str, rows: Any) -> np.ndarray:
    labels = _numbers(sheet, column, rows)
    wrong = np.flatnonzero((labels != 0) & (labels != 1))
    if len(wrong):
        raise TableError(
            f"the label '{column}' of '{sheet.name}' holds {labels[wrong[0]]:g} in row {_row(wrong[0], rows)}; "
            "with labels='several' every label is 0 or 1."
        )
    return labels.astype(np.float32)


def _refuse_missing(sheet: Sheet, column: str, gone: np.ndarray, rows: Any) -> None:
    if gone.any():
        raise TableError(
            f"{int(gone.sum())} rows of '{sheet.name}' have no label in column '{column}', the first is row "
            f"{_row(int(gone.argmax()), rows)}; fill or drop those rows."
        )


def _row(place: int, rows: Any) -> int:
    return int(place if rows is None else np.asarray(rows)[place]) + 1
