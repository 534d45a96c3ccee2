"""Which rows of the files a sheet has: what happens to rows without an id, and to ids that occur more than once."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.errors import ColonnadeWarning, TableError, unknown
from colonnade.tables.sheets.arrow import arrow

DUPLICATES, NO_ID = ("refuse", "first", "last"), ("refuse", "drop")


@dataclass(frozen=True)
class RowRules:
    """``duplicates`` of an id: refuse the file, or keep its first or last row; rows without one: refuse, or drop."""

    duplicates: str = "refuse"
    no_id: str = "refuse"

    def __post_init__(self) -> None:
        for what, came, ways in (("duplicates", self.duplicates, DUPLICATES), ("no_id", self.no_id, NO_ID)):
            if came not in ways:
                raise unknown(f"way with {what}", came, ways)

    def digest(self, files: str) -> str:
        """The digest of the rows: that of the files, unless a rule may take some away."""
        if self == RowRules():
            return files
        return hashlib.sha256(f"{files} {self.duplicates} {self.no_id}".encode()).hexdigest()


def rows_with_id(texts: Any, name: str, column: str) -> np.ndarray:
    """The numbers of the rows that have an id; how many have none is said."""
    pc = arrow("pyarrow.compute")
    has_one: np.ndarray = pc.not_equal(pc.utf8_trim_whitespace(texts), "").to_numpy()
    if not has_one.any():
        raise TableError(f"no row of '{name}' has an id in column '{column}'; choose another column with id=.")
    _say(len(texts) - int(has_one.sum()), f"of '{name}' without an id are dropped (no_id = 'drop').")
    return has_one.nonzero()[0]


def one_row_each(texts: Any, keep: str, name: str) -> np.ndarray:
    """The numbers of the first or the last row of every id, ascending; how many are left out is said."""
    codes = texts.combine_chunks().dictionary_encode().indices.to_numpy()
    step = -1 if keep == "last" else 1
    _, places = np.unique(codes[::step], return_index=True)
    rows = np.sort(places if keep == "first" else len(codes) - 1 - places)
    _say(len(codes) - len(rows), f"of '{name}' have the id of another row and are dropped (duplicates = '{keep}').")
    return rows


def _say(count: int, what: str) -> None:
    if count:
        warnings.warn(f"{count:,} rows {what}", ColonnadeWarning, stacklevel=5)
