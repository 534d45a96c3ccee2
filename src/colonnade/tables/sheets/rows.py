"""The wanted rows of a stream, and their places in the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.errors import TableError


class WantedRows:
    """Wanted rows by number, in any order; a stream has them in its own order.

    >>> wanted = WantedRows([7, 2, 5], total=10)
    >>> [part.tolist() for part in wanted.within(0, 6)]
    [[2, 5], [1, 2]]
    """

    def __init__(self, rows: Any, total: int, places: np.ndarray | None = None) -> None:
        """``places`` are where the rows stand in the stream, if it has others beside them."""
        chosen = np.arange(total) if rows is None else np.asarray(rows)
        if chosen.dtype == bool and chosen.shape == (total,):
            chosen = chosen.nonzero()[0]
        if len(chosen) and (chosen.dtype.kind not in "iu" or chosen.ndim != 1):
            raise TableError(f"rows are whole numbers in one list, but {chosen.dtype} of shape {chosen.shape} came.")
        chosen = chosen.astype(np.int64)
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < total:
            raise TableError(f"rows up to {chosen.max()} are wanted of a file with {total}; count from 0.")
        chosen = chosen if places is None else places[chosen]
        self.count = len(chosen)
        self._order = np.argsort(chosen, kind="stable")
        self._sorted = chosen[self._order]

    def within(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The wanted rows from ``start`` to before ``stop``, ascending, and their places in the result."""
        low, high = np.searchsorted(self._sorted, (start, stop))
        return self._sorted[low:high], self._order[low:high]

    def any_within(self, start: int, stop: int) -> bool:
        """Whether any row from ``start`` to before ``stop`` is wanted."""
        low, high = np.searchsorted(self._sorted, (start, stop))
        return bool(high > low)
