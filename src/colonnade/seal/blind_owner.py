"""The owner's part of blinded sums: it relays keys, asks for masked values, and opens only the sum.

Every party's keys and values are in its own :class:`.blind_party.BlindParty`, in this process or in another one. All
messages between them go through ``carry`` and so are counted in the ledger, including those of the key agreement (the
steps ``hello`` and ``confirm``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from colonnade.core.schedule import Turn
from colonnade.errors import AwayError, MessageError, SealError
from colonnade.seal.blind import SPREAD, Blind, SumCode
from colonnade.seal.blind_party import BlindParty, mark_of, tensor_name
from colonnade.seal.codec import from_wire
from colonnade.seal.key_agreement import Hello, Ticket, roster_digest
from colonnade.seal.pack import Codes
from colonnade.seal.recover_owner import RecoverableSum, SumSession, SumTicket
from colonnade.seal.relay import Fields, heard, stacked
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import total
from colonnade.seal.shamir import threshold
from colonnade.seal.subject import Form, Subject
from colonnade.signatures import Identity

SETUP = "setup"
HELLO, SIGNATURE = (32, 16, 64), (64,)  # bytes: key, incarnation and signature; a signature
T = TypeVar("T")
Carry = Callable[[Fields, str, str, str, str], Fields]
"""(fields, sender, receiver, step, purpose) -> fields as they arrive; an empty purpose is the turn's own."""


class SumTask(NamedTuple):
    """One sum: the codes that the owner expects from every party, the scales that it sends first, and the subject."""

    expected: dict[str, SumCode]
    shapes: dict[str, tuple[int, ...]]
    bounds: Fields
    about: Subject
    turn: Turn
    step: str

    @property
    def forms(self) -> dict[str, Form]:
        """The form of every party's codes, by field."""
        return {name: Form(self.shapes[name], code.ring, code.bound) for name, code in self.expected.items()}

    @property
    def meaning(self) -> bytes:
        """The digest that every party binds its masks to, without the history of earlier messages."""
        return self.about.meaning(self.forms)


class BlindEnd(Protocol):
    """A blinded party's end as the owner reaches it; it returns the replies that the party sends."""

    def answer(self, phase: str, message: Fields, ticket: Ticket | None = None) -> Fields:
        """The party's reply in a phase, to the message ``message``."""


@dataclass(frozen=True)
class Blinded:
    """The parties of blinded sums: the job of their keys, their public keys, and the ends that reach them."""

    job: bytes
    manifest: Mapping[str, bytes]
    ends: Mapping[str, BlindEnd]

    @property
    def parties(self) -> list[str]:
        """The parties' names, in the order of their tables."""
        return list(self.ends)


def check_parties(blind: Blind, parties: Sequence[str]) -> None:
    """Refuse blinded sums over too few parties."""
    if blind.recover:
        threshold(len(parties))  # refuses fewer than four
    if len(parties) < 2:
        raise SealError(
            f"Blind hides a party among others, and {len(parties)} would be blinded here; the sum of one party is "
            "its value, so have two or more parties beside the owner, or train without Blind."
        )


def simulated_parties(blind: Blind, parties: Sequence[str]) -> dict[str, BlindParty]:
    """The ends of blinded parties in one process, with new identities."""
    check_parties(blind, parties)
    job, identities = os.urandom(16), {party: Identity.new() for party in parties}
    manifest = {party: identity.public for party, identity in identities.items()}
    return {
        party: BlindParty(job, party, list(parties), identity, manifest, recover=blind.recover)
        for party, identity in identities.items()
    }


