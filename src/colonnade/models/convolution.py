"""The convolutional network of the VIM paper's CIFAR experiments."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


class _AsPicture(nn.Module):
    """Gives ``[rows, height, width]`` a channel axis."""

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels.unsqueeze(-3)


@dataclass(frozen=True)
class CNN:
    """Four 3x3 convolutions, pooling after the first three while the picture allows it, one linear layer.

    ``upsample=32`` enlarges the patch first, as VIM does; at its own size a patch needs about a
    fourteenth of the time. Ends with batch norm and ReLU.
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
