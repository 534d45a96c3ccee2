"""Which of the aligned rows are for training and which are to test on: drawn at random here, or decided elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.core.options import number, seed_of
from colonnade.core.schedule import permutation
from colonnade.errors import ConfigError

SHARE = 0.2  # of the rows are held out if nobody says anything


@dataclass(frozen=True, eq=False)
class RowParts:
    """Places in the common order of the aligned rows, ascending; a row that is in neither part is left out."""

    train: np.ndarray
    test: np.ndarray
    dates: np.ndarray | None = None
    """At the owner of a split by date: the dates of all aligned rows."""

    @property
    def both(self) -> np.ndarray:
        """The rows to train on, then those to test on."""
        return np.concatenate([self.train, self.test])


def random_parts(count: int, test: float, seed: int) -> RowParts:
    """A share ``test`` of ``count`` aligned rows to test on; the choice follows from the seed and their number.

    >>> random_parts(5, 0.4, seed=0).test.tolist() == random_parts(5, 0.4, seed=0).test.tolist()
    True
    """
    start = seed_of(seed)
    tested = round(check_share(test) * count)
    if tested >= count:
        raise ConfigError(f"test={test} of {count} aligned rows leaves none to train on; give less, or more rows.")
    order = permutation(count, start, "test").numpy()
    return RowParts(np.sort(order[tested:]), np.sort(order[:tested]))


def check_share(test: float) -> float:
    """The share of rows that is held out."""
    share = number(test, "test")
    if not 0 <= share < 1:
        raise ConfigError(f"test={test} is out of range; give a share from 0 to below 1.")
    return share
