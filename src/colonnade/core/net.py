"""A network with its optimiser, at one party or stacked for several, and its optimiser steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor


class Net(ABC):
    """One network at a party with its optimiser, or the stacked networks of several parties."""

    party_axes = 0
    """How many axes are in front of a network's own: one if parties are stacked."""

    def __init__(self, parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.parameters = list(parameters)
        self.optimizer = optimizer

    @abstractmethod
    def __call__(self, inputs: Tensor) -> Tensor:
        """The network's output."""

    def descend(self, output: Tensor, gradient: Tensor | None = None) -> None:
        """Take one optimiser step of this network alone, see :func:`descend`."""
        descend(output, self, gradient=gradient)

    def flat(self) -> Tensor:
        """A copy of all parameters side by side on the last axis."""
        return torch.cat([parameter.detach().flatten(self.party_axes) for parameter in self.parameters], dim=-1)

    def put(self, flat: Tensor) -> None:
        """Replace all parameters by the result of :meth:`flat` of this network or one with the same shapes."""
        sizes = [parameter.shape[self.party_axes :].numel() for parameter in self.parameters]
        with torch.no_grad():
            for parameter, values in zip(self.parameters, flat.split(sizes, dim=-1), strict=True):
                parameter.copy_(values.reshape(*values.shape[:-1], *parameter.shape[self.party_axes :]))


def descend(output: Tensor, *nets: Net, gradient: Tensor | None = None) -> None:
    """Take one optimiser step of each network, on a loss, or on an output whose gradient was received."""
    if gradient is None:
        output = output.sum()  # over the party axis, if there is one: parties share no parameter
    elif gradient.shape != output.shape:
        gradient = gradient.expand_as(output)  # one gradient for all parties of a group
    parameters = [parameter for net in nets for parameter in net.parameters]
    take_step(torch.autograd.grad(output, parameters, gradient, allow_unused=True), *nets)


def take_step(slopes: Sequence[Tensor | None], *nets: Net) -> None:
    """Take one optimiser step of each network; ``slopes`` are the gradients of all parameters, in order."""
    parameters = [parameter for net in nets for parameter in net.parameters]
    for parameter, slope in zip(parameters, slopes, strict=True):
        # Fused optimisers walk raw memory and ignore strides.
        parameter.grad = None if slope is None else slope.contiguous()
    for net in nets:
        net.optimizer.step()
