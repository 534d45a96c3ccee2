"""The blinded parties' ends and the owner's, joined by whoever carries their messages.

Every party's keys live in its own :class:`Membership`; what passes between them goes through ``carry`` and
so has its frames in the ledger, the key agreement (step ``hello`` and ``confirm``) included.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from colonnade.errors import AwayError, MessageError, SealError
from colonnade.schedule import Turn
from colonnade.seal.blind import SPREAD, Blind, Coded, SumCode
from colonnade.seal.codec import as_wire, from_wire
from colonnade.seal.keys import Hello, Identity, Membership, Ticket
from colonnade.seal.pack import Codes
from colonnade.seal.recovering import RecoverableSum
from colonnade.seal.relay import Fields, Said, heard, spoken, stacked, unstacked
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import Masker, Subject, total
from colonnade.seal.shamir import threshold

SETUP = "setup"
T = TypeVar("T")
Carry = Callable[[Fields, str, str, str, str], Fields]
"""(fields, sender, receiver, step, purpose) -> fields as they arrive; an empty purpose is the turn's own."""


class SumTask(NamedTuple):
    """One sum: what the parties give, what the owner expects, and what it is about."""

    coded: Mapping[str, dict[str, Coded]]
    expected: dict[str, SumCode]
    bounds: Fields
    about: Subject
    turn: Turn
    step: str


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

    def check_enough(self, here: int) -> None:
        """Refuse a sum that is known to have too few parties before anything of it is sent."""
        needed = threshold(len(self.parties)) if self.blind.recover else len(self.parties)
        if here < needed:
            raise AwayError(
                f"{here} of {len(self.parties)} blinded parties are here and {needed} are needed for a sum."
            )

    def sum(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """The sum of the parties' codes by field, and of how many parties it is."""
        if not self.maskers:
            self._tries("key agreement", lambda _: self.agree(carry))
        return self._recover(task, carry) if self.blind.recover else self._redo(task, carry)

    def _redo(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """A party that is away makes all of them mask and send again; nothing is opened before all have answered."""
        self.serial += 1

        def attempt(number: int) -> dict[str, dict[str, Codes]]:
            ticket = Ticket(task.turn.round, self.serial, number, task.step)
            return {party: self._send(party, task, ticket, carry) for party in self.parties}

        arrived = self._tries(f"blinded sum of step '{task.step}' in round {task.turn.round}", attempt)
        for masker in self.maskers.values():
            masker.log.opened(Ticket(task.turn.round, self.serial, 0, task.step))
        totals = {
            name: total({party: own[name] for party, own in arrived.items()}, code.ring, self.parties)
            for name, code in task.expected.items()
        }
        return totals, len(self.parties)

    def _tries(self, what: str, attempt: Callable[[int], T]) -> T:
        for number in range(self.blind.attempts):
            try:
                return attempt(number)
            except AwayError as error:
                away = error
        message = f"the {what} failed {self.blind.attempts} times and was never opened: {away}"
        raise AwayError(message, away.party) from away

    def _recover(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """A party that is away is left out of the sum, as long as more than two thirds answer."""
        here = [party for party in self.parties if self._hears(party, task, carry)]
        main = [name for name in task.expected if not name.endswith(SPREAD)]
        totals: dict[str, Codes] = {}
        sets = set()
        for ring in sorted({task.expected[name].ring for name in main}, key=lambda ring: ring.bits):
            names = [name for name in main if task.expected[name].ring == ring]
            found, survivors = self._recover_some(task, names, ring, here, carry)
            totals |= found
            sets.add(survivors)
        if len(sets) > 1:
            # Summing again over the common set would show the difference, which is one party's values.
            raise AwayError(f"a party fell away within step '{task.step}' of round {task.turn.round}; its sum is lost.")
        survivors = sets.pop()
        for name in task.expected.keys() - totals.keys():
            found, others = self._recover_some(task, [name], task.expected[name].ring, here, carry)
            totals |= found if others == survivors else {}  # without it, the scale stays as it is
        return totals, len(survivors)

    def _recover_some(
        self, task: SumTask, names: list[str], ring: Ring, here: list[str], carry: Carry
    ) -> tuple[dict[str, Codes], tuple[str, ...]]:
        """Tensors of one ring, end to end in one sum, so that they have the same survivors."""
        self.serial += 1

        def send(fields: Fields, sender: str, receiver: str, phase: str) -> Fields:
            return carry(fields, sender, receiver, f"{task.step}: {phase}", "")

        def ticket(own: Mapping[str, Coded | SumCode]) -> Ticket:
            tensor = "+".join(tensor_name(task.step, name, own[name].ring, own[name].bound) for name in names)
            return Ticket(task.turn.round, self.serial, 0, tensor)

        sides = {party: task.coded[party] for party in self.parties}
        tickets = {party: ticket(own) for party, own in sides.items()} | {self.owner: ticket(task.expected)}
        about = task.about._replace(step=f"{task.step}: {'+'.join(names)}")
        one = RecoverableSum(self.maskers, tickets, about, ring, self.owner, send)
        one.here = [party for party in one.here if party in here]
        joined = {party: np.concatenate([own[name].codes.ravel() for name in names]) for party, own in sides.items()}
        summed, survivors = one.run(joined)
        shapes = [next(iter(sides.values()))[name].codes.shape for name in names]
        parts = np.split(summed, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        return {n: part.reshape(shape) for n, part, shape in zip(names, parts, shapes, strict=True)}, survivors

    def _hears(self, party: str, task: SumTask, carry: Carry) -> bool:
        try:
            self._tell(party, task, carry)
        except AwayError:
            return False
        return True

    def _tell(self, party: str, task: SumTask, carry: Carry) -> None:
        """Tell a party the scales of this sum, where the owner sets them."""
        if task.bounds:
            carry(task.bounds, self.owner, party, task.step, "")

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
        at_owner = {
            party: heard(carry(spoken(*parts), party, self.owner, step, SETUP)) for party, parts in said.items()
        }
        all_said = stacked(at_owner, self.parties)
        return {
            party: unstacked(carry(all_said, self.owner, party, step, SETUP), self.parties) for party in self.parties
        }

    def _send(self, party: str, task: SumTask, ticket: Ticket, carry: Carry) -> dict[str, Codes]:
        """One party's masked codes, as they arrive at the owner."""
        self._tell(party, task, carry)
        wire: Fields = {}
        for name, (codes, ring, bound) in task.coded[party].items():
            own = ticket._replace(tensor=tensor_name(ticket.tensor, name, ring, bound))
            masked = self.maskers[party].mask(own, codes, ring)
            wire |= as_wire(name, masked, ring.bits, masked.shape) | {f"{name}.bound": torch.tensor(bound)}
        arrived = carry(wire, party, self.owner, ticket.tensor, "")
        return {name: _taken(name, arrived, code, party) for name, code in task.expected.items()}


def tensor_name(step: str, field: str, ring: Ring, bound: float) -> str:
    """What a mask is for, ring and scale included: parties that do not agree on them share no mask."""
    return f"{step}/{field}/{ring.bits}/{bound!r}"


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
