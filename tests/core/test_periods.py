"""Periods of time: as fine as can be read, and named in the order of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.core.periods import MOST, period_name, periods_of, unit_for


def days(first: str, count: int, step: int = 1) -> Any:
    return np.datetime64(first, "D") + step * np.arange(count)


@pytest.mark.parametrize(
    ("dates", "unit"),
    [
        (days("2024-02-20", 24), "day"),
        (days("2024-02-20", 25), "month"),
        (days("2023-01-01", 730), "month"),
        (days("2023-01-01", 800), "quarter"),
        (days("2000-01-01", 20, 365), "year"),
        (days("1950-01-01", 75, 365), "decade"),
        (np.array(["2024-06", "2024-07"], "datetime64[M]"), "month"),
        (np.array(["2023", "2024"], "datetime64[Y]"), "year"),
        (np.array(["2024-06-30T23:59:59"], "datetime64[s]"), "day"),
    ],
)
def test_the_unit_follows_from_the_span(dates: Any, unit: str) -> None:
    assert unit_for([dates]) == unit
    assert len(np.unique(periods_of(dates, unit))) <= MOST


def test_parts_share_a_unit() -> None:
    assert unit_for([days("2023-01-01", 3), days("2024-12-01", 3)]) == "month"


@pytest.mark.parametrize(
    ("day", "unit", "name"),
    [
        ("2024-06-30", "day", "2024-06-30"),
        ("2024-06-30", "month", "2024-06"),
        ("2024-06-30", "quarter", "2024 Q2"),
        ("2024-12-31", "quarter", "2024 Q4"),
        ("1969-12-31", "quarter", "1969 Q4"),
        ("2024-06-30", "year", "2024"),
        ("1969-12-31", "decade", "1960s"),
        ("1968-02-29", "month", "1968-02"),
    ],
)
def test_names(day: str, unit: str, name: str) -> None:
    assert period_name(int(periods_of(np.array([day], "datetime64[D]"), unit)[0]), unit) == name
