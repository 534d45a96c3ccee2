"""Marvell: the Gaussian noise of a given power that makes the gradients of two classes hardest to tell apart.

Li, Sun, Yang, Gao, Zhang, Xie, Smith, Wang, "Label leakage and protection in two-party split learning" (ICLR 2022),
Theorem 2. It is no differential privacy, see ``gradient_noise.py``.

=====================  ==================================================================================
paper                  here
=====================  ==================================================================================
``g``                  the squared distance of the class means; everything is in units of it
``u``, ``v``           ``spread``: the mean variance of an entry within class 0 and class 1
``d``, ``p``           the gradients' width; the share of class 1 in the batch
``lambda_1``           variance of the noise along the difference of the means, for each class
``lambda_2``           variance of the noise in every other direction, for each class
``P = s g``            ``power`` is s: the mean squared length of a row's noise, in units of g
``sumKL``              the sum of both divergences; with a, b the whole variances along the difference and c, e
                       across it, twice that plus 2 d is (b + g) / a + (a + g) / b + (d - 1)(e / c + c / e)
=====================  ==================================================================================

The logarithms of a, b, c, e make a convex problem (a geometric program). So each variable can be minimised away in
turn. The class with more variance needs no noise across (c is its own variance); given a, the best b is
``sqrt(a (a + g))``, or the next value that the power allows; two nested searches for a minimum find e and a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.seal.gradient_noise import Normal, PowerSeal, class_means

_POINTS, _LEVELS = 17, 4  # each level narrows a search by a factor of 8
_LEAST = 1e-9  # of a variance, in units of the squared distance of the means
Array = np.ndarray


class Variances(NamedTuple):
    """The variances of the noise for class 0 and class 1, in units of the squared distance of the class means."""

    along: tuple[float, float]
    across: tuple[float, float]


class _Batch(NamedTuple):
    """A batch: the class of less and of more variance within, their shares, the gradients' width, and the power."""

    low: float
    high: float
    share: float
    other: float
    width: int
    power: float


@dataclass(frozen=True)
class Marvell(PowerSeal):
    """The Gaussian noise of this power that makes gradients of two classes hardest to tell apart, batch by batch.

    ``power`` is the mean squared length of the noise, in units of the squared distance between the class means.
    """

    kind: ClassVar[str] = "marvell"
    most_classes: ClassVar[int | None] = 2

    def _with_noise(self, rows: Tensor, classes: Tensor, normal: Normal) -> Tensor:
        place, means = class_means(rows, classes)
        gap = means[-1] - means[0]
        size = float(gap.square().sum())
        if size == 0.0:  # both classes have the same mean, so there is no power
            return rows
        inside = (rows - means[place]).square().mean(1)
        spread = [float(inside[place == k].mean() / size) for k in range(int(place.max()) + 1)]
        share = float((place == 1).double().mean())
        best = least_divergence((spread[0], spread[-1]), share, rows.shape[1], self.power)
        along, across = torch.tensor(best.along), torch.tensor(best.across)
        drawn, unit = normal((len(rows), 1 + rows.shape[1])) * math.sqrt(size), gap / math.sqrt(size)
        free = drawn[:, 1:] - (drawn[:, 1:] @ unit).unsqueeze(1) * unit
        noise = drawn[:, :1] * along.double().sqrt()[place].unsqueeze(1) * unit
        return rows + noise + free * across.double().sqrt()[place].unsqueeze(1)


def least_divergence(spread: tuple[float, float], share: float, width: int, power: float) -> Variances:
    """The variances of noise of this power that leave the least symmetric divergence between two classes.

    ``spread`` is the variance of an entry within class 0 and class 1, ``share`` the share of class 1.

    >>> best = least_divergence((1.0, 1.0), 0.5, 8, power=4.0)  # equal classes: all power goes along the difference
    >>> [round(variance, 2) for variance in best.along], best.across
    ([4.0, 4.0], (0.0, 0.0))
    """
    shares, first = (max(1.0 - share, _LEAST), max(share, _LEAST)), int(spread[1] < spread[0])
    ordered = max(spread[first], _LEAST), max(spread[1 - first], _LEAST)
    batch = _Batch(*ordered, shares[first], shares[1 - first], width, power)
    e = float(_least(lambda at: _along(batch, at)[0], np.array(batch.low), np.array(_widest(batch)))[1])
    _, a, b = _along(batch, np.array([e]))
    along = max(0.0, float(b[0]) - batch.low), max(0.0, float(a[0]) - batch.high)
    across = max(0.0, e - batch.low), 0.0
    return Variances(along, across) if first == 0 else Variances(along[::-1], across[::-1])


def _widest(batch: _Batch) -> float:
    """How far the narrower class can be widened across the difference: to the other one, if the power allows it."""
    if batch.width == 1:
        return batch.low
    return min(batch.high, batch.low + batch.power / (batch.share * (batch.width - 1)))


def _along(batch: _Batch, e: Array) -> tuple[Array, Array, Array]:
    """The least objective for each of these e, with its a and b."""
    left = np.maximum(batch.power - batch.share * (batch.width - 1) * (e - batch.low), 0.0)

    def best_b(a: Array) -> Array:
        room = np.maximum(left[..., None] - batch.other * (a - batch.high), 0.0) / batch.share
        return np.clip(np.sqrt(a * (a + 1.0)), batch.low, batch.low + room)

    def divergence(a: Array) -> Array:
        b = best_b(a)
        return np.asarray((b + 1.0) / a + (a + 1.0) / b)

    value, a = _least(divergence, np.full_like(left, batch.high), batch.high + left / batch.other)
    across = (batch.width - 1) * (e / batch.high + batch.high / e)
    return value + across, a, best_b(a[..., None])[..., 0]


def _least(objective: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """The least value on each interval [low, high] of positive numbers, and where it is, if it falls and then rises."""
    low, high = np.log(low), np.log(high)
    steps = np.linspace(0.0, 1.0, _POINTS)
    for _ in range(_LEVELS):
        points = low[..., None] + (high - low)[..., None] * steps
        values = objective(np.exp(points))
        best = values.argmin(-1)[..., None]
        at = [np.take_along_axis(points, np.clip(best + k, 0, _POINTS - 1), -1)[..., 0] for k in (-1, 0, 1)]
        low, high = at[0], at[2]
    return np.take_along_axis(values, best, -1)[..., 0], np.exp(at[1])
