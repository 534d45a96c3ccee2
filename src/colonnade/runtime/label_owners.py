"""Several label owners in one process, stacked like parties where they are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

from torch import Tensor

from colonnade.core.method import Owners, Turn
from colonnade.core.party_side import Each, To
from colonnade.core.state import Packed
from colonnade.core.step import check_step
from colonnade.runtime.local_backend import LocalBackend
from colonnade.runtime.loop import LoopGroup
from colonnade.runtime.parties import AllParties

R = TypeVar("R")


@final
class LabelOwners(Owners):
    """All label owners in this process; the first leads, and what it tells itself never travels."""

    def __init__(
        self, everybody: AllParties, backend: LocalBackend, singles: Sequence[LoopGroup], places: Sequence[Tensor]
    ) -> None:
        self.everybody, self.backend = everybody, backend
        self.names = everybody.names
        self.singles = list(singles)  # also where they are stacked in groups
        self.places = list(places)
        rows = [len(place) for place in places]
        self.shares = everybody.device.bring(places[0].new_tensor(rows).float() / sum(rows))

    @property
    def leaders(self) -> dict[str, float]:
        """The owners by name, each with its share of the rows."""
        return dict(zip(self.names, self.shares.tolist(), strict=True))

    def ask(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None, to: To = None) -> list[R]:
        """Run ``step`` at the owners and give one reply each; all but the first one's travel."""
        return self.everybody.ask(step, turn, all=all, each=each, to=to)

    def sum(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None, to: To = None) -> R:
        """Like :meth:`ask`, but only the sum of the replies is given on."""
        return self.everybody.sum(step, turn, all=all, each=each, to=to)

    def work(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None) -> list[R]:
        """Run a step at every owner on what reached it directly; nothing travels between owners."""
        check_step(step, "owner")
        messages = dict(enumerate([all] * len(self) if each is None else each))
        replies = self.backend.work(step, turn, {} if messages[0] is None else messages, shared=each is None)
        device = self.everybody.device
        return [
            device.bring_message(type(replies[k])(*(tensor.detach() for tensor in replies[k])))
            for k in range(len(self))
        ]

    def teach(self, soft: Tensor) -> None:
        """Let every owner train on its own rows of these soft targets instead of its labels."""
        for single, place in zip(self.singles, self.places, strict=True):
            single.soft = soft[place]

    def states(self) -> list[Packed]:
        """Each owner's own state."""
        return self.everybody.states()

    def load(self, states: Sequence[Packed]) -> None:
        """Take the owners' states back."""
        self.everybody.load(dict(enumerate(states)))
