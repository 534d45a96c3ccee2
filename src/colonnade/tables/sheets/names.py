"""Checks of a file's columns: not too many, and each with a name of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from colonnade.errors import TableError, printable

MOST_COLUMNS = 20_000  # each is prepared by itself; more columns are usually features of one thing, such as pixels
_SHOWN = 30


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse a file with too many columns, with a column name twice, or with names that are no text."""
    if len(names) > MOST_COLUMNS:
        raise TableError(
            f"{path} has {len(names):,} columns, and {MOST_COLUMNS:,} is the most here; leave some out of the file, or "
            "split its rows and columns in Python with colonnade.split."
        )
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise TableError(f"{path} has the column '{printable(twice)}' twice; give every column a name of its own.")
    bad = next((name for name in names if "\0" in name), None)
    if bad is not None:
        raise TableError(
            f"{path} has a NUL byte in the column name '{printable(bad)}', so it is no text; give its encoding."
        )


def shown_names(names: Sequence[str]) -> str:
    """Names for an error message: the first ones, and how many more there are.

    >>> shown_names(["age", "job"])
    'age, job'
    """
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(printable(name) for name in names[:_SHOWN]) + more
