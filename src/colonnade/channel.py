"""The one place where a message gets its seals, its wire form and its line in the ledger.

Every runtime carries every message through here, so a simulated byte count *is* the deployed one.
"""

from __future__ import annotations

import hashlib
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor

from colonnade.errors import TrainingError
from colonnade.ledger import OWNER, Ledger
from colonnade.message import Envelope, check, decode_fields, encode, fields_of, first_non_finite, size
from colonnade.schedule import Turn
from colonnade.seal import Seals
from colonnade.seal.blinding import Blinding
from colonnade.seal.end import End, Tables, expand
from colonnade.table import Table

M = TypeVar("M")
Fields = dict[str, Tensor]


class Channel:
    """Carries messages between the owner and the parties, sealed, and writes the ledger.

    ``wire=True`` really encodes and decodes every message; ``wire=False`` hands the tensors over and
    only computes what the bytes would be. Both write the same ledger.
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        *,
        wire: bool = False,
        seals: Seals | None = None,
        parties: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.ledger = ledger if ledger is not None else Ledger()
        self.wire = wire
        self.seals = seals or Seals()
        self.seed = seed
        self.tables: Tables = {}
        self.ends: dict[str, End] = {}
        self.blinding = None if self.seals.blind is None else Blinding(self.seals.blind, parties, OWNER)

    def to_party(self, message: M, *, party: str, step: str, turn: Turn) -> M:
        """Carry one message from the owner to a party."""
        return self.broadcast(message, parties=[party], step=step, turn=turn)

    def broadcast(self, message: M, *, parties: Sequence[str], step: str, turn: Turn) -> M:
        """Carry the same message from the owner to several parties; it is sealed once."""
        codec = self.seals.down
        wire = self.end(OWNER).compress(codec, self._checked(message, OWNER, step, turn), step, turn)
        arrived = [self._carry(wire, OWNER, party, step, turn) for party in parties]
        return self._message(message, expand(codec, arrived[0], type(message)._fields))  # type: ignore[attr-defined]

    def to_owner(self, message: M, *, party: str, step: str, turn: Turn) -> M:
        """Carry one message from a party to the owner."""
        fields = self.end(party).release(self._checked(message, party, step, turn), step, turn)
        wire = self.end(party).compress(self.seals.up, fields, step, turn)
        arrived = self._carry(wire, party, OWNER, step, turn)
        return self._message(message, expand(self.seals.up, arrived, type(message)._fields))  # type: ignore[attr-defined]

    def sum(self, messages: Mapping[str, M], *, step: str, turn: Turn) -> M:
        """Carry the parties' messages to the owner, who learns their sum; under Blind, nothing else."""
        if self.blinding is not None:
            return self._blinded_sum(self.blinding, messages, step, turn)
        arrived = [self.to_owner(message, party=party, step=step, turn=turn) for party, message in messages.items()]
        return add(arrived)

    def know(self, name: str, table: Table) -> None:
        """Note whose rows a table's name stands for from now on: budgets count people, not names."""
        people = hashlib.sha256("\n".join(map(str, table.ids)).encode()).hexdigest()[:16]
        self.tables[name] = people, table.rows

    def end(self, name: str) -> End:
        """One side's end, made at its first use."""
        if name not in self.ends:
            self.ends[name] = End(name, self.seals, self.seed, self.tables)
        return self.ends[name]

    def _blinded_sum(self, blinding: Blinding, messages: Mapping[str, M], step: str, turn: Turn) -> M:
        kept = {
            party: self.end(party).release(self._checked(message, party, step, turn), step, turn)
            for party, message in messages.items()
        }
        codes = self.end(OWNER).sum_codes(next(iter(kept.values())), len(kept), step, turn)
        coded = {party: self.end(party).encode(codes, fields, step, turn) for party, fields in kept.items()}

        def carry(fields: Fields, sender: str, receiver: str, name: str, purpose: str) -> Fields:
            return self._carry(fields, sender, receiver, name, turn, purpose)

        totals, count = blinding.sum(coded, codes, turn, step, carry)
        opened = {name: code.decode(totals[name], count) for name, code in codes.items()}
        for name, bound in self.end(OWNER).new_bounds(codes, opened, count, step).items():
            for party in messages:
                self._carry({f"{name}.bound": bound}, OWNER, party, step, turn)
        fields = {name: opened[name] for name in next(iter(kept.values()))}
        return self._message(next(iter(messages.values())), fields)

    def _checked(self, message: Any, sender: str, step: str, turn: Turn) -> Fields:
        check(message)
        field = first_non_finite(message)
        if field is not None:
            raise TrainingError(
                f"{sender} sent values that are not finite in '{field}' of step '{step}' in round {turn.round}; "
                "lower the learning rate or check that party's columns (the last good checkpoint is kept)."
            )
        return {name: tensor.detach() for name, tensor in fields_of(message).items()}

    def _carry(self, fields: Fields, sender: str, receiver: str, step: str, turn: Turn, purpose: str = "") -> Fields:
        envelope = Envelope(step, sender, turn.round)
        self.ledger.record(purpose or turn.purpose, step, sender, receiver, size(fields, envelope))
        if self.wire:
            fields, _ = decode_fields(encode(fields, envelope))
        return fields

    @staticmethod
    def _message(like: M, fields: Fields) -> M:
        return type(like)(**fields)


def add(messages: Sequence[M]) -> M:
    """The sum of messages field by field, in their order, so that every runtime rounds alike."""
    totals = [fields[0].clone() for fields in zip(*typing.cast(Any, messages), strict=True)]
    for message in messages[1:]:
        for total, value in zip(totals, typing.cast(Any, message), strict=True):
            total += value
    return type(messages[0])(*totals)
