"""The blinded parties' ends and the owner's, joined by whoever carries their messages.

Every party's keys live in its own :class:`Membership`; what passes between them goes through ``carry`` and
so has its frames in the ledger, the key agreement (step ``hello`` and ``confirm``) included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from colonnade.errors import AwayError, MessageError, SealError
from colonnade.schedule import Turn
from colonnade.seal.blind import Blind, Coded, SumCode
from colonnade.seal.codec import as_wire, from_wire
from colonnade.seal.keys import Hello, Identity, Membership, Ticket
from colonnade.seal.pack import Codes
from colonnade.seal.recovering import RecoverableSum
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import Masker, total
from colonnade.seal.shamir import threshold

Fields = dict[str, Tensor]
Said = dict[str, tuple[bytes, ...]]
SETUP = "setup"
Carry = Callable[[Fields, str, str, str, str], Fields]
"""(fields, sender, receiver, step, purpose) -> fields as they arrive; an empty purpose is the turn's own."""


class Blinding:
    """One session of blinded sums: keys are agreed on at the first sum, and every sum has masks of its own."""

    def __init__(self, blind: Blind, parties: Sequence[str], owner: str) -> None:
        if blind.recover:
            threshold(len(parties))  # refuses fewer than four
        if len(parties) < 2:
            raise SealError(
                f"Blind hides a party among others, and {len(parties)} would be blinded here; the sum of one party is "
                "its value, so have two or more parties beside the owner, or train without Blind."
            )
        self.blind, self.parties, self.owner = blind, list(parties), owner
        self.serial = 0
        self.maskers: dict[str, Masker] = {}

    def sum(
        self, coded: Mapping[str, dict[str, Coded]], expected: dict[str, SumCode], turn: Turn, step: str, carry: Carry
    ) -> tuple[dict[str, Codes], int]:
        """The sum of the parties' codes by field, and of how many parties it is."""
        if not self.maskers:
            self.agree(carry)
        return (self._recover if self.blind.recover else self._redo)(coded, expected, turn, step, carry)

    def _redo(
        self, coded: Mapping[str, dict[str, Coded]], expected: dict[str, SumCode], turn: Turn, step: str, carry: Carry
    ) -> tuple[dict[str, Codes], int]:
        """A party that is away makes all of them mask and send again; nothing is opened before all have answered."""
        self.serial += 1
        for attempt in range(self.blind.attempts):
            ticket = Ticket(turn.round, self.serial, attempt, step)
            try:
                arrived = {p: self._send(p, coded[p], expected, ticket, carry) for p in self.parties}
            except AwayError as error:
                away = error
                continue
            for masker in self.maskers.values():
                masker.log.opened(ticket)
            totals = {
                name: total({party: own[name] for party, own in arrived.items()}, code.ring, self.parties)
                for name, code in expected.items()
            }
            return totals, len(self.parties)
        raise AwayError(
            f"the blinded sum of step '{step}' in round {turn.round} failed {self.blind.attempts} times and was never "
            f"opened: {away}"
        )

    def _recover(
        self, coded: Mapping[str, dict[str, Coded]], expected: dict[str, SumCode], turn: Turn, step: str, carry: Carry
    ) -> tuple[dict[str, Codes], int]:
        """A party that is away is left out of the sum, as long as more than two thirds answer."""
        members = {party: masker.membership for party, masker in self.maskers.items()}
        logs = {party: masker.log for party, masker in self.maskers.items()}
        totals, sets = {}, set()
        for name, code in expected.items():
            self.serial += 1
            ticket = Ticket(turn.round, self.serial, 0, tensor_name(step, name, code.ring.bits, code.bound))

            def send(fields: Fields, sender: str, receiver: str, phase: str) -> Fields:
                return carry(fields, sender, receiver, f"{step}: {phase}", "")

            one = RecoverableSum(members, logs, ticket, code.ring, self.owner, send)
            totals[name], survivors = one.run({party: own[name].codes for party, own in coded.items()})
            sets.add(survivors)
        if len(sets) > 1:
            # Summing again over the common set would show the difference, which is one party's values.
            raise AwayError(
                f"a party fell away between two tensors of step '{step}' in round {turn.round}; the round is lost."
            )
        return totals, len(sets.pop())

    def agree(self, carry: Carry) -> None:
        """The key agreement: hellos through the owner to all, then everybody's signature of the same roster."""
        job = os.urandom(16)
        identities = {party: Identity.new() for party in self.parties}
        manifest = {party: identity.public for party, identity in identities.items()}
        members = {party: Membership(job, party, identities[party], manifest) for party in self.parties}
        hellos = self._relay({party: member.hello()[1:] for party, member in members.items()}, "hello", carry)
        signed = {
            party: (member.confirm([Hello(name, *parts) for name, parts in hellos[party].items()]),)
            for party, member in members.items()
        }
        confirmations = self._relay(signed, "confirm", carry)
        for party, member in members.items():
            member.join({name: signature for name, (signature,) in confirmations[party].items()})
        self.maskers = {party: Masker(member) for party, member in members.items()}

    def _relay(self, said: Mapping[str, tuple[bytes, ...]], step: str, carry: Carry) -> dict[str, Said]:
        """What every party said, as the owner passes it on to every party."""
        at_owner = {party: carry(_as_fields(parts), party, self.owner, step, SETUP) for party, parts in said.items()}
        all_said = {
            name: torch.stack([fields[name] for fields in at_owner.values()]) for name in next(iter(at_owner.values()))
        }
        return {party: self._heard(carry(all_said, self.owner, party, step, SETUP)) for party in self.parties}

    def _heard(self, fields: Fields) -> Said:
        if any(value.dtype != torch.uint8 or len(value) != len(self.parties) for value in fields.values()):
            raise MessageError(f"{len(self.parties)} parties' keys or signatures were expected; something else came.")
        parts = [[value.numpy().tobytes() for value in rows] for rows in fields.values()]
        return dict(zip(self.parties, zip(*parts, strict=True), strict=True))

    def _send(
        self, party: str, coded: dict[str, Coded], expected: dict[str, SumCode], ticket: Ticket, carry: Carry
    ) -> dict[str, Codes]:
        """One party's masked codes, as they arrive at the owner."""
        wire: Fields = {}
        for name, (codes, bits, bound) in coded.items():
            own = ticket._replace(tensor=tensor_name(ticket.tensor, name, bits, bound))
            masked = self.maskers[party].mask(own, codes, Ring(bits))
            wire |= as_wire(name, masked, bits, masked.shape) | {f"{name}.bound": torch.tensor(bound)}
        arrived = carry(wire, party, self.owner, ticket.tensor, "")
        return {name: _taken(name, arrived, code, party) for name, code in expected.items()}


def tensor_name(step: str, field: str, bits: int, bound: float) -> str:
    """What a mask is for, ring and scale included: parties that do not agree on them share no mask."""
    return f"{step}/{field}/{bits}/{bound!r}"


def _as_fields(parts: tuple[bytes, ...]) -> Fields:
    names = ("key", "incarnation", "signature") if len(parts) == 3 else ("signature",)
    return {name: torch.frombuffer(bytearray(part), dtype=torch.uint8) for name, part in zip(names, parts, strict=True)}


def _taken(name: str, wire: Fields, code: SumCode, party: str) -> Codes:
    """A party's masked codes, if they are in the ring and on the scale that the owner expects."""
    bound = wire.get(f"{name}.bound")
    if bound is None or bound.numel() != 1 or float(bound) != float(torch.tensor(code.bound)):
        came = None if bound is None else bound.tolist()
        raise SealError(
            f"{party} sent '{name}' on the scale {came} and {code.bound:g} was agreed; "
            "codes on different scales do not add, so give every party the same seals."
        )
    try:
        codes, shape = from_wire(name, wire, code.ring.bits)
    except MessageError as error:
        raise SealError(f"{party} sent a blinded message that is not one: {error}") from error
    return codes.reshape(shape)
