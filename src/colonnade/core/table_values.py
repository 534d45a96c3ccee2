"""What a constructor of tables makes of ids, columns, labels, known rows and dates; or one sentence why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import TableError


def check_same_rows(name: str, what: str, rows: int, ids: int) -> None:
    """Refuse columns, labels or dates that are not as many as the ids."""
    if rows != ids:
        raise TableError(f"table '{name}' has {ids} ids but {rows} rows of {what}; they must be as many.")


def ids_of(ids: Any, name: str) -> np.ndarray:
    """One id per row, all different."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise TableError(f"the ids of table '{name}' have {array.ndim} dimensions; give one id per row.")
    if len(array) == 0:
        raise TableError(f"table '{name}' is empty; it needs at least one row.")
    try:
        values, counts = np.unique(array, return_counts=True)
    except TypeError:
        raise TableError(f"the ids of table '{name}' mix kinds (or some are missing); give one id per row.") from None
    if counts.max() > 1:
        twice = values[counts.argmax()]
        raise TableError(
            f"table '{name}' has the id '{twice}' twice; ids must be unique: drop or merge the duplicates."
        )
    return array


def names_in(columns: Any) -> tuple[Any, ...]:
    """The names of the columns of a frame, be it of pandas, Polars or Arrow; none of an array."""
    kind = type(columns)
    if not hasattr(kind, "__arrow_c_stream__") and not hasattr(kind, "__dataframe__"):  # an older pandas has this
        return ()
    names = getattr(columns, "column_names" if hasattr(kind, "column_names") else "columns", ())
    return tuple(names)


def array_of(columns: Any) -> np.ndarray:
    """An array of what came; a frame column by column, for mixed kinds would become objects or texts."""
    names = names_in(columns)
    if not names or len(set(names)) < len(names):
        return np.asarray(columns)
    each = [np.asarray(columns[name]) for name in names]
    if any(column.dtype.kind not in "fiub" for column in each):
        each = [column.astype(object) for column in each]
    return np.column_stack(each)


def columns_of(columns: Any, name: str, column_names: tuple[str, ...]) -> Tensor:
    """The columns [rows, ...]: float32, or uint8 pixels as they are."""
    tensor = (
        columns.cpu()
        if isinstance(columns, Tensor)
        else torch.from_numpy(plain_array(_numbers(columns, name, column_names)))
    )
    if tensor.ndim < 2:
        raise TableError(f"the columns of table '{name}' have {tensor.ndim} dimensions; give one row per id.")
    if 0 in tensor.shape[1:]:
        raise TableError(f"table '{name}' has no columns in its rows (shape {tuple(tensor.shape)}).")
    if tensor.dtype == torch.uint8:
        return tensor
    tensor = tensor.to(torch.float32)
    least, greatest = tensor.aminmax()  # NaN if there is one; needs no extra memory, unlike isfinite
    if not bool(torch.isfinite(least) & torch.isfinite(greatest)):
        column = int(torch.nonzero(~torch.isfinite(tensor.flatten(1)))[0, 1])
        raise TableError(
            f"column {_column(column, column_names)} of table '{name}' holds NaN or infinite values; "
            "fill or drop them first."
        )
    return tensor


def known_of(known: Any, rows: int, name: str, *, has_columns: bool) -> Tensor | None:
    """Which rows are known, bool [rows]; None if all are."""
    if known is None:
        return None
    mask = torch.as_tensor(known).cpu()
    if mask.dtype != torch.bool or mask.ndim != 1:
        raise TableError(
            f"known of table '{name}' came as {mask.dtype} of shape {tuple(mask.shape)}; give one bool per row."
        )
    if len(mask) != rows:
        raise TableError(f"table '{name}' has {rows} ids but known says something of {len(mask)} rows; give one each.")
    if not has_columns:
        raise TableError(f"table '{name}' has no columns, so known says nothing; leave it out.")
    return None if bool(mask.all()) else mask


def without_unknown(columns: Tensor, known: Tensor) -> Tensor:
    """The columns with zeros in the rows that the party does not have, whatever stood there."""
    if not bool(columns[~known].any()):
        return columns
    columns = columns.clone()
    columns[~known] = 0
    return columns


