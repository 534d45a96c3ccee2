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
from colonnade.wire.message import fields_of
from colonnade.wire.owner_half import OwnerHalf, SealedReply
from colonnade.wire.party_half import PartyHalf


class Helper:
    """Opens the blinded sums of groups of parties.

    ``among`` returns the parties with the members of one group blinded together. Every group has keys of its own, so
    its sum opens only with the messages of all its members.
    """

    def __init__(self, among: Callable[[tuple[int, ...]], Parties], half: OwnerHalf) -> None:
        self.among, self.half, self.name = among, half, half.opener
        self._own = PartyHalf(self.name, half.ends)

    def order(self, step: Callable[..., Distances], members: tuple[int, ...], turn: Turn, queries: int) -> Ranks:
        """The order of all rows for each query by the group's distances, as it arrives at the owner."""
        parties = self.among(members)
        total = parties.sum(step, turn, to=members).squared
        return self._tell(checked_distances(total, (queries, len(turn.rows)), _who(parties, members)), turn)

    def order_some(self, step: Callable[..., Distances], members: tuple[int, ...], turn: Turn, cells: Cells) -> Ranks:
        """As :meth:`order`, but only by the cells that the owner wants; all others come last."""
        parties = self.among(members)
        wire = self.half.seal(cells, [self.name], "want", turn)
        wanted = unpacked(self._own.hear(wire, Cells, fields_of(cells), "want", turn), len(turn.rows))
        distances = parties.sum(step, turn, to=members).squared
        total = torch.full(wanted.shape, torch.inf)
        total[wanted] = checked_distances(distances, (int(wanted.sum()),), _who(parties, members))
        return self._tell(total, turn)

    def _tell(self, total: Tensor, turn: Turn) -> Ranks:
        message = Ranks(ranks(total))
        answer = SealedReply(self._own.say(message, "order", turn), Ranks, fields_of(message))
        return self.half.open(answer, self.name, "order", turn)  # type: ignore[no-any-return]


def _who(parties: Parties, members: tuple[int, ...]) -> str:
    return " with ".join(parties.names[k] for k in members)
