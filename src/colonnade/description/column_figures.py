"""From the sums of a column's bins to what an analyst reads: weight of evidence, information value, correlation.

For a target with P positive and N negative rows, and a bin with p and n of them,

    ``WoE = ln((p / P) / (n / N))``     and     ``IV = sum over bins of (p / P - n / N) WoE``.

WoE is above 0 where the positive rows are more frequent than elsewhere. A bin without one of the two kinds counts half
a row more of each, so that its WoE is finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from colonnade.description.describe_messages import ToldColumn
from colonnade.description.describe_owner import OpenedColumn
from colonnade.description.label_targets import LabelTargets
from colonnade.description.own_columns import LEVELS


class BinFigures(NamedTuple):
    """One bin: its rows, and of those the positive ones and their WoE, or the mean of the values to predict."""

    title: str
    rows: int
    positives: int | None
    woe: float | None
    mean: float | None

    @property
    def negatives(self) -> int | None:
        """The rows of the bin that are not positive."""
        return None if self.positives is None else self.rows - self.positives


@dataclass(frozen=True)
class ColumnFigures:
    """One column against one target: a class, a label, or the values to predict."""

    party: str
    column: str
    kind: str
    """"number" or "category"."""
    target: str
    iv: float | None
    """The information value; None for values to predict."""
    correlation: float | None
    """Pearson's correlation of a column of numbers with the target (point-biserial, if that is yes or no)."""
    missing: float | None
    """The share of missing values; None if there are some, and too few to be told."""
    stability: float | None
    """The population stability index, if later rows were given."""
    bins: tuple[BinFigures, ...]

    @property
    def strength(self) -> float:
        """What columns are ordered by: the information value, or the size of the correlation."""
        return self.iv if self.iv is not None else abs(self.correlation or 0.0)


def figures(party: str, column: OpenedColumn, targets: LabelTargets) -> list[ColumnFigures]:
    """The figures of a column, one for each target."""
    return [_against(party, column, targets, k) for k in range(len(targets.names))]


def _against(party: str, column: OpenedColumn, targets: LabelTargets, k: int) -> ColumnFigures:
    told, numbers = column.told, targets.numbers[:, k]
    product = None if column.products is None else int(column.products[k])
    if targets.task == "values":
        iv, bins = None, _means(told, column.sums[:, k], targets, k)
    else:
        iv, bins = _evidence(told, column.sums[:, k], int(numbers.sum()), len(numbers))
    return ColumnFigures(
        party=party,
        column=told.name,
        kind="category" if told.levels is None else "number",
        target=targets.names[k],
        iv=iv,
        correlation=_correlation(told, product, numbers),
        missing=told.missing,
        stability=told.stability,
        bins=bins,
    )


def _evidence(
    told: ToldColumn, sums: np.ndarray, positive: int, rows: int
) -> tuple[float | None, tuple[BinFigures, ...]]:
    counts = np.array(told.counts)
    inside = np.clip(sums, 0, counts)  # noise may lead outside
    if not 0 < positive < rows:
        return None, tuple(
            map(BinFigures, told.titles, told.counts, inside.tolist(), [None] * len(counts), [None] * len(counts))
        )
    p, n = inside.astype(float), (counts - inside).astype(float)
    lacks = (p == 0) | (n == 0)
    p, n = np.where(lacks, p + 0.5, p) / positive, np.where(lacks, n + 0.5, n) / (rows - positive)
    woe = np.log(p / n)
    bins = map(BinFigures, told.titles, told.counts, inside.tolist(), woe.tolist(), [None] * len(counts))
    return float(((p - n) * woe).sum()), tuple(bins)


def _means(told: ToldColumn, sums: np.ndarray, targets: LabelTargets, k: int) -> tuple[BinFigures, ...]:
    assert targets.means is not None and targets.units is not None
    means = targets.means[k] + targets.units[k] * sums / np.array(told.counts)
    return tuple(
        BinFigures(title, rows, None, None, mean)
        for title, rows, mean in zip(told.titles, told.counts, means.tolist(), strict=True)
    )


def _correlation(told: ToldColumn, product: int | None, numbers: np.ndarray) -> float | None:
    """Pearson's correlation from sums; without the sums of levels, those of a standardised column stand in."""
    if product is None or told.levels is None:
        return None
    rows = len(numbers)
    total, squares = told.levels or (0.0, float(LEVELS**2 * rows))
    spread = (squares - total**2 / rows) * rows * float(numbers.var())
    if not spread > 0:
        return None
    return max(-1.0, min(1.0, (product - total * float(numbers.mean())) / math.sqrt(spread)))
