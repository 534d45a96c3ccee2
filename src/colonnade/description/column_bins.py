"""Bins that a party makes of a column of its own: each has at least ``minimum`` rows.

Numbers are cut at quantiles. A bin of too few rows joins its smaller neighbour. Categories of too few rows, and all but
the 100 most frequent, share the bin "other"; if that has too few rows itself, it joins the smallest of all. Missing
values are a bin of their own; too few of them are "other" among categories, and among numbers stand where the median
is, as in a preparation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from colonnade.description.raw_columns import RawColumn

Array = np.ndarray
MOST_CATEGORIES = 100
_MISSING, _OTHER = "missing", "other"


class Fine(NamedTuple):
    """The finest bins of a column: cuts between numbers, or texts. Behind them come other texts, and missing values."""

    cuts: Array
    texts: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of fine bins, without that of missing values, which is the last."""
        return len(self.texts) + 1 if self.texts else len(self.cuts) + 1

    def codes(self, column: RawColumn) -> Array:
        """Each row's fine bin."""
        if not column.is_number:
            place = {text: k for k, text in enumerate(self.texts)}
            last = len(self.texts)
            return np.array([last + 1 if text is None else place.get(text, last) for text in column.values], np.int64)
        codes = np.searchsorted(self.cuts, column.values, side="left").astype(np.int64)
        codes[column.missing] = self.size
        return codes


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """Bins of one column: which fine bins each is made of, and its title."""

    fine: Fine
    place: Array
    """The bin of each fine bin; -1 for a fine bin that no row was in."""
    titles: tuple[str, ...]

    @property
    def of_missing(self) -> int | None:
        """The bin that has missing values and no others, if there is one."""
        last = int(self.place[-1])
        return last if last >= 0 and int((self.place == last).sum()) == 1 else None

    def codes(self, column: RawColumn) -> Array:
        """Each row's bin, also of another table; -1 for values that were never seen."""
        return np.asarray(self.place[self.fine.codes(column)])


def make_bins(column: RawColumn, bins: int, minimum: int) -> ColumnBins:
    """The bins of a column; there may be only one.

    >>> ages = RawColumn("age", np.array([20.0, 21, 22, 30, 31, 32, 50, np.nan]))
    >>> made = make_bins(ages, bins=3, minimum=2)
    >>> made.titles, made.codes(ages).tolist()
    (('<= 22', '22 to 31', '> 31'), [0, 0, 0, 1, 1, 2, 2, 1])
    """
    fine = Fine(_cuts(column.values, bins), ()) if column.is_number else Fine(np.zeros(0), _texts(column.values))
    counts = np.bincount(fine.codes(column), minlength=fine.size + 1)
    made = (_number_bins if column.is_number else _category_bins)(fine, counts, minimum)
    rows = np.bincount(made.codes(column), minlength=len(made.titles))
    # A few numbers beside many missing values cannot be a bin, and have no neighbour.
    return made if rows.min() >= minimum else ColumnBins(fine, np.zeros(len(counts), np.int64), ("all",))


def _cuts(values: Array, bins: int) -> Array:
    """Where numbers are cut: at their quantiles, or between all of them if there are few different ones."""
    present = values[~np.isnan(values)]
    different = np.unique(present)
    if len(different) <= bins:
        return different[:-1]
    shares = np.arange(1, bins) / bins
    return np.unique(np.quantile(present, shares, method="lower"))


def _texts(values: Array) -> tuple[str, ...]:
    """The different texts but for "other", which a preparation writes for rare ones and which is a bin anyway."""
    return tuple(sorted({text for text in values if text is not None} - {_OTHER}))


def _number_bins(fine: Fine, counts: Array, minimum: int) -> ColumnBins:
    absent = int(counts[-1])
    inner = counts[:-1].copy()
    if 0 < absent < minimum:
        inner[_median_place(inner)] += absent
    groups = _merged(inner, minimum)
    place = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    titles = [_interval(fine.cuts, group) for group in groups]
    last = len(groups) if absent >= minimum else int(place[_median_place(inner)]) if absent else -1
    return ColumnBins(fine, np.append(place, last), (*titles, *([_MISSING] if absent >= minimum else [])))


def _merged(counts: Array, minimum: int) -> list[list[int]]:
    """Neighbouring fine bins together, until each group has enough rows or only one group is left."""
    groups, sizes = [[k] for k in range(len(counts))], counts.tolist()
    while len(groups) > 1 and min(sizes) < minimum:
        least = sizes.index(min(sizes))
        beside = [k for k in (least - 1, least + 1) if 0 <= k < len(groups)]
        other = min(beside, key=lambda k: sizes[k])
        first, second = sorted((least, other))
        groups[first] += groups.pop(second)
        sizes[first] += sizes.pop(second)
    return groups


def _median_place(counts: Array) -> int:
    return int(np.searchsorted(np.cumsum(counts), counts.sum() / 2, side="left"))


def _interval(cuts: Array, group: list[int]) -> str:
    first, last = group[0], group[-1]
    if first == 0 and last == len(cuts):
        return "all"
    if first == 0:
        return f"<= {cuts[last]:.4g}"
    return f"> {cuts[first - 1]:.4g}" if last == len(cuts) else f"{cuts[first - 1]:.4g} to {cuts[last]:.4g}"


def _category_bins(fine: Fine, counts: Array, minimum: int) -> ColumnBins:
    named = [*fine.texts, _OTHER, _MISSING]
    enough = [k for k in range(len(counts)) if counts[k] >= minimum and k != len(fine.texts)]
    own = sorted(sorted(enough, key=lambda k: -counts[k])[:MOST_CATEGORIES])
    rest = int(counts.sum() - counts[own].sum())
    titles = [named[k] for k in own]
    place = np.full(len(counts), -1)
    place[own] = np.arange(len(own))
    if rest:
        least = int(np.argmin(counts[own])) if own else 0
        joins = bool(own) and rest < minimum
        place[place < 0] = least if joins else len(own)
        titles = [f"{title} or other" if joins and k == least else title for k, title in enumerate(titles)]
        titles += [] if joins else [_OTHER]
    return ColumnBins(fine, place, tuple(titles))
