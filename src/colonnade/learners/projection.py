"""The main directions of a side's rows (principal components), and each row's place along them."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = 1e-6
FAR = 3.0  # deviations: values beyond are taken for this, or a few large amounts would turn every direction
FURTHEST = 2.5  # of a place along a direction, so that few bits are enough to tell places apart


def directions_of(x: Tensor, count: int) -> Tensor:
    """Means, units and centres of a row's numbers, and then the directions: [3 + count, numbers of a row].

    Each place along a direction has the deviation 1, before far ones are drawn in. Columns of a table are standardised
    first, because their units differ; the pixels of a picture have one unit. If a row has fewer numbers than ``count``,
    the directions beyond them are zero.

    >>> directions_of(torch.tensor([[0.0, 0.0], [2.0, 2.0]]), 1).tolist()
    [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.5, 0.5]]
    """
    flat = x.flatten(1).double()
    mean = flat.mean(0)
    spread = flat.std(0, correction=0) if x.ndim == 2 else flat.sub(mean).square().mean().sqrt().expand_as(mean)
    unit = torch.where(spread > LEAST, spread, torch.ones_like(spread))
    near = ((flat - mean) / unit).clamp(-FAR, FAR)
    centre = near.mean(0)
    _, sizes, turned = torch.linalg.svd(near - centre, full_matrices=False)
    deviations = sizes[:count] / len(flat) ** 0.5
    kept = torch.where(deviations > LEAST, 1 / deviations.clamp(min=LEAST), 0.0)
    axes = torch.zeros(count, flat.shape[1], dtype=torch.float64)
    axes[: len(kept)] = turned[:count] * (kept * _signs(turned[:count]))[:, None]
    return torch.cat([torch.stack([mean, unit, centre]), axes]).float()


def projected(x: Tensor, directions: Tensor) -> Tensor:
    """Each row's place along the directions [rows, count]."""
    mean, unit, centre, axes = directions[0], directions[1], directions[2], directions[3:]
    near = ((x.flatten(1) - mean) / unit).clamp(-FAR, FAR)
    return ((near - centre) @ axes.T).clamp(-FURTHEST, FURTHEST)


def _signs(axes: Tensor) -> Tensor:
    """The sign that makes the largest number of a direction positive; otherwise it is the solver's whim."""
    return axes.gather(1, axes.abs().argmax(1, keepdim=True))[:, 0].sign()
