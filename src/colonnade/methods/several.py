"""Several owners, each with labels of its own rows: the networks and steps of Multi-VFL and FedOptimus.

A party keeps a copy of its network for every owner, and trains it with that owner's rows; every ``every`` rounds it
averages its copies, which takes no message. Every owner trains a top net over all embeddings side by side; the top nets
are averaged through the first owner. At a party and at an owner, ``net`` has the weights of the last average.

Between averages an owner predicts with its own top net. Optimisers' moments and batch norms' statistics are not
averaged: every copy keeps its own. The rounds are in ``methods/multivfl.py`` and ``methods/fedoptimus.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from colonnade.core.method import Builder, Disclosure, Method, Mine, Owner, Part, Turn
from colonnade.core.net import Net, take_step
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.step import owner_step, party_step
from colonnade.methods.aggregate import check_server, make_server
from colonnade.methods.declarations import of_split_networks
from colonnade.methods.steps import Embedding, Gradient, Logits

OF_TOP_NETS = "an owner's labels shaped the weights, all rows together"


class Weights(NamedTuple):
    """All weights of a top net, side by side."""

    w: Tensor


class Lesson(NamedTuple):
    """An owner's loss, and its gradient by all embeddings side by side."""

    slope: Tensor
    loss: Tensor


@dataclass(frozen=True, kw_only=True)
class SeveralOwners(Method):
    """A copy per owner at every party, a top net per owner, both averaged every few rounds."""

    party_sends: ClassVar[str] = "embeddings, to each owner those of its rows"
    owner_sends: ClassVar[str] = "gradients of embeddings; owners send each other top nets"
    disclosures = (
        *of_split_networks("embed", "follow"),
        *(Disclosure(*way, "labels", "hints", note=OF_TOP_NETS) for way in (("top", "up"), ("adopt", "down"))),
    )
    several_owners: ClassVar[bool] = True
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden", "every")

    lr: float = 0.001
    optimizer: str = "adam"
    hidden: int = 60
    every: int = 5
    server: str = "fedavg"
    mu: float = 0.9
    eta: float | None = None
    alpha: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        check_server(self.name, self.server, self.mu, self.eta, self.alpha)

    @property
    def rare_rounds(self) -> tuple[int, ...]:
        """The first round that averages the models."""
        return (self.every - 1,)

    def averages_in(self, turn: Turn) -> bool:
        """Whether the models are averaged at the end of this round."""
        return (turn.round + 1) % self.every == 0

    # party: holds x_k, and a copy of its network for every owner

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The network of the last average, and a copy of it under the name of every owner."""
        net = build(self.embedding)
        return {name: Part(deepcopy(net), optimizer) for name in ("net", *build.leaders)}

    @party_step
    def embed(self, mine: Mine, turn: Turn) -> Embedding:
        """Send an owner the embeddings of its rows, and keep them for the gradient that comes back."""
        mine.scratch["output"] = h = mine.nets[turn.leader](mine.inputs(turn))
        return Embedding(h)

    @party_step
    def follow(self, mine: Mine, turn: Turn, gradient: Gradient) -> None:
        """One optimiser step of the copy that this owner trains."""
        mine.nets[turn.leader].descend(mine.scratch.pop("output"), gradient.slope)

    @party_step
    def settle(self, mine: Mine, turn: Turn) -> None:
        """Average the party's copies, each weighted by its owner's share of the rows; no message is needed."""
        average = sum(share * mine.nets[leader].flat() for leader, share in mine.leaders.items())
        self._go_on_from(mine, torch.as_tensor(average), [mine.nets[leader] for leader in mine.leaders])

    # owner: holds the labels of its rows, and a top net

    def owner_parts(self, parties: int, outputs: int) -> dict[str, Part]:
        """The top net of the last average, two linear layers, and a copy that the owner trains."""
        width = parties * self.embedding
        top = nn.Sequential(nn.Linear(width, self.hidden), nn.ReLU(), nn.Linear(self.hidden, outputs))
        return {name: Part(deepcopy(top), self.party_optimizer, reads=width) for name in ("net", "top")}

    @owner_step
    def learn(self, mine: Mine, turn: Turn, received: Embedding) -> Lesson:
        """One step of this owner's top net on its own labels."""
        mine.scratch["h"] = h = received.h.detach().requires_grad_()
        loss = mine.task.party_loss(mine.top(h), mine.task.targets(mine.labels(turn)))
        slope, *slopes = torch.autograd.grad(loss.sum(), [h, *mine.top.parameters])
        take_step(slopes, mine.top)
        return Lesson(slope, loss)

    @owner_step
    def decide(self, mine: Mine, turn: Turn, received: Embedding) -> Logits:
        """This owner's prediction."""
        return Logits(mine.top(mine.own(received.h)))

    @owner_step
    def top(self, mine: Mine, turn: Turn) -> Weights:
        """Send the top net to the first owner."""
        return Weights(mine.top.flat())

    @owner_step
    def adopt(self, mine: Mine, turn: Turn, average: Weights) -> None:
        """Go on from the average; every owner keeps the server's memory, so only the average travels."""
        self._go_on_from(mine, mine.own(average.w), [mine.top])

    def _go_on_from(self, mine: Mine, average: Tensor, copies: Sequence[Net]) -> None:
        """Put the server's next weights into ``mine.net`` and into the copies."""
        server = make_server(self.server, mu=self.mu, eta=self.eta, alpha=self.alpha)
        weights, memory = server.step(mine.net.flat(), average, mine.memory)
        mine.memory |= memory
        for net in (mine.net, *copies):
            net.put(weights)

    def leader_logits(self, owner: Owner, turn: Turn, received: Embedding) -> Tensor:
        """The logits by the top net of the owner who leads the turn."""
        logits = owner.owners.work(self.decide, turn, all=received)
        return logits[owner.owners.names.index(turn.leader)].o  # type: ignore[no-any-return]


def concatenated(embeddings: Sequence[Tensor]) -> Embedding:
    """All parties' embeddings of the same rows as one tensor [rows, parties x E]."""
    return Embedding(torch.cat(list(embeddings), dim=-1))


def gradients_of(lesson: Lesson, embedding: int) -> list[Gradient]:
    """Every party's part of the gradient by all embeddings side by side."""
    return [Gradient(slope) for slope in lesson.slope.split(embedding, dim=-1)]


def average_of(tops: Sequence[Weights], shares: Tensor) -> Weights:
    """The sum of n_l/n w_l over the owners l."""
    return Weights(torch.as_tensor(sum(share * top.w for share, top in zip(shares, tops, strict=True))))


def mean_loss(lessons: Sequence[Lesson], shares: Tensor) -> Tensor:
    """The sum of n_l/n L_l over the owners l."""
    return torch.dot(torch.stack([lesson.loss for lesson in lessons]), shares)
