"""Messages and party steps that several methods share: send an output, follow its gradient."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from colonnade.core.method import Builder, Mine, Turn, party_step
from colonnade.core.task import Task
from colonnade.errors import ConfigError


class Embedding(NamedTuple):
    """h_k [rows, E]: a party's embeddings of the turn's rows."""

    h: Tensor


class Logits(NamedTuple):
    """o_k [rows, C]: a party's outputs of the turn's rows."""

    o: Tensor


class Gradient(NamedTuple):
    """The gradient of the owner's loss by the output that the party sent."""

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
    """One optimiser step along the gradient of the output that was just sent."""
    mine.net.descend(mine.scratch.pop("output"), gradient.slope)


def with_head(net: nn.Module, embedding: int, outputs: int) -> nn.Module:
    """A party's whole model: its network and a linear head without bias."""
    return nn.Sequential(net, nn.Linear(embedding, outputs, bias=False))


def task_net(embedding: int, hidden: int, dropout: float, outputs: int) -> nn.Module:
    """The owner's net above its own embedding: a linear layer without bias, and a hidden layer before it if wanted."""
    layers: list[nn.Module] = [nn.Linear(embedding, hidden), nn.ReLU()] if hidden else []
    layers += [nn.Dropout(dropout)] if dropout else []
    head = nn.Linear(hidden or embedding, outputs, bias=False)
    return nn.Sequential(*layers, head) if layers else head


def check_task_net(name: str, hidden: int, dropout: float) -> None:
    """Refuse a hidden width or a dropout that is out of range."""
    if hidden < 0 or not 0 <= dropout < 1:
        raise ConfigError(
            f"{name}: hidden={hidden}, dropout={dropout} are out of range; hidden is at least 0, "
            "dropout from 0 to less than 1."
        )


def decision_net(build: Builder, embedding: int, hidden: int, outputs: int) -> nn.Module:
    """The net from an embedding to logits: the builder's own ``decision`` net if it has one, else two linear layers."""
    own: nn.Module | None = getattr(build, "decision", lambda *_: None)(embedding, outputs)
    if own is not None:
        return own
    return nn.Sequential(nn.Linear(embedding, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def labels_told(task: Task, o: Tensor, slope: Tensor, rows: int) -> Tensor:
    """The labels, which follow from the gradient of the mean loss for a side that knows the outputs."""
    return task.probabilities(o.detach()) - rows * slope


def why_not_weighted(steps: int, weighted: bool) -> str:
    """Why several local steps do not work with weighted rows: a weighted gradient does not show the labels."""
    if steps > 1 and weighted:
        return "a weighted gradient does not tell the labels for local_steps beyond 1; set local_steps=1"
    return ""


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
    """The gradient of a loss by the output that the owner received."""
    return Gradient(torch.autograd.grad(loss, output)[0])
