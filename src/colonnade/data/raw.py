"""A data set as it was read: two parts, train and test, not yet cut into parties."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from colonnade.core.table import Scale

_HELD_OUT = 5  # every fifth row is for testing
_FIXED_SEED = 20240  # the parts of a data set do not depend on a user's seed


@dataclass(frozen=True)
class RawPart:
    """The rows of one part."""

    X: np.ndarray
    y: np.ndarray
    ids: np.ndarray

    def take(self, rows: np.ndarray) -> RawPart:
        """Only these rows, in this order (a copy)."""
        return RawPart(self.X[rows], self.y[rows], self.ids[rows])


@dataclass(frozen=True)
class Raw:
    """Both parts of a data set, with the facts that are needed to cut it into parties.

    A table also has ``sources``, which maps each source column to the columns of X that encode it, and ``groups``, the
    natural parties and their source columns. With ``kinds_apart`` no party of an even split gets columns of two groups.
    """

    train: RawPart
    test: RawPart
    classes: tuple[str, ...]
    scale: Scale | None = None
    names: tuple[str, ...] = ()
    sources: dict[str, range] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kinds_apart: bool = False


def hold_out(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and for testing: shuffled, stratified, 80/20, and always the same.

    >>> train, test = hold_out(np.array([0] * 50 + [1] * 50))
    >>> len(train), len(test), int((test < 50).sum())
    (80, 20, 10)
    """
    random = np.random.default_rng(_FIXED_SEED)
    order = random.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]  # sorted by class, shuffled within each
    tested = np.arange(len(y)) % _HELD_OUT == 0
    return random.permutation(order[~tested]), random.permutation(order[tested])


def shuffled(part: RawPart) -> RawPart:
    """The rows in a fixed random order, for files that are sorted by class."""
    return part.take(np.random.default_rng(_FIXED_SEED).permutation(len(part.y)))
