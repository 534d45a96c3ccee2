"""What a side works out about its own columns by itself: bins, missing values, levels for correlations, stability."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from colonnade.core.options import count_of, number
from colonnade.core.table import Table
from colonnade.description.column_bins import ColumnBins, make_bins
from colonnade.description.label_targets import NARROW, WIDE
from colonnade.description.raw_columns import RawColumn, raw_columns
from colonnade.errors import ConfigError, TableError, unknown

Array = np.ndarray
LEVELS = 16  # of one deviation of a column
FINE = 128  # the same if the column has few values: their rounding does not average out
_FEW = 64  # values
MOST_BINS = 100
NAMES = {"shown": "bins by their limits or texts", "numbered": "bins by number, without limits and texts"}


@dataclass(frozen=True)
class PartyRules:
    """What a party decides about its columns: how many bins, how many rows each has, what is shown, how much noise."""

    bins: int = 10
    minimum: int = 20
    names: str = "shown"
    epsilon: float | None = None
    delta: float = 1e-5
    proof: bool = False
    """Whether the owner must prove what it encrypted."""
    columns: tuple[str, ...] | None = None
    """Which columns are described; None is all."""

    def __post_init__(self) -> None:
        count_of(self.bins, "bins", 2, MOST_BINS)
        count_of(self.minimum, "minimum")
        if self.names not in NAMES:
            raise unknown("way to name bins", self.names, NAMES)
        if self.epsilon is not None and not 0.001 <= number(self.epsilon, "epsilon") <= 1000:
            raise ConfigError(f"epsilon={self.epsilon} is out of range; give 0.001 to 1000, or none for no noise.")
        if not 0 < number(self.delta, "delta") < 1:
            raise ConfigError(f"delta={self.delta} is out of range; it must lie between 0 and 1.")


@dataclass(frozen=True, eq=False)
class OwnColumn:
    """One column in bins, at its holder."""

    name: str
    titles: tuple[str, ...]
    codes: Array
    missing: int
    missing_bin: int | None = None
    """The bin of missing values, if they have one."""
    levels: Array | None = None
    """Of numbers: the distance from the mean in parts of a deviation, for the correlation; 0 for missing values."""
    later: Array | None = None
    """How many rows of the later table are in each bin; behind them, how many hold values that were never seen."""

    @property
    def counts(self) -> Array:
        """How many rows each bin has."""
        return np.bincount(self.codes, minlength=len(self.titles))


@dataclass(frozen=True, eq=False)
class OwnColumns:
    """All columns of a side that can be described, and sentences about those that cannot."""

    columns: tuple[OwnColumn, ...]
    notes: tuple[str, ...] = field(default=())


def own_columns(table: Table, later: Table | None, rules: PartyRules) -> OwnColumns:
    """The described columns of a table; ``later`` has the same columns about other rows, for the stability."""
    before = _chosen(raw_columns(table), rules.columns, table.name)
    after = _after(table, later, before)
    made = [make_bins(column, rules.bins, rules.minimum) for column in before]
    columns = [
        _own(column, bins, None if after is None else after[column.name], rules)
        for column, bins in zip(before, made, strict=True)
        if len(bins.titles) > 1
    ]
    if not columns:
        raise TableError(
            f"no column of '{table.name}' has two bins of at least {rules.minimum} rows in its {table.rows} rows; "
            "describe more rows, or lower minimum=."
        )
    left_out = [column.name for column, bins in zip(before, made, strict=True) if len(bins.titles) < 2]
    notes = [f"column '{name}' of '{table.name}' has no two bins of {rules.minimum} rows" for name in left_out]
    return OwnColumns(tuple(columns), tuple(notes))


def _chosen(columns: list[RawColumn], names: tuple[str, ...] | None, whose: str) -> list[RawColumn]:
    known = [column.name for column in columns]
    strange = [name for name in names or () if name not in known]
    if strange:
        raise TableError(f"'{whose}' has no column '{strange[0]}' to describe; it has {', '.join(known)[:500]}.")
    return [column for column in columns if names is None or column.name in names]


def _after(table: Table, later: Table | None, before: list[RawColumn]) -> dict[str, RawColumn] | None:
    if later is None:
        return None
    after = {column.name: column for column in raw_columns(later)}
    wrong = [
        column for column in before if column.name not in after or after[column.name].is_number != column.is_number
    ]
    if wrong:
        raise TableError(
            f"the later table of '{table.name}' has no column '{wrong[0].name}' of the same kind; "
            "prepare both tables together, or leave later= out."
        )
    return after


def _own(column: RawColumn, bins: ColumnBins, after: RawColumn | None, rules: PartyRules) -> OwnColumn:
    titles = bins.titles if rules.names == "shown" else tuple(f"bin {k + 1}" for k in range(len(bins.titles)))
    later = None
    if after is not None:
        codes = bins.codes(after)
        later = np.bincount(np.where(codes < 0, len(titles), codes), minlength=len(titles) + 1)
    levels = _levels(column.values, noisy=rules.epsilon is not None) if column.is_number else None
    missing = int(column.missing.sum())
    return OwnColumn(column.name, titles, bins.codes(column), missing, bins.of_missing, levels, later)


def _levels(values: Array, *, noisy: bool) -> Array | None:
    """Standardised numbers in whole levels, cut at so many deviations; None if they are all the same."""
    present = values[~np.isnan(values)]
    centred = np.nan_to_num(values - present.mean())  # a missing value stands at the mean
    deviation = centred.std()
    if not deviation > 0:
        return None
    cut, parts = (NARROW, LEVELS) if noisy else (WIDE, FINE if len(np.unique(present)) <= _FEW else LEVELS)
    levels: Array = np.round(parts * np.clip(centred / deviation, -cut, cut)).astype(np.int64)
    return levels


def stability(counts: Array, later: Array, minimum: int) -> float:
    """The population stability index between two tables' bins: the sum of (q - p) ln(q / p) over their shares.

    A bin of fewer later rows than the minimum counts as half of the minimum, so that nobody learns how few there were.

    >>> [stability(np.array([50, 50]), np.array(later), 20) for later in ([500, 500, 0], [900, 100])]
    [0.0, 0.8789]
    """
    if len(later) == len(counts) + 1:  # values that were never seen are a bin only if they are many
        counts, later = (np.append(counts, 0), later) if later[-1] >= minimum else (counts, later[:-1])
    after = np.where(later < minimum, minimum / 2, later)
    before = np.maximum(counts, 0.5)
    p, q = before / before.sum(), after / after.sum()
    return round(float(((q - p) * np.log(q / p)).sum()), 4)
