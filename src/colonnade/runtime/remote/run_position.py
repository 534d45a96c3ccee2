"""At which round a run stands at a party, so that no owner starts it over on networks that are trained already.

An owner that lost its checkpoints, but not the name of its run, would begin at round 0, and the party would go on from
its newest state. Whoever goes back says so, by the number of a kept state; whoever starts over is another run.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from colonnade.errors import CheckpointError

_KEY = "run/round"


class RunPosition:
    """The first round that may be trained after the state that a session began with, and the one due now.

    >>> position = RunPosition("shop")
    >>> position.begin(0)
    >>> position.load(position.state())
    >>> position.begin(1)
    >>> position.begin(0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    colonnade.errors.CheckpointError: the owner asks for round 0 of a run that stands at round 1 at 'shop'; ...
    """

    def __init__(self, party: str) -> None:
        self.party, self.first, self.due = party, 0, 0

    def begin(self, number: int) -> None:
        """Note a round of training; refuse one that was over before this session, of which the owner knows nothing."""
        if number < self.first:
            raise CheckpointError(
                f"the owner asks for round {number} of a run that stands at round {self.first} at '{self.party}'; "
                "bring the owner's checkpoints back, or begin another run in a new folder of the owner, which counts "
                "as one of runs in [allow]."
            )
        self.due = number + 1

    def state(self) -> dict[str, Tensor]:
        """The position as a part of a state that is kept between two rounds."""
        return {_KEY: torch.tensor([self.due])}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take that back; a state of an older version does not know its round."""
        self.first = self.due = int(state[_KEY]) if _KEY in state else 0
