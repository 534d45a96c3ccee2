"""The main directions of a side's rows (principal components), and each row's place along them."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = 1e-6


def directions_of(x: Tensor, count: int) -> Tensor:
    """Means and directions [1 + count, numbers of a row]; each place along a direction has the deviation 1.

    Columns of a table are standardised first, because their units differ; the pixels of a picture have one unit. If a
    row has fewer numbers than ``count``, the directions beyond them are zero.

    >>> directions_of(torch.tensor([[0.0, 0.0], [2.0, 2.0]]), 1).tolist()
    [[1.0, 1.0], [0.5, 0.5]]
    """
    flat = x.flatten(1).double()
    mean = flat.mean(0)
    spread = flat.std(0, correction=0) if x.ndim == 2 else flat.sub(mean).square().mean().sqrt().expand_as(mean)
    unit = torch.where(spread > LEAST, spread, torch.ones_like(spread))
    _, sizes, turned = torch.linalg.svd((flat - mean) / unit, full_matrices=False)
    deviations = sizes[:count] / len(flat) ** 0.5
    axes = torch.zeros(count, flat.shape[1], dtype=torch.float64)
    kept = torch.where(deviations > LEAST, 1 / deviations.clamp(min=LEAST), 0.0)
    axes[: len(kept)] = turned[:count] * kept[:, None] * _signs(turned[:count])[:, None] / unit
    return torch.cat([mean[None], axes]).float()


def projected(x: Tensor, directions: Tensor) -> Tensor:
    """Each row's place along the directions [rows, count]."""
    return (x.flatten(1) - directions[0]) @ directions[1:].T


def _signs(axes: Tensor) -> Tensor:
    """The sign that makes the largest number of a direction positive; otherwise it is the solver's whim."""
    return axes.gather(1, axes.abs().argmax(1, keepdim=True))[:, 0].sign()
