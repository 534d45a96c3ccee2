"""The helper: a side without labels or columns that opens sums of distances and reveals only their order.

It does not know the key that the rows' order follows from, so it cannot identify the rows of the distances. Every sum
has another order of rows and other units, so that two sums cannot simply be subtracted. If somebody matched the rows of
two sums, they could be; with enough groups that would give every party's distances.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from colonnade.core.method import Parties, Turn
from colonnade.selection.distances import Cells, Distances, Ranks, checked_distances, unpacked
from colonnade.selection.information import ranks
from colonnade.wire.channel import Channel


class Helper:
    """Opens the blinded sums of groups of parties; ``channel`` is the one whose sums it opens."""

    def __init__(self, parties: Parties, channel: Channel) -> None:
        self.parties, self.channel, self.name = parties, channel, channel.opener

    def order(self, step: Callable[..., Distances], members: tuple[int, ...], turn: Turn, queries: int) -> Ranks:
        """The order of all rows for each query by the group's distances, as it arrives at the owner."""
        self._gather(members)
        total = self.parties.sum(step, turn, to=members).squared
        return self._tell(checked_distances(total, (queries, len(turn.rows)), self._who(members)), turn)

    def order_some(self, step: Callable[..., Distances], members: tuple[int, ...], turn: Turn, cells: Cells) -> Ranks:
        """As :meth:`order`, but only by the cells that the owner wants; all others come last."""
        self._gather(members)
        received = self.channel.to_party(cells, party=self.name, step="want", turn=turn)
        wanted = unpacked(received, len(turn.rows))
        summed = self.parties.sum(step, turn, to=members).squared
        total = torch.full(wanted.shape, torch.inf)
        total[wanted] = checked_distances(summed, (int(wanted.sum()),), self._who(members))
        return self._tell(total, turn)

    def _gather(self, members: tuple[int, ...]) -> None:
        """Use keys for just this group, so that its sum opens only with the messages of all its members."""
        self.channel.blind_among([self.parties.names[k] for k in members])

    def _tell(self, total: Tensor, turn: Turn) -> Ranks:
        return self.channel.to_owner(Ranks(ranks(total)), party=self.name, step="order", turn=turn)

    def _who(self, members: tuple[int, ...]) -> str:
        return " with ".join(self.parties.names[k] for k in members)
