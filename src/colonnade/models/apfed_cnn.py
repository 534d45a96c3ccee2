"""The networks of the APFed paper's Tables 3 and 4."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from torch import nn

from colonnade.errors import ConfigError, ModelError
from colonnade.models.convolution import open_picture
from colonnade.models.mlp import LinearDecision

PADDING = 1


@dataclass(frozen=True)
class APFedCNN(LinearDecision):
    """Convolutions without pooling and one linear layer; the decoder has the same layers in reverse.

    The defaults are those for MNIST and Fashion-MNIST (Table 3); ``APFedCNN.cifar()`` is Table 4's network. Padding and
    strides are those of the authors' code. The paper cuts the owner's network below its first linear layer, so that a
    feature map of up to 15,360 numbers per row is sent. In Colonnade all methods share the width of an embedding, so
    the cut is above that layer. With ``embedding=256`` (CIFAR: 50) and the task net's ``dropout=0.5`` the owner's
    network has the paper's layers, except for the last layer's bias. A decoder begins with that layer in reverse.

    >>> APFedCNN()((14, 28), 256)[6]
    Linear(in_features=15360, out_features=256, bias=True)
    """

    channels: tuple[int, ...] = (32, 64)
    kernels: tuple[int, ...] = (5, 5)
    strides: tuple[int, ...] = (1, 1)

    def __post_init__(self) -> None:
        for name in ("channels", "kernels", "strides"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not len(self.channels) == len(self.kernels) == len(self.strides) > 0:
            raise ConfigError(
                f"APFedCNN has {len(self.channels)} channels, {len(self.kernels)} kernels and {len(self.strides)} "
                "strides; give one of each per convolution."
            )

    @classmethod
    def cifar(cls) -> APFedCNN:
        """The paper's network for CIFAR-10 and CIFAR-100 (Table 4)."""
        return cls((16, 32, 64), (5, 4, 5), (1, 2, 1))

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the encoder for rows of this shape: ``[height, width]`` or ``[channel, height, width]``."""
        layers, colours = open_picture(shape)
        sides = self._sides(shape)
        fans = itertools.pairwise((colours, *self.channels))
        for (fan_in, fan_out), kernel, stride in zip(fans, self.kernels, self.strides, strict=True):
            layers += [nn.Conv2d(fan_in, fan_out, kernel, stride, PADDING), nn.ReLU()]
        layers += [nn.Flatten(), nn.Linear(self.channels[-1] * math.prod(sides[-1]), width), nn.ReLU()]
        return nn.Sequential(*layers)

    def decoder(self, shape: tuple[int, ...], embedding: int) -> nn.Module:
        """A linear layer to the feature map and transposed convolutions back to all pixels of a row."""
        _, colours = open_picture(shape)
        sides, channels = self._sides(shape), (colours, *self.channels)
        inner = (channels[-1], *sides[-1])
        layers: list[nn.Module] = [nn.Linear(embedding, math.prod(inner)), nn.ReLU(), nn.Unflatten(-1, inner)]
        for index in reversed(range(len(self.channels))):
            kernel, stride = self.kernels[index], self.strides[index]
            # Add again the rows and columns that the stride rounded off.
            extra = [
                goal - ((side - 1) * stride - 2 * PADDING + kernel)
                for goal, side in zip(sides[index], sides[index + 1], strict=True)
            ]
            layers.append(
                nn.ConvTranspose2d(
                    channels[index + 1], channels[index], kernel, stride, PADDING, output_padding=(extra[0], extra[1])
                )
            )
            layers.append(nn.ReLU() if index else nn.Flatten())
        return nn.Sequential(*layers)

    def _sides(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Height and width before the first convolution and after each."""
        sides = [(shape[-2], shape[-1])]
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            height, width = ((side + 2 * PADDING - kernel) // stride + 1 for side in sides[-1])
            sides.append((height, width))
        if min(sides[-1]) < 1:
            raise ModelError(f"rows of shape {shape} are too small for {self}; use cn.SmallCNN or cn.MLP for them.")
        return sides
