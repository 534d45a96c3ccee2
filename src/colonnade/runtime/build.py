"""Builds a party's networks and tries them on its own rows before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from colonnade.core.device import check_on_host
from colonnade.core.method import Method, Part
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.randomness import Randomness
from colonnade.core.table import Table
from colonnade.errors import ColonnadeError, ModelError
from colonnade.models import ModelBuilder, describe
from colonnade.models.network_size import check_size
from colonnade.wire.ledger import OWNER


def build_parts(
    method: Method, build: Build, optimizer: OptimizerBuilder, outputs: int, randomness: Randomness
) -> dict[str, Part]:
    """One party's networks, initialised from its randomness and tried on its own rows."""
    with randomness.drawing("init", build.party):
        return method.party_parts(build, optimizer, outputs)


@dataclass(frozen=True)
class Build:
    """The user's builder for one party: called with an output width it gives a network that was tried."""

    model: ModelBuilder
    table: Table
    party: int = 0
    leaders: Sequence[str] = (OWNER,)
    tried: bool = True
    """Whether a network is tried on the party's rows; one that is only measured has no numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one of the party's rows."""
        return self.table.shape

    @property
    def lacks_rows(self) -> bool:
        """Whether the party does not have some of the rows that are trained on."""
        return self.table.known is not None

    def __call__(self, width: int) -> nn.Module:
        """The network from the party's rows to this width."""
        what = f"the row shape {self.table.shape} and the output width {width}"
        net = self._made(lambda: self.model(self.table.shape, width), "model=", what)
        if self.tried:
            _try_network(net, self.table, self.table.draw(_few_rows(self.table)), width)
            if hasattr(self.model, "pretrain"):
                self.model.pretrain(net, self.table, width)
        return net

    def decision(self, embedding: int, classes: int) -> nn.Module | None:
        """The layers above the embedding that the user's builder brings of its own, or None."""
        make = getattr(self.model, "decision", None)
        if make is None:
            return None
        what = f"the embedding width {embedding} and {classes} classes"
        net = self._made(lambda: make(embedding, classes), "decision of model=", what)
        self._try_on_embeddings(net, embedding, classes)
        return net

    def decoder(self, embedding: int) -> nn.Module | None:
        """The network from an embedding back to all numbers of a row that the user's builder brings, or None."""
        make = getattr(self.model, "decoder", None)
        if make is None:
            return None
        what = f"the row shape {self.shape} and the embedding width {embedding}"
        net = self._made(lambda: make(self.shape, embedding), "decoder of model=", what)
        self._try_on_embeddings(net, embedding, math.prod(self.shape))
        return net

    def _try_on_embeddings(self, net: nn.Module, embedding: int, width: int) -> None:
        if self.tried:
            _try_network(net, self.table, torch.zeros(len(_few_rows(self.table)), embedding), width)

    def _made(self, make: Callable[[], nn.Module], name: str, what: str) -> nn.Module:
        if describe(self.model) is not None:  # a user's own builder is called once, and knows what it does
            check_size(make, self.table.name)
        try:
            return make()
        except ColonnadeError:
            raise
        except Exception as error:
            raise ModelError(f"{name} fails for '{self.table.name}' when called with {what}: {error}") from error


def _few_rows(table: Table) -> Tensor:
    return torch.arange(min(2, table.rows))


def _try_network(net: object, table: Table, inputs: Tensor, width: int) -> None:
    if not isinstance(net, nn.Module):
        raise ModelError(f"model= gave a {type(net).__name__} for '{table.name}'; it must build a torch.nn.Module.")
    check_on_host(net, table.name)
    net.eval()
    try:
        with torch.no_grad():
            output = net(inputs)
    except ColonnadeError:
        raise
    except Exception as error:
        shape = tuple(inputs.shape[1:])
        raise ModelError(f"the network of '{table.name}' fails on its rows of shape {shape}: {error}") from error
    if not isinstance(output, Tensor):
        raise ModelError(f"the network of '{table.name}' gives a {type(output).__name__}; it must give one tensor.")
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise ModelError(f"the network of '{table.name}' has nothing to train; give it a layer with parameters.")
    if tuple(output.shape) != (len(inputs), width):
        shape = tuple(output.shape[1:])
        raise ModelError(
            f"the network of '{table.name}' gives outputs of width {shape[0] if len(shape) == 1 else shape}, "
            f"but {width} is expected; build the last layer with the width that model= is given."
        )
