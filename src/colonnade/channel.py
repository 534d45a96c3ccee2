"""The one place where a message gets its wire form and its line in the ledger.

Every runtime carries every message through here, so a simulated byte count *is* the deployed one.
"""

from __future__ import annotations

import typing
from typing import Any, TypeVar

from colonnade.errors import TrainingError
from colonnade.ledger import OWNER, Ledger
from colonnade.message import Envelope, check, decode, encode, first_non_finite, size

M = TypeVar("M")


class Channel:
    """Carries messages between the owner and the parties and writes the ledger.

    ``wire=True`` really encodes and decodes every message; ``wire=False`` hands the tensors over and
    only computes what the bytes would be. Both write the same ledger.
    """

    def __init__(self, ledger: Ledger | None = None, *, wire: bool = False) -> None:
        self.ledger = ledger if ledger is not None else Ledger()
        self.wire = wire

    def to_party(self, message: M, *, party: str, step: str, round: int, purpose: str) -> M:
        """Carry one message from the owner to a party."""
        return typing.cast(M, self._carry(message, OWNER, party, step, round, purpose))

    def to_owner(self, message: M, *, party: str, step: str, round: int, purpose: str) -> M:
        """Carry one message from a party to the owner."""
        return typing.cast(M, self._carry(message, party, OWNER, step, round, purpose))

    def _carry(self, message: Any, sender: str, receiver: str, step: str, round: int, purpose: str) -> Any:
        check(message)
        field = first_non_finite(message)
        if field is not None:
            raise TrainingError(
                f"{sender} sent values that are not finite in '{field}' of step '{step}' in round {round}; "
                "lower the learning rate or check that party's columns (the last good checkpoint is kept)."
            )
        message = type(message)(*(tensor.detach() for tensor in message))
        envelope = Envelope(step, sender, round)
        self.ledger.record(purpose, step, sender, receiver, size(message, envelope))
        if self.wire:
            message, _ = decode(encode(message, envelope), type(message))
        return message
