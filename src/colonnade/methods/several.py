"""Several owners, each with labels of its own rows: what Multi-VFL and FedOptimus train alike.

A party keeps a copy of its network for every owner, and trains it with that owner's rows; every ``every`` rounds it
averages its copies, which takes no message. Every owner trains a top net over all embeddings side by side; these are
averaged through the first owner. ``net`` is, at either, what all agreed on at the last average.

Between averages an owner predicts with its own. Optimisers' moments and batch norms' statistics stay each copy's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from colonnade.core.method import Builder, Method, Mine, Owner, Part, Parties, Turn
from colonnade.core.net import Net, take_step
from colonnade.core.optim import SGD, Adam, OptimizerBuilder
from colonnade.core.step import owner_step, party_step
from colonnade.errors import unknown
from colonnade.methods.aggregate import check_server, make_server
from colonnade.methods.steps import Embedding, Gradient, Logits


class Weights(NamedTuple):
    """All weights of a top net, side by side."""

    w: Tensor


class Lesson(NamedTuple):
    """The gradient of an owner's loss by all embeddings side by side, and the loss."""

    slope: Tensor
    loss: Tensor


@dataclass(frozen=True, kw_only=True)
class SeveralOwners(Method):
    """A copy per owner at every party, a top net per owner, both averaged every few rounds."""

    party_sends: ClassVar[str] = "embeddings, to each owner those of its rows"
    owner_sends: ClassVar[str] = "gradients of embeddings; owners send each other top nets"
    labels: ClassVar[str] = "inferable"
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
        if self.optimizer not in ("adam", "sgd"):
            raise unknown("optimizer", self.optimizer, ("adam", "sgd"))
        check_server(self.name, self.server, self.mu, self.eta, self.alpha)

    @property
    def party_optimizer(self) -> OptimizerBuilder:
        """Adam or SGD, for the owners' top nets too; the user may bring another for the parties."""
        return Adam(self.lr, self.decay) if self.optimizer == "adam" else SGD(self.lr, self.momentum, self.decay)

    def taking_part(self, owner: Owner, turn: Turn) -> list[int]:
        """Which parties are asked in this turn."""
        return list(range(owner.parties))

    def look_back(self, owner: Owner, turn: Turn) -> None:
        """What the owners do after a round's steps and before its average."""

    # party: holds x_k, and a copy of its network for every owner

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The agreed network, and a copy of it under the name of every owner."""
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
        """Average the copies, each weighted by its owner's share of the rows; nobody else is asked."""
        average = sum(share * mine.nets[leader].flat() for leader, share in mine.leaders.items())
        self._agree(mine, torch.as_tensor(average), [mine.nets[leader] for leader in mine.leaders])

    # owner: holds the labels of its rows, and a top net

    def owner_parts(self, parties: int, outputs: int) -> dict[str, Part]:
        """The agreed top net, two linear layers, and the owner's own."""
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
        """Go on from the average; every owner keeps the server's memory, so no more than the average travels."""
        self._agree(mine, mine.own(average.w), [mine.top])

    def _agree(self, mine: Mine, average: Tensor, copies: Sequence[Net]) -> None:
        server = make_server(self.server, mu=self.mu, eta=self.eta, alpha=self.alpha)
        agreed, memory = server.step(mine.net.flat(), average, mine.memory)
        mine.memory |= memory
        for net in (mine.net, *copies):
            net.put(agreed)

    # all owners, the first of them in the lead

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """With every owner embeddings up and gradients down; then, every few rounds, both averages."""
        owners, taking = owner.owners, self.taking_part(owner, turn)
        turns, lead = owners.turns(turn), replace(turn, leader=owners.names[0])
        lessons = owners.work(self.learn, lead, each=[self._received(parties, one, taking) for one in turns])
        for one, lesson in zip(turns, lessons, strict=True):
            slopes = lesson.slope.split(self.embedding, dim=-1)
            parties.tell(self.follow, one, each=[Gradient(slopes[k]) for k in taking], to=taking)
        self.look_back(owner, lead)
        if (turn.round + 1) % self.every == 0:
            tops = owners.ask(self.top, lead)
            average = sum(share * reply.w for share, reply in zip(owners.shares, tops, strict=True))
            owners.tell(self.adopt, lead, all=Weights(torch.as_tensor(average)))
            parties.tell(self.settle, turn, to=taking)
        return torch.dot(torch.stack([lesson.loss for lesson in lessons]), owners.shares)

    def _received(self, parties: Parties, turn: Turn, taking: list[int]) -> Embedding:
        """What one owner receives, side by side; those who take no part count as zeros."""
        replies = dict(zip(taking, parties.ask(self.embed, turn, to=taking), strict=True))
        nothing = torch.zeros(len(turn.rows), self.embedding)
        return Embedding(torch.cat([replies[k].h if k in replies else nothing for k in range(len(parties))], dim=-1))

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The logits of the owner who leads the turn."""
        received = self._received(parties, turn, self.taking_part(owner, turn))
        answers = zip(owner.owners.names, owner.owners.work(self.decide, turn, all=received), strict=True)
        return dict(answers)[turn.leader].o  # type: ignore[no-any-return]
