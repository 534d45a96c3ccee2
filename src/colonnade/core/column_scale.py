"""Raw columns, such as an income in cents beside an age: a party standardises them for its own networks.

Numbers in the thousands drown all others and make the first step of training end in NaN. So a party that has such a
column, and whose columns nobody prepared, draws all its columns with mean 0 and deviation 1. The statistics are those
of its own training rows, stay in its state, and are used for all later rows. Other tables are left exactly as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from colonnade.core.table import Table

LARGE, SMALL = 30.0, 0.001  # a root mean square above, or a largest value below, belongs to a raw column
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ColumnScale:
    """How raw columns become network inputs: ``(value - mean) / deviation``, column by column."""

    mean: Tensor
    deviation: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        """Scale drawn rows; the result is float32."""
        return ((values.double() - self.mean) / self.deviation).float()

    @property
    def state(self) -> dict[str, Tensor]:
        """The statistics, to be saved."""
        return {"mean": self.mean, "deviation": self.deviation}


def evened(table: Table) -> Table:
    """The table itself, or one that standardises its columns when rows are drawn, if one of them is raw.

    >>> shop = evened(Table([1, 2], [[1.0, 20_000.0], [2.0, 80_000.0]], name="shop"))
    >>> shop.draw(torch.tensor([0, 1])).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    >>> evened(Table([1, 2], [[1.0, 0.5], [2.0, 3.0]])).scale is None
    True
    """
    column = raw_column(table)
    if column is None:
        return table
    named = f"'{table.column_names[column]}'" if table.column_names else str(column)
    largest = float(table.columns[:, column].abs().max())
    log.info(
        "the columns of '%s' are standardised at the party, since its column %s has values up to %.4g",
        table.name,
        named,
        largest,
    )
    columns = table.columns[table.known_rows].double()
    deviation = columns.std(0, correction=0)
    return replace(table, scale=ColumnScale(columns.mean(0), torch.where(deviation > 0, deviation, 1.0)))


def raw_column(table: Table) -> int | None:
    """The column that is farthest from what networks read well, or None; tables with a preparation or scale have none.

    >>> raw_column(Table([1, 2], [[1.0, 20_000.0], [2.0, 80_000.0]]))
    1
    """
    if len(table.shape) != 1 or table.scale is not None or table.preparation is not None:
        return None
    columns = table.columns[table.known_rows].float()
    size, largest = columns.square().mean(0).sqrt(), columns.abs().amax(0)
    if bool((size > LARGE).any()):
        return int(size.argmax())
    tiny = (largest > 0) & (largest < SMALL)
    return int(tiny.nonzero()[0]) if bool(tiny.any()) else None


def as_evened(table: Table, train: Table) -> Table:
    """Another table of the party whose training table this is, with the same statistics if it has some."""
    return replace(table, scale=train.scale) if isinstance(train.scale, ColumnScale) else table


def scale_of(state: Mapping[str, Tensor]) -> ColumnScale | None:
    """The scale of a saved state, or None if the run had none."""
    return ColumnScale(state["mean"], state["deviation"]) if state else None
