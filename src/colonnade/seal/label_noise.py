"""Label privacy: before training the owner replaces the labels once by soft targets that hide each label.

Many messages of vertical learning reveal labels by construction (the duals of VIMADMM, the logit gradients of FDML).
So the labels are randomised *before* training. Every round and every message is then post-processing, and epsilon does
not grow. Each label is protected by itself: for any two values of a label, no soft target is more than e^epsilon times
likelier under one than under the other. Calling :meth:`protect` twice with new randomness spends epsilon twice.

* :class:`RandomLabels`: k-ary randomised response (Warner 1965; Kairouz, Oh and Viswanath, JMLR 2016). The label is
  kept with probability ``e^eps / (e^eps + C - 1)``, else replaced by one of the others.
* :class:`LaplaceLabels`: Laplace noise of scale ``2 / eps`` on the one-hot label, whose L1 sensitivity is 2, then
  Bayes' rule: ALIBI of Malek et al., "Antipodes of label differential privacy" (NeurIPS 2021).

Bayes' rule needs the share of each class. It is estimated from the noisy labels alone, so it costs no privacy.
Randomness comes from :class:`~colonnade.seal.noise.NoiseSource`; with ``key=`` it follows from the key and the labels,
so a resumed simulation is exact, and other labels under the same key get independent noise.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from colonnade.errors import ConfigError, SealError, unknown
from colonnade.seal.base import Seal
from colonnade.seal.noise import NoiseSource

LEAST, MOST = 0.01, 20.0
CORRECTIONS = ("none", "posterior", "unbiased")
# The Laplace noise is a multiple of this, and so is every one-hot entry: see noise.py for why.
_GRID = 2.0**-20


@dataclass(frozen=True)
class LabelSeal(Seal):
    """Base of the two label seals: the range of epsilon, and the source of randomness."""

    epsilon: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not LEAST <= self.epsilon <= MOST:
            raise ConfigError(
                f"{self.kind}: epsilon={self.epsilon} is out of range; it must lie between {LEAST} (nothing can be "
                f"learnt) and {MOST:g} (nothing is hidden)."
            )

    def protect(self, labels: Tensor, classes: int, key: bytes | None = None) -> Tensor:
        """Soft targets, float32 [N, C], for class numbers, int64 [N]; once per job, by the owner."""
        if classes < 2:
            raise SealError(f"{self.kind}: {classes} classes came, expected at least 2; one class hides itself.")
        if labels.dtype != torch.int64 or labels.dim() != 1:
            raise SealError(f"{self.kind}: labels came as {labels.dtype} {list(labels.shape)}, expected int64 [N].")
        if len(labels) and (int(labels.min()) < 0 or int(labels.max()) >= classes):
            raise SealError(
                f"{self.kind}: labels {int(labels.min())} to {int(labels.max())} came for {classes} classes."
            )
        if not len(labels):
            return torch.zeros(0, classes)
        source = NoiseSource(os.urandom(32) if key is None else key)
        # As in noise.py, the labels are part of the key: two sets of labels never get the same noise.
        digest = hashlib.sha256(f"{self!r} {classes}".encode() + labels.cpu().numpy().tobytes()).digest()
        uniform = source.uniform(self.kind, digest, (len(labels), self._draws(classes)))
        return self._soften(labels.cpu(), classes, uniform).float()

    @abstractmethod
    def keep_probability(self, classes: int) -> float:
        """How often the best guess from the released value alone is right, if all classes are equally likely."""

    @abstractmethod
    def _draws(self, classes: int) -> int:
        """How many uniform numbers one label needs."""

    @abstractmethod
    def _soften(self, labels: Tensor, classes: int, uniform: Tensor) -> Tensor:
        """Soft targets in float64, from labels and uniform numbers."""


@dataclass(frozen=True)
class RandomLabels(LabelSeal):
    """Randomised response on labels; ``correct`` says what training sees of the noisy label.

    * ``posterior``: the probability of every class given the noisy label, by Bayes' rule.
    * ``unbiased``: the inverse of the response matrix applied to the noisy one-hot label, so that its mean is the true
      one-hot label; entries may be negative and large.
    * ``none``: the noisy label, one-hot.

    >>> round(RandomLabels(epsilon=4.0).keep_probability(10), 3)
    0.858
    """

    kind: ClassVar[str] = "random-labels"

    correct: str = "posterior"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.correct not in CORRECTIONS:
            raise unknown("correction", self.correct, CORRECTIONS)

    def keep_probability(self, classes: int) -> float:
        """``e^eps / (e^eps + C - 1)``: the noisy label itself is the best guess."""
        return 1.0 / (1.0 + (classes - 1) * math.exp(-self.epsilon))

    def _draws(self, classes: int) -> int:
        return 2

    def _soften(self, labels: Tensor, classes: int, uniform: Tensor) -> Tensor:
        keep = self.keep_probability(classes)
        other = (1.0 - keep) / (classes - 1)
        # Move by 1 to C - 1 classes: every other class is equally likely.
        move = (uniform[:, 1] * (classes - 1)).long() + 1
        noisy = torch.where(uniform[:, 0] < keep, labels, (labels + move) % classes)
        seen = one_hot(noisy, classes).double()
        if self.correct == "none":
            return seen
        if self.correct == "unbiased":
            return (seen - other) / (keep - other)
        return _posterior(seen * self.epsilon)


@dataclass(frozen=True)
class LaplaceLabels(LabelSeal):
    """Laplace noise on one-hot labels, then the probability of every class given the noisy vector (ALIBI).

    >>> soft = LaplaceLabels(epsilon=4.0).protect(torch.tensor([0, 1, 2]), classes=3, key=bytes(32))
    >>> torch.allclose(soft.sum(1), torch.ones(3))
    True
    """

    kind: ClassVar[str] = "laplace-labels"

    def keep_probability(self, classes: int) -> float:
        """The exact probability that the largest entry is the true class; entries beyond 0 and 1 count as equal.

        By Bayes' rule only ``clamp(entry, 0, 1)`` matters. The terms below are for a true entry of 1, between, and 0.
        """
        rest, tail = classes - 1, 0.5 * math.exp(-self.epsilon / 2.0)  # tail: P(another entry >= 1)
        tied_at_one = (1.0 - (1.0 - tail) ** classes) / (classes * tail)
        nodes, weights = np.polynomial.legendre.leggauss(200)
        place = (nodes + 1.0) / 2.0
        density = self.epsilon / 4.0 * np.exp(-self.epsilon / 2.0 * (1.0 - place))
        below = (1.0 - 0.5 * np.exp(-self.epsilon / 2.0 * place)) ** rest
        return float(0.5 * tied_at_one + (weights / 2.0 * density * below).sum() + tail * 0.5**rest / classes)

    def _draws(self, classes: int) -> int:
        return classes

    def _soften(self, labels: Tensor, classes: int, uniform: Tensor) -> Tensor:
        # The inverse distribution function, on (-1/2, 1/2); half a step avoids both ends and the middle.
        centred = (uniform - 0.5) + 2.0**-54
        noise = -centred.sign() * torch.log1p(-2.0 * centred.abs()) * (2.0 / self.epsilon)
        noisy = one_hot(labels, classes) + (noise / _GRID).round() * _GRID
        # log p(noisy | class c) is this up to a constant: |o_c| - |o_c - 1| over the scale.
        return _posterior((noisy.abs() - (noisy - 1.0).abs()) * (self.epsilon / 2.0))


def _posterior(likelihood: Tensor) -> Tensor:
    """P(class | noisy label) from log likelihoods [N, C]."""
    return torch.softmax(likelihood + _shares(torch.softmax(likelihood, 1)).log(), 1)


def _shares(flat: Tensor) -> Tensor:
    """The share of every class, from the noisy labels' posterior [N, C] under equal shares.

    Both seals treat classes alike, so ``flat`` has mean a at the true class and b at any other, whatever the shares:
    its mean over the rows is b + (a - b) * shares. By Bayes' rule ``sum flat^2`` has the mean a, which gives the slope.
    """
    rows, classes = flat.shape
    at_true = flat.square().sum(1).mean()
    slope = at_true - (1.0 - at_true) / (classes - 1)
    lean = (flat.mean(0) - 1.0 / classes) / slope
    variance = flat.var(0, correction=0).sum() / (rows * slope**2)
    # James-Stein shrinkage by what noise alone can cause (three deviations of chi square): with a small epsilon the
    # estimated differences are mostly noise, and a wrong prior would outweigh the noisy labels.
    chance = variance * (1.0 + 3.0 * math.sqrt(2.0 / (classes - 1)))
    lean = lean * (1.0 - chance / lean.square().sum().clamp(min=1e-300)).clamp(min=0.0)
    # A share below one standard error cannot be estimated, so that is the smallest.
    shares = (1.0 / classes + lean).clamp(min=(variance / classes).sqrt().clamp(min=1e-9, max=1.0 / classes))
    return shares / shares.sum()
