"""Columns of mean 0 and deviation 1, for learners that need them."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = 1e-6


def standard_of(x: Tensor) -> Tensor:
    """Each column's mean and deviation [2, columns], of the values that are not missing; 1 if the column is constant.

    >>> standard_of(torch.tensor([[1.0, 5.0], [3.0, 5.0], [torch.nan, 5.0]])).tolist()
    [[2.0, 5.0], [1.0, 1.0]]
    """
    exact = x.double()
    mean = exact.nanmean(0).nan_to_num(0.0)  # nothing is known of a column without any value
    deviation = (exact - mean).square().nanmean(0).nan_to_num(0.0).sqrt()
    constant = deviation <= LEAST * mean.abs().clamp(min=LEAST)
    return torch.stack([mean, torch.where(constant, torch.ones_like(deviation), deviation)]).float()


def standardised(x: Tensor, standard: Tensor) -> Tensor:
    """The columns with these means and deviations taken out; missing values become the mean."""
    return ((x - standard[0]) / standard[1]).nan_to_num(0.0)
