"""Blinded sums as the owner leads them: it relays keys, asks for masked values, and opens nothing but the sum.

Every party's keys and values live in its own :class:`colonnade.seal.blinded.BlindedEnd`, here or in another process;
what passes between them goes through ``carry`` and so has its frames in the ledger, the key agreement (step ``hello``
and ``confirm``) included.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import AwayError, MessageError, SealError
from colonnade.schedule import Turn
from colonnade.seal.blind import SPREAD, Blind, Coded, SumCode
from colonnade.seal.blinded import BlindedEnd, mark_of, tensor_name
from colonnade.seal.codec import from_wire
from colonnade.seal.keys import Hello, Identity, Ticket, roster_digest
from colonnade.seal.pack import Codes
from colonnade.seal.recovering import RecoverableSum
from colonnade.seal.relay import Fields, heard, stacked
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import total
from colonnade.seal.shamir import threshold
from colonnade.seal.subject import Form, Subject

SETUP = "setup"
HELLO, SIGNATURE = (32, 16, 64), (64,)  # bytes: key, incarnation and signature; a signature
T = TypeVar("T")
Carry = Callable[[Fields, str, str, str, str], Fields]
"""(fields, sender, receiver, step, purpose) -> fields as they arrive; an empty purpose is the turn's own."""


class SumTask(NamedTuple):
    """One sum: what the owner expects of every party, what it tells them first, and what it is about."""

    expected: dict[str, SumCode]
    shapes: dict[str, tuple[int, ...]]
    bounds: Fields
    about: Subject
    turn: Turn
    step: str

    @property
    def forms(self) -> dict[str, Form]:
        """What all parties' codes look like."""
        return {name: Form(self.shapes[name], code.ring, code.bound) for name, code in self.expected.items()}

    @property
    def meaning(self) -> bytes:
        """What every party binds its masks to, but for what it was told before."""
        return self.about.meaning(self.forms)


class End(Protocol):
    """A blinded party's end as the owner reaches it; its answers are what it would send."""

    def answer(self, phase: str, told: Fields, ticket: Ticket | None = None) -> Fields:
        """What the party says in a phase, after what it is told."""

    def hold(self, coded: dict[str, Coded], about: Subject, values: bytes | None) -> None:
        """Let the party have its values, if the process that leads the sum has them."""


