"""Messages and party steps that several methods share: send an output, follow its gradient."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from colonnade.errors import ConfigError
from colonnade.method import Mine, Turn, party_step


class Embedding(NamedTuple):
    """h_k [rows, E]: a party's embeddings of the turn's rows."""

    h: Tensor


class Logits(NamedTuple):
    """o_k [rows, C]: a party's logits of the turn's rows."""

    o: Tensor


class Gradient(NamedTuple):
    """The gradient of the owner's loss by what the party sent."""

    slope: Tensor


@party_step
def embed(mine: Mine, turn: Turn) -> Embedding:
    """Send h_k = f_k(x_k), and keep it for the gradient that comes back."""
    mine.scratch["output"] = h = mine.net(mine.inputs(turn))
    return Embedding(h)


@party_step
def logits(mine: Mine, turn: Turn) -> Logits:
    """Send o_k, and keep it for the gradient that comes back."""
    mine.scratch["output"] = o = mine.net(mine.inputs(turn))
    return Logits(o)


@party_step
def follow(mine: Mine, turn: Turn, gradient: Gradient) -> None:
    """One optimiser step along the gradient of what was just sent."""
    mine.net.descend(mine.scratch.pop("output"), gradient.slope)


def with_head(net: nn.Module, embedding: int, classes: int) -> nn.Module:
    """A party's whole model: its network and a linear head without bias."""
    return nn.Sequential(net, nn.Linear(embedding, classes, bias=False))


def task_net(embedding: int, hidden: int, dropout: float, classes: int) -> nn.Module:
    """What the owner puts above its own embedding: a linear layer without bias, or a hidden layer before it too."""
    layers: list[nn.Module] = [nn.Linear(embedding, hidden), nn.ReLU()] if hidden else []
    layers += [nn.Dropout(dropout)] if dropout else []
    head = nn.Linear(hidden or embedding, classes, bias=False)
    return nn.Sequential(*layers, head) if layers else head


def check_task_net(name: str, hidden: int, dropout: float) -> None:
    """Refuse what no such network can have."""
    if hidden < 0 or not 0 <= dropout < 1:
        raise ConfigError(
            f"{name}: hidden={hidden}, dropout={dropout} are out of range; hidden is at least 0, "
            "dropout from 0 to less than 1."
        )


def decision_net(build: Callable[[int], nn.Module], embedding: int, hidden: int, classes: int) -> nn.Module:
    """What makes logits of an embedding: the builder's own ``decision`` net if it has one, else two linear layers."""
    own: nn.Module | None = getattr(build, "decision", lambda *_: None)(embedding, classes)
    if own is not None:
        return own
    return nn.Sequential(nn.Linear(embedding, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def labels_told(o: Tensor, slope: Tensor, rows: int) -> Tensor:
    """The labels that a gradient of the mean cross-entropy tells whoever knows the logits."""
    return torch.softmax(o.detach(), dim=-1) - rows * slope


def soft_cross_entropy(o: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the rows, with a distribution over classes as each row's label."""
    return -(labels * torch.log_softmax(o, dim=-1)).sum(-1).mean(-1)


def leaves(replies: Sequence[Embedding]) -> list[Tensor]:
    """The embeddings as tensors whose gradient the owner can take."""
    return [reply.h.requires_grad_() for reply in replies]


def learn(loss: Tensor, received: Sequence[Tensor], *optimizers: torch.optim.Optimizer) -> list[Gradient]:
    """One step of the owner's optimisers; the gradient of each party's embeddings, with the weights before it."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return [Gradient(typing.cast(Tensor, tensor.grad)) for tensor in received]


def slope(loss: Tensor, output: Tensor) -> Gradient:
    """The gradient of a loss by what the owner received."""
    return Gradient(torch.autograd.grad(loss, output)[0])
