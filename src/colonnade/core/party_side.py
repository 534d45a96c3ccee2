"""The parties' sides: one party as its own steps see it, and all of them as a method asks them at the owner."""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from colonnade.core.device import HOST, Device
from colonnade.core.net import Net
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.schedule import Turn
from colonnade.core.task import Task

R = TypeVar("R")
Each = Sequence[Any] | None
"""One message per party, or None."""
To = Iterable[int] | None
"""The numbers of the parties to ask, or None for all."""


class Mine(ABC):
    """The party's own side as a party step sees it: networks by name (``mine.net``), rows, and memory."""

    members: list[int]
    """The party's number, or the numbers of the parties of a group that are computed together, in order."""
    task: Task
    """The task as all sides know it; at one of several owners it also has the weights."""

    def __init__(self, device: Device = HOST) -> None:
        self.device = device  # of the networks, and of all tensors of a step
        self.nets: dict[str, Net] = {}
        self.leaders: Mapping[str, float] = {}  # the owners this party replies to, and each one's share of the rows
        self.memory: dict[str, Tensor] = {}  # kept from round to round, saved in checkpoints
        self.scratch: dict[str, Tensor] = {}  # kept from step to step within a round

    def __getattr__(self, name: str) -> Net:
        nets = self.__dict__.get("nets", {})
        if name in nets:
            return typing.cast(Net, nets[name])
        raise AttributeError(f"this party has no network '{name}', only {sorted(nets)}")

    @abstractmethod
    def inputs(self, turn: Turn) -> Tensor:
        """This party's rows of the turn, scaled, float32."""

    @abstractmethod
    def labels(self, turn: Turn) -> Tensor:
        """At one of several owners: the labels of its own rows of the turn, as training sees them."""

    def known(self, turn: Turn) -> Tensor:
        """Which of the turn's rows this party really has, bool [rows]; the inputs of the others mean nothing."""
        return torch.ones(len(turn.rows), dtype=torch.bool, device=self.device.at)

    def unaligned(self) -> Tensor | None:
        """This party's rows that no other party has, scaled, float32; for learning alone."""
        return None

    def own(self, message: Tensor) -> Tensor:
        """A tensor that was sent to all parties, with this side's party axis in front, if it has one."""
        return message

    def product(self, rows: Tensor, matrix: Tensor) -> Tensor:
        """``rows @ matrix``, in the order of its sums that is quickest here."""
        return rows @ matrix


class Builder(Protocol):
    """The user's network builder for one party, as :meth:`Method.party_parts` gets it; its networks are tried once."""

    @property
    def party(self) -> int:
        """The number of the party that it builds for."""

    @property
    def leaders(self) -> Sequence[str]:
        """The owners that the party replies to: the owner, or several."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one of the party's rows."""

    @property
    def lacks_rows(self) -> bool:
        """Whether the party does not have some of the rows that are trained on."""

    def __call__(self, width: int) -> nn.Module:
        """The network from the party's rows to this width."""

    def decoder(self, embedding: int) -> nn.Module | None:
        """The builder's network from an embedding back to all numbers of a row, or None if it has none."""


class Part(NamedTuple):
    """A network that a method puts at every party, with the builder of its optimiser."""

    net: nn.Module
    optimizer: OptimizerBuilder
    reads: int | None = None
    """The width of the network's input vectors, so that it can be tried; None if it reads the party's rows."""


class Parties(ABC):
    """All parties, as a method sees them at the owner. Runtimes implement it; methods use it."""

    names: list[str]
    home: AbstractSet[int] = frozenset()
    """The numbers of the parties that are the owner's own part: what it asks of them never travels."""

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def ask(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None, to: To = None) -> list[R]:
        """Run ``step`` at the parties and return one reply per party.

        ``all`` is one message to all parties, ``each`` has one per party, ``to`` selects the parties to ask.
        """

    @abstractmethod
    def sum(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None, to: To = None) -> R:
        """Like :meth:`ask`, but the owner learns only the sum of the replies."""

    def tell(self, step: Callable[..., None], turn: Turn, *, all: Any = None, each: Each = None, to: To = None) -> None:
        """Run ``step`` at the parties, without a reply."""
        self.ask(step, turn, all=all, each=each, to=to)


class Owners(Parties):
    """Several owners, each with labels of its own rows, behind the interface of parties; the first one leads.

    ``ask``, ``sum`` and ``tell`` carry messages between the leading owner and the other owners. The turn of a whole
    round belongs to no single owner, so in it parties may only be told to work by themselves.
    """

    places: list[Tensor]
    """Each owner's rows, as the parties number rows."""
    shares: Tensor
    """Each owner's share of all rows."""

    @abstractmethod
    def work(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None) -> list[R]:
        """Run a step at every owner on values it already has; nothing travels between owners."""

    def turns(self, turn: Turn) -> list[Turn]:
        """One turn per owner, led by that owner, with its own rows of this turn as the parties number rows."""
        each = zip(self.names, self.places, turn.rows, strict=True)
        return [replace(turn, rows=place[own], leader=name) for name, place, own in each]
