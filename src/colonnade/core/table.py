"""One organisation's table: ids, columns, and at the owner the labels.

A *federation* is a plain list of tables about the same rows in the same order. Exactly one
table has labels; it is the owner's and comes first. The owner may hold columns too.

A federation's rows are the owner's. A party need not have all of them: ``known`` says which it really has, and only
methods that declare ``partial_rows`` train on rows that not everybody has. Rows that only the party has are its
``unaligned`` ones; nobody else can number them, so they serve for learning alone.

With *several owners* the first tables have labels and no columns. Each owner has the labels of some rows, and together
they have those of all rows. Only methods that declare ``several_owners`` train on such a federation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.core.table_outline import html_of_outline, outline
from colonnade.core.table_values import (
    check_same_rows,
    columns_of,
    dates_of,
    ids_of,
    known_of,
    labels_of,
    names_in,
    plain_array,
    unaligned_of,
    without_unknown,
)
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


@dataclass(frozen=True, repr=False)
class Table:
    """One organisation's rows.

    ``columns`` is ``[rows, ...]``: numbers, which become float32, or uint8 pixels. Pixels stay uint8, and a view of the
    array that they were cut from, until a batch is drawn. A DataFrame of numbers gives its names as ``column_names``.
    ``preparation`` is how the columns were made from a party's raw ones, if :func:`colonnade.prepare` made them.
    ``known`` [rows] says which of the federation's rows this party really has; None means all. The columns of the
    others are set to zero here, and no method lets them influence training.
    ``unaligned`` are columns ``[m, ...]`` of rows that only this party has, in the form and scale of ``columns``.
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
    scale: Callable[[Tensor], Tensor] | None = None
    classes: tuple[str, ...] = ()
    origin: dict[str, Any] | None = field(default=None, repr=False)
    preparation: Any = field(default=None, repr=False, compare=False)
    known: Any = field(default=None, repr=False)
    unaligned: Any = field(default=None, repr=False)
    dates: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the dataclass is frozen for users, not for its own constructor
        put(self, "ids", ids_of(self.ids, self.name))
        put(self, "known", known_of(self.known, self.rows, self.name, has_columns=self.columns is not None))
        if self.columns is not None:
            put(self, "column_names", self.column_names or tuple(map(str, names_in(self.columns))))
            columns = columns_of(self.columns, self.name, self.column_names)
            check_same_rows(self.name, "columns", len(columns), len(self.ids))
            put(self, "columns", columns if self.known is None else without_unknown(columns, self.known))
        put(self, "unaligned", unaligned_of(self.unaligned, self.columns, self.name, self.column_names))
        if self.labels is not None:
            put(self, "labels", labels_of(self.labels, self.name))
            check_same_rows(self.name, "labels", len(self.labels), len(self.ids))
        if self.dates is not None:
            put(self, "dates", dates_of(self.dates, self.name))
            check_same_rows(self.name, "dates", len(self.dates), len(self.ids))

    def __repr__(self) -> str:
        return f"Table({', '.join(f'{what}: {said}' for what, said in outline(self))})"

    def _repr_html_(self) -> str:
        return html_of_outline("Table", outline(self))

    def __len__(self) -> int:
        return self.rows

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

    def compact(self) -> Table:
        """The table with columns of its own: to send a view to another process would send the whole array along."""
        views = {"columns": self.columns, "unaligned": self.unaligned}
        copies = {
            key: value.clone(memory_format=torch.contiguous_format) for key, value in views.items() if value is not None
        }
        return replace(self, **copies)

    @property
    def known_rows(self) -> Tensor:
        """Which of the rows this party really has, bool [rows]."""
        return torch.ones(self.rows, dtype=torch.bool) if self.known is None else self.known

    def draw(self, rows: Tensor) -> Tensor:
        """The scaled inputs of the given rows, float32."""
        return self._scaled(self.columns.index_select(0, rows))  # many times faster than columns[rows]

    def draw_unaligned(self) -> Tensor | None:
        """The scaled inputs of the rows that only this party has, float32, or None."""
        return None if self.unaligned is None else self._scaled(self.unaligned)

    def _scaled(self, drawn: Tensor) -> Tensor:
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
        index = torch.from_numpy(plain_array(chosen.astype(np.int64)))
        return replace(
            self,
            ids=self.ids[index.numpy()],
            columns=None if self.columns is None else self.columns[index],
            labels=None if self.labels is None else self.labels[index],
            known=None if self.known is None else self.known[index],
            dates=None if self.dates is None else self.dates[index.numpy()],
            origin=None,
        )


def check_federation(tables: Sequence[Table], *, labelled: bool = True, several: bool = False) -> None:
    """Refuse a federation that cannot be trained on, with one sentence that says why.

    ``several`` allows several owners: the tables before all others, each with the labels of its own rows.
    """
    if not isinstance(tables, Table | Sequence):
        raise _no_table(f"a {type(tables).__name__} came")
    if isinstance(tables, Table) or not tables:
        raise TableError("no federation came; give a list of tables with the owner's first.")
    for table in tables:
        if not isinstance(table, Table):
            raise _no_table(f"it holds a {type(table).__name__}")
    owner, *others = tables
    if labelled and owner.labels is None:
        raise TableError(f"the owner's table '{owner.name}' has no labels; put the table with labels first.")
    if owner.known is not None:
        raise TableError(
            f"the owner's table '{owner.name}' does not know {int((~owner.known).sum())} of its rows; a federation's "
            "rows are the owner's, so leave those out with take."
        )
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


def _no_table(what: str) -> TableError:
    """What to write instead of arrays or frames."""
    return TableError(
        f"a federation is a list of colonnade.Table, but {what}; cut arrays over parties with colonnade.split(X, y, "
        "parties=4), and make tables of each organisation's DataFrame with colonnade.read(frame, id='...') and "
        "colonnade.prepare."
    )


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


def common_rows(tables: Sequence[Table]) -> list[Table]:
    """The federation of only the rows that every party knows, for methods that need all of them.

    >>> bank = Table(["ann", "bob"], labels=[0, 1], name="bank")
    >>> shop = Table(["ann", "bob"], [[1.0], [0.0]], name="shop", known=[True, False])
    >>> [table.ids.tolist() for table in common_rows([bank, shop])]
    [['ann'], ['ann']]
    """
    check_federation(tables, labelled=False, several=True)
    if not is_partial(tables):
        return list(tables)
    everybody = torch.stack([table.known_rows for table in parties_of(tables)]).all(0).numpy()
    if not everybody.any():
        who = ", ".join(table.name for table in tables if table.known is not None)
        raise TableError(f"no row is known to all of {who}; train with a method for rows that not everybody has.")
    return [table.take(everybody) for table in tables]


def is_partial(tables: Sequence[Table]) -> bool:
    """Whether some party does not know some of the rows."""
    return any(table.known is not None for table in tables)


def is_tabular(tables: Sequence[Table]) -> bool:
    """Whether all parties' rows are plain columns, and none is a picture or a part of one (which has a scale).

    >>> is_tabular([Table([1, 2], [[0.5], [0.1]])]), is_tabular([Table([1], np.zeros((1, 8, 8), np.uint8))])
    (True, False)
    """
    return all(len(table.shape) == 1 and table.scale is None for table in parties_of(tables))


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
