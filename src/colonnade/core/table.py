"""One organisation's table: ids, columns, and at the owner the labels.

A *federation* is a plain list of tables about the same rows in the same order. Exactly one
table has labels; it is the owner's and comes first. The owner may hold columns too.

With *several owners* the first tables have labels and no columns. Each owner has the labels of some rows, and together
they have those of all rows. Only methods that declare ``several_owners`` train on such a federation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import TableError


@dataclass(frozen=True)
class Scale:
    """How raw values become network inputs when a batch is drawn: ``(value / unit - mean) / std``.

    ``mean`` and ``std`` are numbers, or one number per channel for ``[channel, height, width]`` images.
    """

    unit: float = 255.0
    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0

    def __call__(self, values: Tensor) -> Tensor:
        """Scale a drawn batch; the result is float32."""
        factor, shift = self._constants
        return values.to(torch.float32).mul(factor).sub_(shift)

    @cached_property
    def _constants(self) -> tuple[Tensor, Tensor]:
        mean, std = (_per_channel(v) for v in (self.mean, self.std))
        return 1.0 / (self.unit * std), mean / std


def _per_channel(value: float | tuple[float, ...]) -> Tensor:
    return torch.tensor(value).view(-1, 1, 1) if isinstance(value, tuple | list) else torch.tensor(float(value))


@dataclass(frozen=True)
class Table:
    """One organisation's rows.

    ``columns`` is ``[rows, ...]``: numbers, which become float32, or uint8 pixels. Pixels stay uint8, and a view of the
    array that they were cut from, until a batch is drawn.
    ``preparation`` is how the columns were made from a party's raw ones, if :func:`colonnade.prepare` made them.
    ``dates`` are the rows' dates at the owner (numpy's ``datetime64``), by which a report shows scores over time.

    >>> bank = Table(ids=["ann", "bob"], columns=[[1.0, 2.0], [3.0, 4.0]], name="bank")
    >>> bank.rows, bank.shape
    (2, (2,))
    >>> Table(ids=["ann", "ann"], columns=[[1.0], [2.0]], name="shop")
    Traceback (most recent call last):
        ...
    colonnade.errors.TableError: table 'shop' has the id 'ann' twice; ids must be unique: drop or merge the duplicates.
    """

    ids: Any
    columns: Any = None
    labels: Any = None
    name: str = "table"
    column_names: tuple[str, ...] = ()
    scale: Scale | None = None
    classes: tuple[str, ...] = ()
    origin: dict[str, Any] | None = field(default=None, repr=False)
    preparation: Any = field(default=None, repr=False, compare=False)
    dates: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the dataclass is frozen for users, not for its own constructor
        put(self, "ids", _ids(self.ids, self.name))
        if self.columns is not None:
            put(self, "columns", _columns(self.columns, self.name, self.column_names))
            _same_rows(self.name, "columns", len(self.columns), len(self.ids))
        if self.labels is not None:
            put(self, "labels", _labels(self.labels, self.name))
            _same_rows(self.name, "labels", len(self.labels), len(self.ids))
        if self.dates is not None:
            put(self, "dates", _dates(self.dates, self.name))
            _same_rows(self.name, "dates", len(self.dates), len(self.ids))

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row's columns, ``()`` if the table has none."""
        return () if self.columns is None else tuple(self.columns.shape[1:])

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many codes each of the last columns has, if those are categories to be embedded."""
        return () if self.preparation is None else tuple(self.preparation.cardinalities)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names of the columns before categories became several, where names are known.

        >>> Table(["ann"], [[41.0, 1.0, 0.0]], column_names=("age", "job=clerk", "job=other")).source_names
        ('age', 'job')
        """
        if self.preparation is not None:
            return tuple(self.preparation.columns)
        return tuple(dict.fromkeys(name.partition("=")[0] or name for name in map(str, self.column_names)))

    def draw(self, rows: Tensor) -> Tensor:
        """The scaled inputs of the given rows, float32."""
        drawn: Tensor = self.columns.index_select(0, rows)  # many times faster than columns[rows]
        return self.scale(drawn) if self.scale else drawn.to(torch.float32)

    def take(self, rows: Any) -> Table:
        """The same table with only these rows, in this order (a copy)."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool and chosen.shape == (self.rows,):
            chosen = chosen.nonzero()[0]
        whole = chosen.dtype.kind in "iu" and chosen.ndim == 1 and len(chosen) > 0
        if not whole or not -self.rows <= chosen.min() <= chosen.max() < self.rows:
            raise TableError(
                f"table '{self.name}' has {self.rows} rows; take at least one of those, by number or by mask."
            )
        index = torch.from_numpy(_plain(chosen.astype(np.int64)))
        return replace(
            self,
            ids=self.ids[index.numpy()],
            columns=None if self.columns is None else self.columns[index],
            labels=None if self.labels is None else self.labels[index],
            dates=None if self.dates is None else self.dates[index.numpy()],
            origin=None,
        )


def check_federation(tables: Sequence[Table], *, labelled: bool = True, several: bool = False) -> None:
    """Refuse a federation that cannot be trained on, with one sentence that says why.

    ``several`` allows several owners: the tables before all others, each with the labels of its own rows.
    """
    if isinstance(tables, Table) or not tables:
        raise TableError("no federation came; give a list of tables with the owner's first.")
    for table in tables:
        if not isinstance(table, Table):
            raise TableError(f"a federation is a list of colonnade.Table, but it holds a {type(table).__name__}.")
    owner, *others = tables
    if labelled and owner.labels is None:
        raise TableError(f"the owner's table '{owner.name}' has no labels; put the table with labels first.")
    owners = owners_of(tables) if several else [owner]
    for table in tables[len(owners) :]:
        if table.labels is not None:
            raise TableError(
                f"table '{table.name}' has labels too; only the owner's, '{owner.name}', may, or the first of several."
            )
    if len(owners) > 1:
        _check_owners(owners, tables[len(owners) :])
        owner, *others = tables[len(owners) :]
    whose = f"that of '{owner.name}'" if owner.labels is None and labelled else "the owner's"
    for table in others:
        if table.columns is None:
            raise TableError(f"table '{table.name}' has no columns; every party but the owner must bring some.")
        if table.rows != owner.rows:
            raise TableError(
                f"table '{table.name}' has {table.rows} rows, {whose} has {owner.rows}; align the rows first."
            )
        if not np.array_equal(table.ids, owner.ids):
            raise TableError(f"the ids of table '{table.name}' differ from {whose}; align the rows first.")
    names = [table.name for table in tables]
    if "owner" in names[1:]:
        raise TableError("a party's table is named 'owner'; that name is the owner's in every ledger: choose another.")
    for name in names:
        if not (isinstance(name, str) and name.isascii() and name.isprintable() and 0 < len(name) <= 64):
            raise TableError(f"the table name {name!r} cannot travel; use 1 to 64 printable ASCII characters.")
    if len(set(names)) != len(names):
        raise TableError(f"two tables have the same name among {', '.join(names)}; give each party its own.")
    if not parties_of(tables):
        raise TableError("no table has columns; at least one party must bring some.")


def kept(tables: Sequence[Table], names: Sequence[str]) -> list[Table]:
    """The federation of only the owner and the named parties, in their old order; its origin records the names."""
    check_federation(tables, labelled=False)
    for name in names:
        if name not in [table.name for table in tables]:
            raise TableError(
                f"there is no party '{name}' to keep; the federation has {', '.join(table.name for table in tables)}."
            )
    whole = [tables[0], *(table for table in tables[1:] if table.name in names)]
    origin = None if tables[0].origin is None else {**tables[0].origin, "keep": [table.name for table in whole[1:]]}
    few = [replace(table, origin=origin) for table in whole]
    if not parties_of(few):
        raise TableError("no party is kept and the owner has no columns; keep at least one party.")
    return few


def parties_of(tables: Sequence[Table]) -> list[Table]:
    """The tables with columns: those of the parties, and the owner's if it has columns."""
    return [table for table in tables if table.columns is not None]


