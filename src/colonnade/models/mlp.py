"""The multilayer perceptron of the VIM paper."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn


class LinearDecision:
    """A builder whose model has one linear layer above the embedding, for methods that cut a party's model there."""

    def decision(self, embedding: int, classes: int) -> nn.Module:
        """The layer from the embedding to the classes."""
        return nn.Linear(embedding, classes)


@dataclass(frozen=True)
class MLP(LinearDecision):
    """Linear layers with ReLU after each, the last one included, so embeddings are non-negative.

    >>> MLP(hidden=(120,))((56,), 60)
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=56, out_features=120, bias=True)
      (2): ReLU()
      (3): Linear(in_features=120, out_features=60, bias=True)
      (4): ReLU()
    )
    """

    hidden: tuple[int, ...] = (120,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the network for rows of this shape."""
        return nn.Sequential(nn.Flatten(), *_layers([math.prod(shape), *self.hidden, width]))

    def decoder(self, shape: tuple[int, ...], embedding: int) -> nn.Module:
        """The same layers backwards, without a ReLU at the end, to all numbers of a row.

        >>> MLP(hidden=(120,)).decoder((2, 28), 60)
        Sequential(
          (0): Linear(in_features=60, out_features=120, bias=True)
          (1): ReLU()
          (2): Linear(in_features=120, out_features=56, bias=True)
        )
        """
        return nn.Sequential(*_layers([embedding, *reversed(self.hidden), math.prod(shape)])[:-1])


def _layers(widths: Sequence[int]) -> list[nn.Module]:
    pairs = itertools.pairwise(widths)
    return [layer for fan_in, fan_out in pairs for layer in (nn.Linear(fan_in, fan_out), nn.ReLU())]
