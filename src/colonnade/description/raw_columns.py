"""A table's columns as their holder named them, before categories became several columns and numbers were scaled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from colonnade.core.table import Table
from colonnade.errors import TableError

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RawColumn:
    """One column: numbers with NaN where one is missing, or texts with None."""

    name: str
    values: Array

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.values.dtype.kind == "f"

    @property
    def missing(self) -> Array:
        """Where its values are missing."""
        return np.isnan(self.values) if self.is_number else np.array([value is None for value in self.values], bool)


def raw_columns(table: Table) -> list[RawColumn]:
    """All columns of a table, as :func:`colonnade.prepare` read them, or by the names of its columns.

    >>> table = Table(["a", "b"], [[41.0, 1.0, 0.0], [35.0, 0.0, 1.0]], column_names=("age", "job=cook", "job=smith"))
    >>> [(column.name, column.values.tolist()) for column in raw_columns(table)]
    [('age', [41.0, 35.0]), ('job', ['cook', 'smith'])]
    """
    if table.columns is None:
        return []
    if len(table.shape) != 1:
        raise TableError(
            f"the rows of table '{table.name}' have the shape {table.shape}; a description is about single columns, "
            "not about pictures."
        )
    block = table.columns.numpy()
    if table.preparation is not None:
        return list(_prepared(table.preparation, block))
    names = [str(name) for name in table.column_names] or [f"column {k + 1}" for k in range(block.shape[1])]
    return _told_apart(_named(names, block))


def _prepared(preparation: Any, block: Array) -> Iterator[RawColumn]:
    """The columns that a preparation was made of."""
    at = 0
    for number in preparation.numbers:
        until = at + len(number.titles)
        yield RawColumn(number.column, number.raw(block[:, at:until]))
        at = until
    for category in preparation.categories:
        until = at + (1 if preparation.way == "embed" else len(category.titles))
        yield RawColumn(category.column, category.words(block[:, at:until], preparation.way))
        at = until


def _named(names: list[str], block: Array) -> list[RawColumn]:
    """Columns by their names: neighbours such as ``job=cook`` and ``job=smith`` are one column of categories."""
    columns = []
    for _, run in groupby(enumerate(names), key=lambda entry: entry[1].partition("=")[0] if "=" in entry[1] else entry):
        places = [place for place, _ in run]
        part = block[:, places]
        prefix, sign, _ = names[places[0]].partition("=")
        if sign and ((part == 0) | (part == 1)).all() and (part.sum(axis=1) <= 1).all():
            columns.append(RawColumn(prefix, _words([names[place].partition("=")[2] for place in places], part)))
        else:
            columns += [RawColumn(names[place], block[:, place].astype(np.float64)) for place in places]
    return columns


def _words(texts: list[str], part: Array) -> Array:
    words = np.array([*texts, None], object)
    return np.asarray(words[np.where(part.any(axis=1), part.argmax(axis=1), len(texts))])


def _told_apart(columns: list[RawColumn]) -> list[RawColumn]:
    """Columns of one name get a number each."""
    seen: dict[str, int] = {}
    apart = []
    for column in columns:
        times = seen[column.name] = seen.get(column.name, 0) + 1
        apart.append(column if times == 1 else replace(column, name=f"{column.name} ({times})"))
    return apart
