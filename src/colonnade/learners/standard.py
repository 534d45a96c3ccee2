"""Columns of mean 0 and deviation 1, for learners that need them."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = 1e-6


def standard_of(x: Tensor) -> Tensor:
    """Each column's mean and deviation [2, columns]; a column that is constant has the deviation 1.

    >>> standard_of(torch.tensor([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[2.0, 5.0], [1.0, 1.0]]
    """
    exact = x.double()
    mean, deviation = exact.mean(0), exact.std(0, correction=0)
    constant = deviation <= LEAST * mean.abs().clamp(min=LEAST)
    return torch.stack([mean, torch.where(constant, torch.ones_like(deviation), deviation)]).float()


def standardised(x: Tensor, standard: Tensor) -> Tensor:
    """The columns with these means and deviations taken out; missing values become the mean."""
    return ((x - standard[0]) / standard[1]).nan_to_num(0.0)