def owners_of(tables: Sequence[Table]) -> list[Table]:
    """The tables at the front that have labels: the owner's, or those of several owners."""
    return [*takewhile(lambda table: table.labels is not None, tables)] or [tables[0]]


def _check_owners(owners: Sequence[Table], parties: Sequence[Table]) -> None:
    """Refuse several owners unless every row has exactly one of them."""
    for table in owners:
        if table.columns is not None:
            raise TableError(f"'{table.name}' is one of {len(owners)} owners and has columns; only one owner may.")
    if not parties:
        raise TableError("no table has columns; at least one party must bring some.")
    if parties[0].columns is None:
        raise TableError(f"table '{parties[0].name}' has no columns; every party but the owners must bring some.")
    owned, times = np.unique(np.concatenate([table.ids for table in owners]), return_counts=True)
    twice, everybody = owned[times > 1], parties[0].ids
    if len(twice):
        raise TableError(
            f"{len(twice)} rows have two owners, such as '{twice[0]}'; give each row's label to one owner."
        )
    nobody, strange = np.setdiff1d(everybody, owned), np.setdiff1d(owned, everybody)
    if len(nobody):
        raise TableError(
            f"{len(nobody)} rows have no owner, such as '{nobody[0]}'; give each row's label to one owner."
        )
    if len(strange):
        raise TableError(f"the owners have labels of {len(strange)} rows that no party has, such as '{strange[0]}'.")


def check_classes(labels: Tensor, name: str) -> int:
    """How many classes there are, refusing fewer than two."""
    if labels.ndim != 1 or labels.is_floating_point():
        raise TableError(f"the labels of table '{name}' are not class numbers; give one whole number from 0 per row.")
    seen = torch.unique(labels)
    if len(seen) and int(seen.min()) < 0:
        raise TableError(
            f"the labels of table '{name}' hold {int(seen.min())}; class numbers start at 0, other numbers are learnt "
            "with task='values'."
        )
    if len(seen) < 2:
        raise TableError(
            f"the labels of table '{name}' hold one class only ({seen.tolist()}); training needs at least two."
        )
    classes = int(seen.max()) + 1
    if classes > 10 * len(seen):
        raise TableError(
            f"the labels of table '{name}' go up to {classes - 1} but only {len(seen)} numbers occur; "
            "number the classes from 0 without gaps, or learn numbers with task='values'."
        )
    return classes


def _same_rows(name: str, what: str, rows: int, ids: int) -> None:
    if rows != ids:
        raise TableError(f"table '{name}' has {ids} ids but {rows} rows of {what}; they must be as many.")


def _ids(ids: Any, name: str) -> np.ndarray:
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


def _columns(columns: Any, name: str, column_names: tuple[str, ...]) -> Tensor:
    tensor = columns if isinstance(columns, Tensor) else torch.from_numpy(_plain(_numbers(columns, name, column_names)))
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


def _dates(dates: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(dates, "datetime64")
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or array.dtype.kind != "M" or np.isnat(array).any():
        raise TableError(f"the dates of table '{name}' are no dates, or some are missing; give one datetime64 per row.")
    return array


def _plain(array: np.ndarray) -> np.ndarray:
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
        array = np.asarray(columns)
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
                "encode text columns first."
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


def _labels(labels: Any, name: str) -> Tensor:
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
    tensor = labels if isinstance(labels, Tensor) else torch.from_numpy(_plain(labels))
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
