"""A network that sends noisy embeddings, and pays for what they tell of its columns: a variational bottleneck.

Every row's embedding is drawn from a normal distribution N(mu, sigma^2) whose mean and deviation the network computes.
Training adds ``strength`` times the divergence between this distribution and N(0, 1), which bounds the information that
an embedding has about the row. It is the regulariser of Zou, Liu, Zhang, *Mutual information regularization for
vertical federated learning*, 2023 (MID), by the variational bound of Alemi, Fischer, Dillon, Murphy, *Deep variational
information bottleneck*, ICLR 2017, here at the party whose columns are to stay hidden. It needs nobody else: the party
adds the penalty's gradient to the one that it is sent.

It is no differential privacy: the network learns its own sigma, and may keep it small where the task wants it. The
noise of every message is new, so whoever reads a row's embedding in many rounds averages it out. Asked again for the
same rows after the same round, a party gives the same embeddings again.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.core.randomness import SECRET_BYTES, Randomness
from colonnade.errors import ConfigError
from colonnade.models.mlp import MLP, LinearDecision

LOWEST, HIGHEST = -10.0, 10.0  # of a logarithm of a variance
FIRST = -4.0  # at the start the noise is small, so that training begins


@dataclass(frozen=True)
class Bottleneck(LinearDecision):
    """An MLP whose embeddings are drawn from N(mu, sigma^2), in training and in predictions.

    ``strength`` weighs the penalty against the loss, per row; with 0 there is noise that training may remove.

    >>> net = Bottleneck(hidden=(8,), strength=0.01)((6,), 4)
    >>> net(torch.zeros(2, 6)).shape
    torch.Size([2, 4])
    """

    hidden: tuple[int, ...] = (120,)
    strength: float = 0.001

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        strength = self.strength
        if isinstance(strength, bool) or not isinstance(strength, int | float) or not 0 <= strength < math.inf:
            raise ConfigError(f"strength={strength!r} of a bottleneck is out of range; give a number from 0.")

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the network for rows of this shape."""
        layers = [*MLP(self.hidden)(shape, 2 * width).children()][:-1]  # mu has no ReLU
        return nn.Sequential(*layers, DrawnEmbedding(float(self.strength)))


class DrawnEmbedding(nn.Module):
    """Draws embeddings [rows, width] from means and log variances side by side [rows, 2 width]."""

    draws = True

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, inputs: Tensor) -> Tensor:
        """Embeddings with fresh noise; also in predictions, which would show the means otherwise."""
        mean, spread = inputs.chunk(2, dim=-1)
        log_variance = (spread + FIRST).clamp(LOWEST, HIGHEST)
        mean, log_variance = _Penalty.apply(mean, log_variance, self.strength)  # type: ignore[no-untyped-call]
        noise = torch.randn_like(mean) if self.training else _noise_for(mean)
        return mean + torch.exp(log_variance / 2) * noise  # type: ignore[no-any-return]


def _noise_for(mean: Tensor) -> Tensor:
    """Standard normal numbers that follow from torch's state and from the means: others get other noise.

    A party's randomness is the same for all tables and parts of a table that are asked about after one round. The noise
    must not be: whoever has two messages with the same noise takes their difference, and has none.
    """
    own = torch.randint(256, (SECRET_BYTES,), dtype=torch.uint8).numpy().tobytes()
    key = hashlib.sha256(own + mean.detach().cpu().contiguous().numpy().tobytes()).digest()
    drawn = torch.randn(mean.shape, generator=Randomness(0, key).generator("bottleneck"), dtype=mean.dtype)
    return drawn.to(mean.device)


class _Penalty(torch.autograd.Function):
    """Passes means and log variances on; the gradient of their mean penalty over the rows is added on the way back.

    A method need not know of the penalty: it gives the gradient of its own loss, a mean over rows.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_variance: Tensor, strength: float) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(mean, log_variance)
        ctx.strength = strength
        return mean.clone(), log_variance.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        mean, log_variance = ctx.saved_tensors
        weight = ctx.strength / max(len(mean), 1)
        return slopes[0] + weight * mean, slopes[1] + weight * 0.5 * (log_variance.exp() - 1.0), None
