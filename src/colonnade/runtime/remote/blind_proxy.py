"""A blinded party's end in another process, as the owner's blinding reaches it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from colonnade.seal.blind import Coded
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.subject import Subject

Fields = dict[str, Tensor]


class BlindProxy:
    """A blinded party's end in another process."""

    def __init__(self, call: Callable[..., Fields], party: str) -> None:
        self.call, self.party = call, party
        self.masked: tuple[int, Fields] = 0, {}  # what came with the step itself, by the sum's serial

    def answer(self, phase: str, told: Fields, ticket: Ticket | None = None) -> Fields:
        """What the party says in a phase."""
        if ticket is None:
            return self.call("blind", self.party, told, purpose=phase)
        if phase == "blind" and (ticket.serial, ticket.attempt) == (self.masked[0], 0) and self.masked[1]:
            return self.masked[1]
        if phase == "opened":
            return {}  # the next sum says so: its serial is another
        about = {"round": ticket.round, "serial": ticket.serial, "attempt": ticket.attempt, "step": ticket.tensor}
        return self.call("blind", self.party, told, purpose=phase, **about)

    def hold(self, coded: dict[str, Coded], about: Subject, values: bytes | None) -> None:
        """It has its values itself."""
