"""Periods of time: days, months, quarters, years or decades, whichever are few enough to be read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST = 24  # periods on a page
UNITS = ("day", "month", "quarter", "year", "decade")
_FINEST = {"Y": "year", "M": "month"}  # what dates of numpy's units can be told apart by; all others by day
_NUMPY = {"day": "datetime64[D]", "month": "datetime64[M]", "year": "datetime64[Y]"}


def unit_for(dates: Sequence[np.ndarray]) -> str:
    """The finest unit in which these dates span at most 24 periods.

    >>> unit_for([np.array(["2023-11", "2024-06"], "datetime64[M]")])
    'month'
    """
    finest = max((UNITS.index(_FINEST.get(np.datetime_data(part.dtype)[0], "day")) for part in dates), default=0)
    for unit in UNITS[finest:]:
        each = [periods_of(part, unit) for part in dates if len(part)]
        if max(part.max() for part in each) - min(part.min() for part in each) < MOST:
            return unit
    return UNITS[-1]


def periods_of(dates: np.ndarray, unit: str) -> np.ndarray:
    """The number of each date's period, counted from 1970; that of a decade from the year 0."""
    if unit == "day":
        return dates.astype("datetime64[D]").astype(np.int64)
    months = dates.astype("datetime64[M]").astype(np.int64)
    if unit == "decade":
        return (months // 12 + 1970) // 10
    return months // {"month": 1, "quarter": 3, "year": 12}[unit]


def period_name(number: int, unit: str) -> str:
    """What a period is called.

    >>> period_name(653, "month"), period_name(217, "quarter"), period_name(202, "decade")
    ('2024-06', '2024 Q2', '2020s')
    """
    if unit == "decade":
        return f"{10 * number}s"
    if unit == "quarter":
        return f"{1970 + number // 4} Q{number % 4 + 1}"
    return str(np.array(number).astype(_NUMPY[unit]))
