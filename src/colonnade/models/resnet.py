"""Residual networks for small pictures, of any width, so that a single machine can train them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from colonnade.errors import ConfigError
from colonnade.models.convolution import open_picture
from colonnade.models.mlp import LinearDecision

STAGES = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


class _Residual(nn.Module):
    """ReLU(inputs + body(inputs)), with a 1x1 convolution of the inputs where the shape changes."""

    def __init__(self, body: nn.Module, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = fan_in == fan_out and stride == 1
        self.shortcut = nn.Identity() if same else _convolve(fan_in, fan_out, 1, stride)

    def forward(self, inputs: Tensor) -> Tensor:
        return (self.shortcut(inputs) + self.body(inputs)).relu()  # type: ignore[no-any-return]


def _convolve(fan_in: int, fan_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(fan_in, fan_out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(fan_out))


def _basic(fan_in: int, width: int, stride: int) -> tuple[nn.Module, int]:
    body = nn.Sequential(_convolve(fan_in, width, 3, stride), nn.ReLU(), _convolve(width, width, 3))
    return _Residual(body, fan_in, width, stride), width


def _bottleneck(fan_in: int, width: int, stride: int) -> tuple[nn.Module, int]:
    down, across = _convolve(fan_in, width, 1), _convolve(width, width, 3, stride)
    body = nn.Sequential(down, nn.ReLU(), across, nn.ReLU(), _convolve(width, 4 * width, 1))
    return _Residual(body, fan_in, 4 * width, stride), 4 * width


@dataclass(frozen=True)
class ResNet(LinearDecision):
    """He, Zhang, Ren, Sun 2016: ResNet-18 of basic blocks, ResNet-50 and -101 of bottlenecks.

    ``width`` is the width of the first of four stages, each twice as wide as the one before; the original has 64. The
    stem is one 3x3 convolution without pooling, because a party's part of a picture is small.

    >>> net = ResNet(depth=18, width=64)((3, 16, 16), 60)
    >>> sum(parameter.numel() for parameter in net.parameters()) // 10**6
    11
    """

    depth: int = 18
    width: int = 16

    def __post_init__(self) -> None:
        if self.depth not in STAGES:
            raise ConfigError(f"ResNet depth={self.depth!r} is not known; choose from {', '.join(map(str, STAGES))}.")

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        """Build the network for rows of this shape: ``[height, width]`` or ``[channel, height, width]``."""
        layers, colours = open_picture(shape)
        layers += [_convolve(colours, self.width, 3), nn.ReLU()]
        block, fan_in = (_basic if self.depth == 18 else _bottleneck), self.width
        for stage, count in enumerate(STAGES[self.depth]):
            for index in range(count):
                layer, fan_in = block(fan_in, self.width << stage, 2 if stage and not index else 1)
                layers.append(layer)
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(fan_in, width), nn.ReLU()]
        return nn.Sequential(*layers)
