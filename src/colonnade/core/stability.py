"""The population stability index: how far the scores of some rows lie from those of others."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BINS = 10  # of as many rows of the reference each
_LEAST = 1e-4  # the share of a bin without rows, so that its logarithm is finite


class Stability(NamedTuple):
    """The index, and about how large it is by chance alone if both come from one distribution."""

    psi: float
    chance: float


def stability(reference: Tensor, scores: Tensor, *, classes: int = 0) -> Stability:
    """The index of scores against a reference: the sum over bins of (a - b) ln(a / b), for their shares a and b.

    Bins have as many rows of the reference each; equal scores stay in one bin. With ``classes`` the scores are class
    numbers, and each class is a bin.

    >>> stability(torch.arange(100.0), torch.arange(100.0)).psi
    0.0
    """
    edges = torch.arange(1, classes, dtype=torch.float64) if classes else _edges(reference)
    before, now = (_shares(values.double(), edges) for values in (reference, scores))
    index = ((now - before) * (now / before).log()).sum()
    return Stability(float(index), len(edges) * (1 / len(reference) + 1 / len(scores)))


def _edges(reference: Tensor) -> Tensor:
    """The scores at which bins begin, but for the first."""
    ordered = reference.double().sort().values
    places = torch.arange(1, BINS) * len(ordered) // BINS
    edges: Tensor = torch.unique(ordered[places])
    return edges.masked_select(edges > ordered[0])


def _shares(values: Tensor, edges: Tensor) -> Tensor:
    counts = torch.bincount(torch.bucketize(values.contiguous(), edges, right=True), minlength=len(edges) + 1)
    shares: Tensor = counts.double() / len(values)
    return shares.clamp(min=_LEAST)
