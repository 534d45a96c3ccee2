"""Convolutional networks: that of the VIM paper (CIFAR), and small ones of the VFedMH and FedOptimus papers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from colonnade.errors import ModelError
from colonnade.models.mlp import LinearDecision


class _AsPicture(nn.Module):
    """Adds a channel axis to ``[rows, height, width]``."""

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels.unsqueeze(-3)


def open_picture(shape: tuple[int, ...]) -> tuple[list[nn.Module], int]:
    """Layers that turn a row of this shape into a picture with channels, and the number of channels.

    >>> open_picture((3, 10, 10)), open_picture((7, 28))[1]
    (([], 3), 1)
    """
    if len(shape) not in (2, 3):
        raise ModelError(
            f"rows of shape {shape} are no pictures; a convolutional network needs [height, width] or "
            "[channel, height, width], so use cn.MLP for them."
        )
    return ([_AsPicture()], 1) if len(shape) == 2 else ([], shape[0])


def _halved(side: int) -> int:
    return max(1, side // 2)


def _pool(height: int, width: int) -> nn.Module:
    """Halves each side that can be halved."""
    return nn.MaxPool2d((min(2, height), min(2, width)))


@dataclass(frozen=True)
class CNN(LinearDecision):
    """Four 3x3 convolutions, pooling after the first three while the picture allows it, one linear layer.

    ``upsample=32`` enlarges the patch first, as VIM does; without it a patch takes about a fourteenth of the time.
    The network ends with batch norm and ReLU.
    """

    channels: tuple[int, ...] = (32, 64, 64, 128)
    upsample: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(self.channels))

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the network for rows of this shape: ``[height, width]`` or ``[channel, height, width]``."""
        grey = len(shape) == 2
        layers: list[nn.Module] = [_AsPicture()] if grey else []
        if self.upsample:
            layers.append(nn.Upsample((self.upsample, self.upsample)))
        fan_in, side = 1 if grey else shape[0], self.upsample or min(shape[-2:])
        for index, fan_out in enumerate(self.channels):
            layers += [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.ReLU()]
            if index < len(self.channels) - 1 and side >= 2:
                layers.append(nn.AvgPool2d(2))
                side //= 2
            fan_in = fan_out
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(fan_in, width), nn.BatchNorm1d(width), nn.ReLU()]
        return nn.Sequential(*layers)


@dataclass(frozen=True)
class SmallCNN(LinearDecision):
    """The CNN of the VFedMH paper: two 3x3 convolutions, each pooled, and two linear layers.

    The second linear layer is the ``decision`` net, above the embedding.
    """

    channels: tuple[int, int] = (16, 32)

    def __post_init__(self) -> None:
        first, second = self.channels
        object.__setattr__(self, "channels", (first, second))

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the embedding net for rows of this shape."""
        layers, fan_in = open_picture(shape)
        sides = shape[-2], shape[-1]
        for fan_out in self.channels:
            layers += [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.ReLU(), _pool(*sides)]
            fan_in, sides = fan_out, (_halved(sides[0]), _halved(sides[1]))
        layers += [nn.Flatten(), nn.Linear(fan_in * sides[0] * sides[1], width), nn.ReLU()]
        return nn.Sequential(*layers)


@dataclass(frozen=True)
class TinyCNN:
    """The CNN of the FedOptimus paper, for strips of a picture: one 3x3 convolution, pooled, and two linear layers.

    The paper gives no sizes. Sides of fewer than four pixels are not pooled.
    """

    channels: int = 8
    hidden: int = 120

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the network for rows of this shape."""
        layers, colours = open_picture(shape)
        pooled = [2 if side >= 4 else 1 for side in shape[-2:]]
        size = self.channels * (shape[-2] // pooled[0]) * (shape[-1] // pooled[1])
        layers += [nn.Conv2d(colours, self.channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d((pooled[0], pooled[1]))]
        layers += [nn.Flatten(), nn.Linear(size, self.hidden), nn.ReLU(), nn.Linear(self.hidden, width), nn.ReLU()]
        return nn.Sequential(*layers)


@dataclass(frozen=True)
class LeNet:
    """The LeNet of the VFedMH paper: three 5x5 convolutions, one pooling, three linear layers.

    The last two linear layers, ``hidden`` units between them, are the ``decision`` net. LeNet-5 has 6, 16
    and 120 channels; 32 in place of 120 takes a quarter of the time.
    """

    channels: tuple[int, int, int] = (6, 16, 32)
    hidden: int = 84

    def __post_init__(self) -> None:
        first, second, third = self.channels
        object.__setattr__(self, "channels", (first, second, third))

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the embedding net for rows of this shape."""
        layers, colours = open_picture(shape)
        first, second, third = self.channels
        layers += [nn.Conv2d(colours, first, 5, padding=2), nn.ReLU(), _pool(shape[-2], shape[-1])]
        layers += [nn.Conv2d(first, second, 5, padding=2), nn.ReLU()]
        layers += [nn.Conv2d(second, third, 5, padding=2), nn.ReLU(), nn.Flatten()]
        layers += [nn.Linear(third * _halved(shape[-2]) * _halved(shape[-1]), width), nn.ReLU()]
        return nn.Sequential(*layers)

    def decision(self, embedding: int, classes: int) -> nn.Module:
        """The last two linear layers."""
        return nn.Sequential(nn.Linear(embedding, self.hidden), nn.ReLU(), nn.Linear(self.hidden, classes))