def unaligned_of(rows: Any, columns: Tensor | None, name: str, column_names: tuple[str, ...]) -> Tensor | None:
    """The columns of rows that only the party has; None if there is none."""
    if rows is None or len(rows) == 0:
        return None
    if columns is None:
        raise TableError(f"table '{name}' has unaligned rows but no columns; give both, or neither.")
    tensor = columns_of(rows, name, column_names)
    if tensor.shape[1:] != columns.shape[1:] or tensor.dtype != columns.dtype:
        raise TableError(
            f"the unaligned rows of table '{name}' are {tensor.dtype} of shape {tuple(tensor.shape[1:])} and its "
            f"columns {columns.dtype} of shape {tuple(columns.shape[1:])}; prepare both alike."
        )
    return tensor


def plain_array(array: np.ndarray) -> np.ndarray:
    """The array itself if torch can share its memory, else a copy that torch can."""
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()


def _numbers(columns: Any, name: str, column_names: tuple[str, ...]) -> np.ndarray:
    try:
        array = array_of(columns)
    except ValueError:
        raise TableError(f"the rows of table '{name}' have different lengths; give each the same columns.") from None
    if array.dtype.kind in "fiub":
        return array
    if array.dtype.kind in "mMc":
        raise TableError(
            f"column {_column(0, column_names)} of table '{name}' holds {array.dtype} values, which are not plain "
            "numbers; turn them into numbers first."
        )
    for index, column in enumerate(array.T if array.ndim == 2 else []):
        try:
            column.astype(np.float32)
        except (TypeError, ValueError, OverflowError):
            text = next(v for v in column if not _is_number(v))
            text = str(text) if isinstance(text, str) else text  # numpy's own strings print with their type
            raise TableError(
                f"column {_column(index, column_names)} of table '{name}' holds {text!r:.60}, which is not a number; "
                "encode text columns first, as colonnade.read and colonnade.prepare do."
            ) from None
    try:
        return array.astype(np.float32)
    except (TypeError, ValueError):
        raise TableError(f"the columns of table '{name}' are not numbers; encode text columns first.") from None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _column(index: int, names: tuple[str, ...]) -> str:
    return f"'{names[index]}'" if index < len(names) else str(index)


def labels_of(labels: Any, name: str) -> Tensor:
    """Class numbers or values [rows], or several [rows, labels]: int64 if all are whole numbers, else float64."""
    if not isinstance(labels, Tensor):
        try:
            labels = np.asarray(labels)
        except ValueError:
            raise TableError(f"the labels of table '{name}' are ragged; give one class number per row.") from None
        if labels.dtype.kind not in "fiub":
            raise TableError(
                f"the labels of table '{name}' hold {labels.flat[0]!r:.60}; give class numbers from 0, "
                "for instance with numpy.unique(labels, return_inverse=True)."
            )
    tensor = labels.cpu() if isinstance(labels, Tensor) else torch.from_numpy(plain_array(labels))
    if tensor.ndim not in (1, 2) or (tensor.ndim == 2 and tensor.shape[1] < 2):
        raise TableError(
            f"the labels of table '{name}' have {tensor.ndim} dimensions, {tuple(tensor.shape)}; give one class number "
            "or value per row, or a matrix of several labels."
        )
    if not tensor.is_floating_point():
        return tensor.to(torch.int64)
    if not bool(torch.isfinite(tensor).all()):
        raise TableError(f"the labels of table '{name}' hold NaN or infinite values; drop those rows first.")
    exact = tensor.to(torch.float64)
    whole = (exact == exact.round()) & (exact.abs() < 2**53)
    return exact.to(torch.int64) if bool(whole.all()) else exact


def dates_of(dates: Any, name: str) -> np.ndarray:
    """One date per row, ``datetime64`` of the unit that came."""
    try:
        array = np.asarray(dates, "datetime64")
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or array.dtype.kind != "M" or np.isnat(array).any():
        raise TableError(f"the dates of table '{name}' are no dates, or some are missing; give one datetime64 per row.")
    return array