class BlindOwner:
    """One session of blinded sums: keys are agreed on at the first sum, and every sum has new masks."""

    def __init__(self, blind: Blind, blinded: Blinded, owner: str, *, leaves_out: bool = True) -> None:
        """``leaves_out`` says whether a recoverable sum goes on without an absent party, or waits for it."""
        check_parties(blind, blinded.parties)
        self.blind, self.parties, self.owner, self.leaves_out = blind, blinded.parties, owner, leaves_out
        self.job, self.manifest, self.ends = blinded.job, blinded.manifest, blinded.ends
        self.serial = 0
        self._told_before: dict[str, int] = {}  # in the present sum: the mark of each party's earlier messages
        self.present: RecoverableSum | None = None  # the last recoverable sum that was begun
        self._roster = b""

    def forget_keys(self) -> None:
        """Agree on keys again at the next sum: a party that went back to a checkpoint may be another process."""
        self._roster = b""

    def check_enough(self, here: int) -> None:
        """Refuse a sum with too few parties, before any of its messages is sent."""
        needed = threshold(len(self.parties)) if self.blind.recover else len(self.parties)
        if here < needed:
            raise AwayError(
                f"{here} of {len(self.parties)} blinded parties are here and {needed} are needed for a sum."
            )

    def ready(self, carry: Carry) -> None:
        """Agree on keys, if that has not happened yet."""
        if not self._roster:
            self._tries("key agreement", lambda _: self.agree(carry))

    def sum(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """The sum of the parties' codes by field, and the number of parties in it."""
        self.ready(carry)
        return self._recover(task, carry) if self.blind.recover else self._redo(task, carry)

    def _redo(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """If a party is absent, all parties mask and send again; nothing is opened before all have replied."""
        self.serial += 1

        def attempt(number: int) -> dict[str, dict[str, Codes]]:
            ticket = Ticket(task.turn.round, self.serial, number, task.step)
            self._told_before = {}
            return {party: self._send(party, task, ticket, carry) for party in self.parties}

        arrived = self._tries(f"blinded sum of step '{task.step}' in round {task.turn.round}", attempt)
        for end in self.ends.values():
            end.answer("opened", {}, Ticket(task.turn.round, self.serial, 0, task.step))
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
                absent = error
        message = f"the {what} failed {self.blind.attempts} times and was never opened: {absent}"
        raise AwayError(message, absent.party) from absent

    def _recover(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """An absent party is left out of the sum, as long as more than two thirds reply."""
        present = tuple(sorted(party for party in self.parties if self._is_present(party, task, carry)))
        main = [name for name in task.expected if not name.endswith(SPREAD)]
        totals: dict[str, Codes] = {}
        over = None  # all sums of a step are over the same parties: a difference would show one party's values
        for ring in sorted({task.expected[name].ring for name in main}, key=lambda ring: ring.bits):
            names = [name for name in main if task.expected[name].ring == ring]
            sums, present = self._recover_some(task, names, present, over, carry)
            over = present
            totals |= sums
        for name in task.expected.keys() - totals.keys():
            try:
                totals |= self._recover_some(task, [name], present, over, carry)[0]
            except AwayError:
                continue  # without this statistic the scale does not change
        return totals, len(present)

    def _recover_some(
        self, task: SumTask, names: list[str], present: tuple[str, ...], over: tuple[str, ...] | None, carry: Carry
    ) -> tuple[dict[str, Codes], tuple[str, ...]]:
        """Sum the tensors of one ring as one long tensor, so that all have the same survivors: ``over``, if given."""
        self.serial += 1
        ring = task.expected[names[0]].ring

        def send(fields: Fields, sender: str, receiver: str, phase: str) -> Fields:
            return carry(fields, sender, receiver, f"{task.step}: {phase}", "")

        asked = Ticket(task.turn.round, self.serial, 0, f"{task.step}: {'+'.join(names)}")
        ticket = asked._replace(tensor=tensor_name(task.meaning, *names))
        shapes = [task.shapes[name] for name in names]
        sizes = [math.prod(shape) for shape in shapes]
        session = SumSession(self.ends, self.manifest, self._roster, self.owner)
        required = over if self.leaves_out else tuple(sorted(self.ends))
        one_sum = SumTicket(asked, ticket, ring, sum(sizes))
        self.present = RecoverableSum(session, one_sum, send, present=present, over=required)
        summed, survivors = self.present.run()
        parts = np.split(summed, np.cumsum(sizes)[:-1])
        return {n: part.reshape(shape) for n, part, shape in zip(names, parts, shapes, strict=True)}, survivors

    def _is_present(self, party: str, task: SumTask, carry: Carry) -> bool:
        try:
            self._tell(party, task, carry)
        except AwayError:
            return False
        return True

    def _tell(self, party: str, task: SumTask, carry: Carry) -> None:
        """Send a party the scales of this sum, if the owner sets any."""
        if task.bounds:
            carry(task.bounds, self.owner, party, task.step, "")

    def agree(self, carry: Carry) -> None:
        """Run the key agreement: the owner relays all hellos to all parties, then all signatures of the roster."""
        hellos = self._gathered("hello", HELLO, {}, carry)
        signatures = self._gathered("confirm", SIGNATURE, self._relayed(hellos, "hello", carry), carry)
        relayed = self._relayed(signatures, "confirm", carry)
        for party, end in self.ends.items():
            end.answer("join", relayed[party])
        self._roster = roster_digest(self.job, [Hello(party, *parts) for party, parts in hellos.items()])

    def _gathered(
        self, phase: str, lengths: Sequence[int], messages: Mapping[str, Fields], carry: Carry
    ) -> dict[str, tuple[bytes, ...]]:
        replies = {party: end.answer(phase, messages.get(party, {})) for party, end in self.ends.items()}
        return {
            party: heard(carry(own, party, self.owner, phase, SETUP), lengths, party) for party, own in replies.items()
        }

    def _relayed(self, replies: Mapping[str, tuple[bytes, ...]], step: str, carry: Carry) -> dict[str, Fields]:
        """All parties' replies, as the owner relays them to every party."""
        together = stacked(replies, self.parties)
        return {party: carry(together, self.owner, party, step, SETUP) for party in self.parties}

    def _send(self, party: str, task: SumTask, ticket: Ticket, carry: Carry) -> dict[str, Codes]:
        """One party's masked codes, as they arrive at the owner."""
        self._tell(party, task, carry)
        arrived = carry(self.ends[party].answer("blind", task.bounds, ticket), party, self.owner, ticket.tensor, "")
        if set(arrived) != {name + part for name in task.expected for part in ("", ".form", ".about")}:
            raise SealError(f"'{party}' sent {sorted(arrived)} for a sum of {sorted(task.expected)}.")
        mark = self._mark(party, task, next(iter(task.expected)), arrived)
        return {n: _taken(n, arrived, code.ring, task.shapes[n], mark, party) for n, code in task.expected.items()}

    def _mark(self, party: str, task: SumTask, name: str, arrived: Fields) -> Tensor:
        """The mark that all of a party's fields must have; parties with different earlier messages are refused."""
        expected, mark = mark_of(task.about, task.forms), arrived[f"{name}.about"]
        if mark.dtype != expected.dtype or mark.ndim:
            return expected  # the party's mark differs from it, so its fields will be refused
        halves = expected.reshape(1).view(torch.int16).clone()
        halves[1] = mark.reshape(1).view(torch.int16)[1]
        self._told_before[party] = int(halves[1])
        if len(set(self._told_before.values())) > 1:
            others = ", ".join(f"'{other}'" for other in self._told_before if other != party)
            raise SealError(
                f"'{party}' was told something else in training than {others}, or has gone back to another state, so "
                "their masks do not cancel; go back to a checkpoint with all of them."
            )
        return halves.view(torch.int32).reshape(())


def _taken(name: str, wire: Fields, ring: Ring, expected: tuple[int, ...], mark: Tensor, party: str) -> Codes:
    """A party's masked codes, if they belong to the sum that the owner asked for."""
    try:
        codes, shape = from_wire(name, wire, ring.bits)
    except MessageError as error:
        raise SealError(
            f"'{party}' sent '{name}' and '{name}.form' as a blinded message that is none: {error}"
        ) from error
    if shape != expected:
        raise SealError(
            f"'{party}' sent '{name}' with the shape {shape}, and {expected} was expected; has it the same rows?"
        )
    own = wire[f"{name}.about"]
    if own.dtype != mark.dtype or own.ndim or int(own) != int(mark):
        raise SealError(
            f"'{party}' masked '{name}' for another sum than was asked for, and masks of different sums do not cancel; "
            "has it the same rows, the same ids and the same seals?"
        )
    return codes.reshape(shape)
