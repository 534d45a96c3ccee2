"""Noise on the gradients that the owner sends down, by which rows of different classes look more alike.

A row's gradient depends on its label: the means of two classes lie apart, and rows of the rarer class have longer
gradients. These seals add noise to each message about a batch, made from the batch's own gradients and the labels,
which only the owner has.

=====================  ==================================================================================
:class:`MaxNorm`       noise along every gradient, so that all norms are those of the longest one on average
:class:`ClassNoise`    Gaussian noise in the span of the differences of the class means, for any number of classes
``Marvell``            the optimal Gaussian noise of a given power for two classes, see ``marvell.py``
=====================  ==================================================================================

**This is no differential privacy**: nothing bounds what a message, or many messages about one row, show of a label.
The noise of every message is new, so whoever receives a row's gradient in many epochs averages it out.

References: Li, Sun, Yang, Gao, Zhang, Xie, Smith, Wang, "Label leakage and protection in two-party split learning"
(ICLR 2022) has ``max_norm`` and Marvell. ``ClassNoise`` is our own arrangement of the same idea for several classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.errors import ConfigError, SealError
from colonnade.seal.base import Seal

MOST_POWER = 1e6
Normal = Callable[[tuple[int, ...]], Tensor]
"""A function that draws standard normal float64 numbers of a shape."""


@dataclass(frozen=True)
class GradientSeal(Seal):
    """Base of the seals on gradients of embeddings; with as many classes as ``most_classes``, or any number."""

    most_classes: ClassVar[int | None] = None

    def disguise(self, gradients: Tensor, classes: Tensor, normal: Normal) -> Tensor:
        """What is sent instead of gradients [rows, ...] of rows of these classes, int64 [rows]."""
        if len(classes) != len(gradients):
            raise SealError(f"{self.kind}: {len(classes)} labels came for gradients of {len(gradients)} rows.")
        if not len(gradients):
            return gradients
        noisy = self._with_noise(gradients.detach().flatten(1).double(), classes, normal)
        noisy = noisy.reshape(gradients.shape).to(gradients.dtype)
        if not bool(torch.isfinite(noisy).all()):
            raise SealError(
                f"{self.kind}: the noise for gradients up to {float(gradients.abs().max()):g} is not finite; lower the "
                "learning rate, or the seal's power if it has one."
            )
        return noisy

    @abstractmethod
    def _with_noise(self, rows: Tensor, classes: Tensor, normal: Normal) -> Tensor:
        """The gradients [rows, width] in float64 with noise."""


@dataclass(frozen=True)
class PowerSeal(GradientSeal):
    """Base of the seals whose noise has a power relative to the squared distance between the means of classes."""

    power: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.power <= MOST_POWER:
            raise ConfigError(
                f"{self.kind}: power={self.power} is out of range; give a number above 0, up to {MOST_POWER:g}."
            )


@dataclass(frozen=True)
class MaxNorm(GradientSeal):
    """Noise along every gradient, so that none is longer than another on average; directions stay readable.

    >>> gradients, ones = torch.tensor([[3.0, 4.0], [0.3, 0.4]]), lambda shape: torch.ones(shape, dtype=torch.float64)
    >>> MaxNorm().disguise(gradients, torch.tensor([1, 0]), ones)[0].tolist()
    [3.0, 4.0]
    """

    kind: ClassVar[str] = "max-norm"

    def _with_noise(self, rows: Tensor, classes: Tensor, normal: Normal) -> Tensor:
        squares = rows.square().sum(1, keepdim=True)
        lacking = (squares.max() / squares.where(squares > 0, squares.max()) - 1.0).clamp(min=0.0)
        return rows * (1.0 + lacking.nan_to_num().sqrt() * normal((len(rows), 1)))  # a row of zeros stays one


@dataclass(frozen=True)
class ClassNoise(PowerSeal):
    """Gaussian noise along the differences of the class means, and what makes all classes spread alike; any classes.

    Along the span of the class means the noise has ``power`` times the mean squared distance of two means. Each class
    also gets, along those directions and across them, what it lacks of the variance of the widest class.
    """

    kind: ClassVar[str] = "class-noise"

    def _with_noise(self, rows: Tensor, classes: Tensor, normal: Normal) -> Tensor:
        place, means = class_means(rows, classes)
        axes, distances = _span(means)
        along = (rows - means[place]) @ axes.T
        across = rows - means[place] - along @ axes
        free = max(rows.shape[1] - len(axes), 1)
        spread = _by_class(along.square(), place)
        rest = _by_class(across.square().sum(1, keepdim=True) / free, place)
        variance = self.power * distances + spread.amax(0) - spread
        drawn = normal((len(rows), len(axes) + rows.shape[1]))
        free_noise = drawn[:, len(axes) :]
        free_noise = (free_noise - free_noise @ axes.T @ axes) * (rest.amax(0) - rest).sqrt()[place]
        return rows + (drawn[:, : len(axes)] * variance.sqrt()[place]) @ axes + free_noise


def class_means(rows: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """The place of every row's class among those of the batch, and the means of these classes.

    A batch of one class gets a second one, with the opposite mean, so that its noise has a direction and a size.
    """
    place = classes.unique(return_inverse=True)[1]
    means = _by_class(rows, place)
    return place, torch.cat([means, -means]) if len(means) == 1 else means


def _by_class(values: Tensor, place: Tensor) -> Tensor:
    """The mean over the rows of each class."""
    counts = place.bincount().double().unsqueeze(1)
    return torch.zeros(len(counts), values.shape[1], dtype=torch.float64).index_add_(0, place, values) / counts


def _span(means: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal directions of the differences between means, and the mean squared distance of two along each."""
    _, sizes, axes = torch.linalg.svd(means - means.mean(0), full_matrices=False)
    there = sizes > sizes.max() * 1e-9
    return axes[there], 2.0 * sizes[there].square() / (len(means) - 1)
