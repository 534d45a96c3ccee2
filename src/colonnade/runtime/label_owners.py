"""Several label owners in one process, stacked like parties where they are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from colonnade.core.method import Owners, Turn
from colonnade.core.step import check_step
from colonnade.core.table import Table
from colonnade.runtime.group import Group
from colonnade.runtime.loop import LoopGroup
from colonnade.runtime.parties import InProcess
from colonnade.wire.channel import Channel

R = TypeVar("R")


class LabelOwners(InProcess, Owners):
    """All label owners in this process; the first leads, and what it tells itself never travels."""

    def __init__(
        self,
        tables: Sequence[Table],
        names: Sequence[str],
        singles: Sequence[LoopGroup],
        sites: Sequence[Group],
        channel: Channel,
        places: Sequence[Tensor],
    ) -> None:
        super().__init__(tables, sites, channel, owner_is_first=True)
        self.names = list(names)
        self.singles = list(singles)  # also where they are stacked in sites
        self.places = list(places)
        rows = [len(place) for place in places]
        self.shares = places[0].new_tensor(rows).float() / sum(rows)

    @property
    def leaders(self) -> dict[str, float]:
        """The owners by name, each with its share of the rows."""
        return dict(zip(self.names, self.shares.tolist(), strict=True))

    def work(
        self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Sequence[Any] | None = None
    ) -> list[R]:
        """Run a step at every owner on what reached it directly; nothing travels between owners."""
        everybody = self._chosen(step, None)
        received = dict(zip(everybody, [all] * len(self) if each is None else each, strict=True))
        replies = self._compute(step, turn, everybody, {} if received[0] is None else received, each is None)
        return [self._at_home(replies[k]) for k in everybody]

    def _check(self, step: Callable[..., Any], chosen: list[int]) -> None:
        """Owners run what is theirs alone."""
        check_step(step, "owner")

    def teach(self, soft: Tensor) -> None:
        """Let every owner train on its own rows of these soft targets instead of its labels."""
        for single, place in zip(self.singles, self.places, strict=True):
            single.soft = soft[place]
