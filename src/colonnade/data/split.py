"""Cut arrays into a federation, for experiments and for data that are all in one place.

Nothing is copied per party: the tables are views of one array, so a hundred parties need the memory of one. Two things
force a copy: a column list that is no arithmetic progression (those columns are copied), and numbers that are neither
float32 nor uint8 (the whole array is copied once).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.core.table import Scale, Table
from colonnade.core.table_values import array_of, names_in
from colonnade.errors import ConfigError, TableError, unknown

Take = slice | int | list[int]  # a party's part of one axis
Cut = tuple[Take, ...]  # the whole index, rows first
Parties = int | tuple[int, int] | Sequence[Any] | Mapping[str, Any]

_EVERYTHING = slice(None)
_AXIS = {"columns": -1, "overlap": -1, "rows": -2, "bands": -2, "patches": -2, "views": 1}
_DIMENSIONS = {"columns": 2, "overlap": 2, "rows": 3, "bands": 3, "patches": 3, "views": 3}
_LISTABLE = ("columns", "rows", "views")
_OWNERS = ("labels", "first")


def split(
    X: Any,
    y: Any,
    parties: Parties,
    *,
    by: str | None = None,
    owner: str = "labels",
    width: int | None = None,
    ids: Any = None,
    scale: Scale | None = None,
    column_names: Sequence[str] = (),
    classes: Sequence[str] = (),
    origin: dict[str, Any] | None = None,
) -> list[Table]:
    """Cut arrays into a federation: a list of tables, the owner's first.

    ``parties`` is a number, a list of column lists, or a mapping from party name to column list.
    Columns are numbers, or names if ``column_names`` are given; two parties may hold the same column.

    ``by`` is the axis to cut along. Parts are in order; "like array_split" means parts as equal as possible.

    - ``"columns"``: the last axis, like array_split (the default for a table ``[n, columns]``);
    - ``"rows"``: rows of an image ``[n, (channels,) height, width]``, like array_split (its default);
    - ``"bands"``: equal bands of ``height // parties`` image rows, left-over rows dropped;
    - ``"patches"``: a grid of patches, ``parties`` a square number or ``(down, across)``; each is
      ``size // grid`` long, the last takes the rest;
    - ``"overlap"``: windows of ``width`` flattened columns, starts evenly spaced;
    - ``"views"``: one entry of axis 1 each, evenly spaced, or the list given.

    ``owner="labels"`` gives the labels to a table of their own, "owner", so ``1 + parties`` tables,
    the others "party 1", "party 2", ... With ``owner="first"`` the owner also holds the first part:
    ``parties`` tables, "owner", "party 2", ... "party k" is always the k-th part. Names of a mapping are kept.

    uint8 stays uint8 until a batch is drawn; then ``scale`` applies, which for uint8 images is ``Scale()``
    (divide by 255) if not given.

    >>> X, y = np.arange(12.0).reshape(2, 6), [0, 1]
    >>> [(table.name, table.shape) for table in split(X, y, 3)]
    [('owner', ()), ('party 1', (2,)), ('party 2', (2,)), ('party 3', (2,))]
    >>> [(table.name, table.shape) for table in split(X, y, {"bank": [0, 5], "shop": [1, 2, 3]}, owner="first")]
    [('bank', (2,)), ('shop', (3,))]
    """
    names = tuple(map(str, column_names if len(column_names) else names_in(X)))
    array = _one_array(X)
    by = _way(by, array, width)
    _check_arrays(array, y, names)
    _check_owner(owner, parties)
    if scale is None and array.ndim > 2 and array.dtype == torch.uint8:
        scale = Scale()
    if by == "overlap":
        array = array.reshape(len(array), -1)
    _check_scale(scale, array, by)
    ids = np.arange(len(array)) if ids is None else np.asarray(ids)
    titles = list(parties) if isinstance(parties, Mapping) else None
    tables = []
    for k, cut in enumerate(_cuts(tuple(array.shape), by, parties, width, names)):
        title = titles[k] if titles else "owner" if k == 0 and owner == "first" else f"party {k + 1}"
        named = tuple(np.array(names, dtype=object)[cut[1]]) if names else ()
        tables.append(Table(ids, array[cut], name=title, column_names=named, scale=scale, origin=origin))
    if owner == "first":
        return [replace(tables[0], labels=y, classes=tuple(classes)), *tables[1:]]
    return [Table(ids, labels=y, name="owner", classes=tuple(classes), origin=origin), *tables]


def _one_array(X: Any) -> Any:
    """The array that all parties share, uint8 or float32; text stays, so that ``Table`` can report its column."""
    if isinstance(X, Tensor):
        return X if X.dtype == torch.uint8 else X.to(torch.float32)
    array = array_of(X)
    if array.dtype.kind not in "fiub":
        return array
    dtype = np.uint8 if array.dtype.kind == "b" or array.dtype == np.uint8 else np.float32
    return torch.from_numpy(np.ascontiguousarray(array, dtype=dtype))


def _way(by: str | None, array: Any, width: int | None) -> str:
    if by is None:
        by = "columns" if array.ndim <= 2 else "rows"
    if by not in _AXIS:
        raise unknown("way to split", by, _AXIS)
    if array.ndim < _DIMENSIONS[by]:
        raise ConfigError(
            f"by='{by}' needs an X of at least {_DIMENSIONS[by]} dimensions, rows first, "
            f"but its shape is {tuple(array.shape)}."
        )
    if (width is None) == (by == "overlap"):
        fault = "none came" if width is None else f"by is '{by}'"
        raise ConfigError(f"width is the number of columns in a window of by='overlap', and only there, but {fault}.")
    return by


def _check_arrays(array: Any, y: Any, names: tuple[str, ...]) -> None:
    labels = len(y) if np.ndim(y) else 0
    if len(array) != labels:
        raise TableError(f"X has {len(array)} rows but y has {labels} labels; give one label per row.")
    if names and (array.ndim != 2 or len(names) != array.shape[1]):
        raise ConfigError(
            f"{len(names)} column_names came for an X of shape {tuple(array.shape)}; give one per column, or none."
        )


def _check_owner(owner: str, parties: Parties) -> None:
    if owner not in _OWNERS:
        raise unknown("owner", owner, _OWNERS)
    if owner == "labels" and isinstance(parties, Mapping) and "owner" in parties:
        raise ConfigError("a party is named 'owner', but so is the table with the labels; rename it, or owner='first'.")


def _check_scale(scale: Scale | None, array: Any, by: str) -> None:
    channels = {len(v) for v in (scale.mean, scale.std) if isinstance(v, tuple)} if scale else set()
    if not channels:
        return
    if by in ("overlap", "views"):
        raise ConfigError(f"by='{by}' takes the channels apart, so the scale cannot be per channel; give it numbers.")
    if array.ndim != 4 or channels != {array.shape[1]}:
        raise ConfigError(
            f"the scale is for {max(channels)} channels, but X has shape {tuple(array.shape)}; "
            "give one number per channel of [rows, channels, height, width]."
        )


def _cuts(
    shape: tuple[int, ...], by: str, parties: Parties, width: int | None, names: tuple[str, ...]
) -> Sequence[Cut]:
    if by == "patches":
        return _patches(shape, parties)
    axis = _AXIS[by] % len(shape)
    takes: Sequence[Take]
    if isinstance(parties, int | np.integer):
        takes = _evenly(by, int(parties), shape[axis], width)
    elif by in _LISTABLE and isinstance(parties, Sequence | Mapping) and not isinstance(parties, str):
        takes = _listed(by, parties, shape[axis], names)
    else:
        kinds = "a number, a list or a mapping" if by in _LISTABLE else "a number of parties"
        raise ConfigError(f"by='{by}' takes {kinds}, but parties is {parties!r}.")
    return [(*(_EVERYTHING,) * axis, take) for take in takes]


def _evenly(by: str, parties: int, size: int, width: int | None) -> Sequence[Take]:
    if width is not None:
        if not 1 <= width <= size:
            raise ConfigError(f"width is {width}, but there are {size} columns; give a number from 1 to {size}.")
        _check_count(parties, size - width + 1, f"windows of {width} columns")
        starts = np.linspace(0, size - width, parties).round().astype(int).tolist()
        return [slice(start, start + width) for start in starts]
    _check_count(parties, size, "image rows" if by in ("rows", "bands") else by)
    if by == "views":
        return [k * size // parties for k in range(parties)]
    if by == "bands":
        return _slices([size // parties] * parties)
    return _slices([len(part) for part in np.array_split(range(size), parties)])


def _check_count(parties: int, most: float = math.inf, of_what: str = "") -> None:
    if parties < 1:
        raise ConfigError(f"parties is {parties}; give at least 1.")
    if parties > most:
        raise ConfigError(f"{parties} parties cannot share {most} {of_what}; give at most {most}.")


def _slices(lengths: Sequence[int]) -> list[slice]:
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def _patches(shape: tuple[int, ...], parties: Parties) -> list[Cut]:
    down, across = _grid(parties)
    ahead = (_EVERYTHING,) * (len(shape) - 2)
    rows, columns = (_sides(size, count) for size, count in zip(shape[-2:], (down, across), strict=True))
    return [(*ahead, row, column) for row in rows for column in columns]


def _grid(parties: Parties) -> tuple[int, int]:
    if isinstance(parties, Sequence) and len(parties) == 2 and all(isinstance(n, int) for n in parties):
        return parties[0], parties[1]
    if not isinstance(parties, int | np.integer):
        raise ConfigError(f"by='patches' takes a square number or a grid (down, across), but parties is {parties!r}.")
    _check_count(int(parties))
    side = math.isqrt(int(parties))
    if side * side != parties:
        down = next(n for n in range(side, 0, -1) if parties % n == 0)
        grid = f"({down}, {int(parties) // down})"
        raise ConfigError(f"{parties} patches form no square; give a square number, or a grid such as {grid}.")
    return side, side


def _sides(size: int, count: int) -> list[slice]:
    _check_count(count, size, "pixels along one side")
    side = size // count
    return _slices([side] * (count - 1) + [size - side * (count - 1)])


def _listed(by: str, parties: Sequence[Any] | Mapping[str, Any], size: int, names: tuple[str, ...]) -> list[Take]:
    if not len(parties):
        raise ConfigError("parties is empty; give at least one party.")
    entries = parties.values() if isinstance(parties, Mapping) else parties
    return [_take(by, entry, size, names) for entry in entries]


def _take(by: str, entry: Any, size: int, names: tuple[str, ...]) -> Take:
    alone = isinstance(entry, int | np.integer | str)
    numbers = [_number(by, column, size, names) for column in ([entry] if alone else entry)]
    if not numbers:
        raise ConfigError(f"a party's list of {by} is empty; give it some, or leave the party out.")
    if alone and by == "views":
        return numbers[0]  # one view is an image, several views are its channels
    steps = {after - before for before, after in pairwise(numbers)} or {1}
    step = steps.pop()
    return slice(numbers[0], numbers[-1] + 1, step) if not steps and step > 0 else numbers  # only a slice is a view


def _number(by: str, column: Any, size: int, names: tuple[str, ...]) -> int:
    if isinstance(column, str):
        if column not in names:
            raise unknown("column", column, names)
        return names.index(column)
    if isinstance(column, bool | np.bool_) or not isinstance(column, int | np.integer):
        raise ConfigError(f"a party's list of {by} holds {column!r}; give numbers from 0, or column names.")
    if not 0 <= column < size:
        raise ConfigError(f"a party's list of {by} holds {column}, but X has {size}; count from 0 to {size - 1}.")
    return int(column)
