"""What the owner of ``gal`` finds in every round: the weights of the parties' fits, and how far to go along them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from colonnade.core.task import Task
from colonnade.learners.problems import Array

PASSES, HALVINGS = 2000, 40
DOUBLINGS = 6  # so the step is at most 64: classes that can be told apart would want an endless one
LEAST, NEAR = 1e-12, 1e-10


def weights_of(fits: Tensor, residual: Tensor) -> Tensor:
    """The weights [parties], not negative and of sum 1, whose mix of the fits is closest to the residuals.

    Projected gradients with Nesterov's acceleration, in the parties' inner products.

    >>> fits = torch.tensor([[[1.0], [0.0]], [[0.0], [1.0]], [[-1.0], [-1.0]]])
    >>> [round(weight, 5) for weight in weights_of(fits, torch.tensor([[0.75], [0.25]])).tolist()]
    [0.75, 0.25, 0.0]
    """
    flat, wanted = fits.double().flatten(1).numpy(), residual.double().flatten().numpy()
    inner, fitting = flat @ flat.T, flat @ wanted
    rate = 1 / max(float(np.linalg.eigvalsh(inner)[-1]), LEAST)
    weights = ahead = np.full(len(flat), 1 / len(flat))
    for number in range(PASSES):
        following = on_simplex(ahead - rate * (inner @ ahead - fitting))
        ahead = following + number / (number + 3) * (following - weights)
        near = bool(np.abs(following - weights).max() < NEAR)
        weights = following
        if near:
            break
    return torch.from_numpy(weights).float()


def on_simplex(point: Array) -> Array:
    """The nearest point whose numbers are not negative and have the sum 1.

    >>> on_simplex(np.array([0.5, 1.5, -3.0])).tolist()
    [0.0, 1.0, 0.0]
    """
    falling = np.sort(point)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(point) + 1)
    return np.asarray(np.maximum(point - excess[falling > excess][-1], 0.0))


def step_along(o: Tensor, direction: Tensor, labels: Tensor, task: Task) -> Tensor:
    """The step from 0 to 64 at which the loss of o + eta * direction is least; 0 if the direction leads uphill.

    The loss is convex along a line, so its slope is halved in until it is 0.
    """
    exact, way = o.double(), direction.double()

    def uphill(step: float) -> bool:
        return bool((task.error(exact + step * way, labels).double() * way).sum() >= 0)

    low, high = 0.0, 1.0
    for _ in range(DOUBLINGS):
        if uphill(high):
            break
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if uphill(middle) else (middle, high)
    return torch.tensor(low, dtype=torch.float32)