class Blinding:
    """One session of blinded sums: keys are agreed on at the first sum, and every sum has masks of its own."""

    def __init__(
        self,
        blind: Blind,
        parties: Sequence[str],
        owner: str,
        *,
        job: bytes | None = None,
        manifest: Mapping[str, bytes] | None = None,
        ends: Mapping[str, End] | None = None,
    ) -> None:
        """``ends`` in other processes have identities of their own, whose public keys are the ``manifest``."""
        if blind.recover:
            threshold(len(parties))  # refuses fewer than four
        if len(parties) < 2:
            raise SealError(
                f"Blind hides a party among others, and {len(parties)} would be blinded here; the sum of one party is "
                "its value, so have two or more parties beside the owner, or train without Blind."
            )
        self.blind, self.parties, self.owner = blind, list(parties), owner
        self.job = os.urandom(16) if job is None else job
        identities = {} if manifest is not None else {party: Identity.new() for party in parties}
        self.manifest = manifest or {party: identity.public for party, identity in identities.items()}
        self.ends = ends or {
            party: BlindedEnd(self.job, party, self.parties, identity, self.manifest, recover=blind.recover)
            for party, identity in identities.items()
        }
        self.serial = 0
        self._told_before: dict[str, int] = {}  # in the present sum: a mark of what each was told before it
        self.roster = b""
        self.leaves_out = True  # whether a recoverable sum goes on without a party, or waits for it

    def check_enough(self, here: int) -> None:
        """Refuse a sum that is known to have too few parties before anything of it is sent."""
        needed = threshold(len(self.parties)) if self.blind.recover else len(self.parties)
        if here < needed:
            raise AwayError(
                f"{here} of {len(self.parties)} blinded parties are here and {needed} are needed for a sum."
            )

    def ready(self, carry: Carry) -> None:
        """Agree on keys, if nobody has."""
        if not self.roster:
            self._tries("key agreement", lambda _: self.agree(carry))

    def sum(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """The sum of the parties' codes by field, and of how many parties it is."""
        self.ready(carry)
        return self._recover(task, carry) if self.blind.recover else self._redo(task, carry)

    def _redo(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """A party that is away makes all of them mask and send again; nothing is opened before all have answered."""
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
                away = error
        message = f"the {what} failed {self.blind.attempts} times and was never opened: {away}"
        raise AwayError(message, away.party) from away

    def _recover(self, task: SumTask, carry: Carry) -> tuple[dict[str, Codes], int]:
        """A party that is away is left out of the sum, as long as more than two thirds answer."""
        here = tuple(sorted(party for party in self.parties if self._hears(party, task, carry)))
        main = [name for name in task.expected if not name.endswith(SPREAD)]
        totals: dict[str, Codes] = {}
        over = None  # all sums of a step are over the same parties, or their difference would show single ones
        for ring in sorted({task.expected[name].ring for name in main}, key=lambda ring: ring.bits):
            names = [name for name in main if task.expected[name].ring == ring]
            found, here = self._recover_some(task, names, here, over, carry)
            over = here
            totals |= found
        for name in task.expected.keys() - totals.keys():
            try:
                totals |= self._recover_some(task, [name], here, over, carry)[0]
            except AwayError:
                continue  # without it, the scale stays as it is
        return totals, len(here)

    def _recover_some(
        self, task: SumTask, names: list[str], here: tuple[str, ...], over: tuple[str, ...] | None, carry: Carry
    ) -> tuple[dict[str, Codes], tuple[str, ...]]:
        """Tensors of one ring, end to end in one sum, so that they have the same survivors: ``over``, if given."""
        self.serial += 1
        ring = task.expected[names[0]].ring

        def send(fields: Fields, sender: str, receiver: str, phase: str) -> Fields:
            return carry(fields, sender, receiver, f"{task.step}: {phase}", "")

        asked = Ticket(task.turn.round, self.serial, 0, f"{task.step}: {'+'.join(names)}")
        ticket = asked._replace(tensor=tensor_name(task.meaning, *names))
        one = RecoverableSum(self.ends, self.manifest, self.roster, asked, ticket, ring, self.owner, send)
        one.here, one.over = list(here), over if self.leaves_out else tuple(one.names)
        shapes = [task.shapes[name] for name in names]
        one.size = sum(map(math.prod, shapes))
        summed, survivors = one.run()
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
        hellos = self._gathered("hello", HELLO, {}, carry)
        signatures = self._gathered("confirm", SIGNATURE, self._told(hellos, "hello", carry), carry)
        told = self._told(signatures, "confirm", carry)
        for party, end in self.ends.items():
            end.answer("join", told[party])
        self.roster = roster_digest(self.job, [Hello(party, *parts) for party, parts in hellos.items()])

    def _gathered(
        self, phase: str, lengths: Sequence[int], told: Mapping[str, Fields], carry: Carry
    ) -> dict[str, tuple[bytes, ...]]:
        said = {party: end.answer(phase, told.get(party, {})) for party, end in self.ends.items()}
        return {
            party: heard(carry(own, party, self.owner, phase, SETUP), lengths, party) for party, own in said.items()
        }

    def _told(self, said: Mapping[str, tuple[bytes, ...]], step: str, carry: Carry) -> dict[str, Fields]:
        """What every party said, as the owner passes it on to every party."""
        all_said = stacked(said, self.parties)
        return {party: carry(all_said, self.owner, party, step, SETUP) for party in self.parties}

    def _send(self, party: str, task: SumTask, ticket: Ticket, carry: Carry) -> dict[str, Codes]:
        """One party's masked codes, as they arrive at the owner."""
        self._tell(party, task, carry)
        arrived = carry(self.ends[party].answer("blind", task.bounds, ticket), party, self.owner, ticket.tensor, "")
        if set(arrived) != {name + part for name in task.expected for part in ("", ".form", ".about")}:
            raise SealError(f"'{party}' sent {sorted(arrived)} for a sum of {sorted(task.expected)}.")
        mark = self._mark(party, task, next(iter(task.expected)), arrived)
        return {n: _taken(n, arrived, code.ring, task.shapes[n], mark, party) for n, code in task.expected.items()}

    def _mark(self, party: str, task: SumTask, name: str, arrived: Fields) -> Tensor:
        """What all fields must be marked with; refused if parties were told different things before."""
        due, came = mark_of(task.about, task.forms), arrived[f"{name}.about"]
        if came.dtype != due.dtype or came.ndim:
            return due  # which it is not
        halves = due.reshape(1).view(torch.int16).clone()
        halves[1] = came.reshape(1).view(torch.int16)[1]
        self._told_before[party] = int(halves[1])
        if len(set(self._told_before.values())) > 1:
            others = ", ".join(f"'{one}'" for one in self._told_before if one != party)
            raise SealError(
                f"'{party}' was told something else in training than {others}, or has gone back to another state, so "
                "their masks do not cancel; go back to a checkpoint with all of them."
            )
        return halves.view(torch.int32).reshape(())


def _taken(name: str, wire: Fields, ring: Ring, due: tuple[int, ...], mark: Tensor, party: str) -> Codes:
    """A party's masked codes, if they are of what the owner asked for."""
    try:
        codes, shape = from_wire(name, wire, ring.bits)
    except MessageError as error:
        raise SealError(f"'{party}' sent '{name}' as a blinded message that is none: {error}") from error
    if shape != due:
        raise SealError(
            f"'{party}' sent '{name}' with the shape {shape}, and {due} was expected; has it the same rows?"
        )
    told = wire[f"{name}.about"]
    if told.dtype != mark.dtype or told.ndim or int(told) != int(mark):
        raise SealError(
            f"'{party}' masked '{name}' for another sum than was asked for, and masks of different sums do not cancel; "
            "has it the same rows, the same ids and the same seals?"
        )
    return codes.reshape(shape)
