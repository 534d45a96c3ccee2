"""Number columns: missing values become the median, with a second column that marks them; all have the same scale.

Medians, means and quantiles are learnt from training rows, some of them by scikit-learn. They are stored as
plain arrays and applied by plain arithmetic, so a saved preparation needs no pickle and no version of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

SCALES = ("standard", "quantile")
_QUANTILES = 1000
_LIMIT = 1e6  # deviations; no one of n rows can be more than the root of n from their mean
_ULP = np.spacing(1)
_EDGE = 1e-7  # values this near to the smallest or largest quantile count as equal to it, as in scikit-learn


@dataclass(frozen=True)
class Number:
    """One column as it was in training: ``absent`` if values were missing, ``quantiles`` if it is scaled by them."""

    column: str
    median: float
    absent: bool
    mean: float
    deviation: float
    quantiles: np.ndarray

    @property
    def titles(self) -> tuple[str, ...]:
        """The names of its prepared columns."""
        return (self.column, f"{self.column} missing") if self.absent else (self.column,)

    def fill(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the prepared values [rows, one or two columns] in place."""
        gone = np.isnan(values)
        filled = np.where(gone, self.median, values)
        if len(self.quantiles):
            out[:, 0] = _normal(filled, self.quantiles)
        else:  # the limit only clips outliers in later files: no training row is so far from the mean
            out[:, 0] = np.clip((filled - self.mean) / self.deviation, -_LIMIT, _LIMIT)
        if self.absent:
            out[:, 1] = gone

    def raw(self, prepared: np.ndarray) -> np.ndarray:
        """The column before its preparation, from what :meth:`fill` wrote; NaN where a value was missing."""
        if len(self.quantiles):
            ranks = torch.special.ndtr(torch.from_numpy(prepared[:, 0].astype(np.float64))).numpy()
            values = np.interp(ranks, np.linspace(0, 1, len(self.quantiles)), self.quantiles)
        else:
            values = prepared[:, 0].astype(np.float64) * self.deviation + self.mean
        return np.where(prepared[:, 1] > 0, np.nan, values) if self.absent else values


def fit_number(column: str, values: np.ndarray, scale: str) -> Number | None:
    """The preparation of one column, or None if the column has only one value, or none at all."""
    from sklearn.preprocessing import QuantileTransformer, StandardScaler  # takes two seconds, so only when fitting

    gone = np.isnan(values)
    present = values[~gone]
    if not len(present) or (not gone.any() and present.min() == present.max()):
        return None
    median = float(np.median(present))
    filled = np.where(gone, median, values)[:, None]
    mean, deviation, quantiles = 0.0, 1.0, np.zeros(0)
    if scale == "quantile":
        count = min(_QUANTILES, len(filled))
        fitted = QuantileTransformer(n_quantiles=count, output_distribution="normal", random_state=0).fit(filled)
        quantiles = fitted.quantiles_[:, 0]
    else:
        scaler = StandardScaler().fit(filled)
        mean, deviation = float(scaler.mean_[0]), float(scaler.scale_[0])
    return Number(column, median, bool(gone.any()), mean, deviation, quantiles)


def _normal(values: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Values by their rank among the quantiles, as if drawn from a normal distribution."""
    ranks = np.linspace(0, 1, len(quantiles))
    # Interpolate from both ends: a value that equals several quantiles gets the mean of their ranks.
    upper = np.interp(values, quantiles, ranks)
    lower = np.interp(-values, -quantiles[::-1], -ranks[::-1])
    share = 0.5 * (upper - lower)
    share[values + _EDGE > quantiles[-1]] = 1
    share[values - _EDGE < quantiles[0]] = 0
    inside = torch.from_numpy(share.clip(_EDGE - _ULP, 1 - (_EDGE - _ULP)))
    return np.asarray(torch.special.ndtri(inside))


def titles_of(numbers: Iterable[Number]) -> tuple[str, ...]:
    """The names of all prepared columns of these."""
    return tuple(title for number in numbers for title in number.titles)
