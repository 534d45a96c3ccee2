"""One blinded party's end: its keys, its values of a sum, and its reply in every phase.

It has no input or output of its own: the code that communicates with the owner passes the owner's messages in and the
party's replies out. The party trusts the owner's messages only where they are signed by the parties
(:mod:`colonnade.seal.key_agreement`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch

from colonnade.errors import SealError
from colonnade.seal.blind import Coded
from colonnade.seal.codec import as_wire
from colonnade.seal.key_agreement import Hello, Membership, Ticket
from colonnade.seal.recover import Advert, RecoverParty
from colonnade.seal.relay import Fields, only, single, spoken, stacked, unstacked
from colonnade.seal.secure_sum import Masker, SumLog
from colonnade.seal.subject import Form, Subject
from colonnade.seal.sum_book import SumBook, SumRules
from colonnade.signatures import Identity

RECOVERING = ("advertise", "share", "mask", "sign", "reveal")
AGREEING = ("hello", "confirm", "join")
"""Phases of the key agreement, which belongs to no particular sum."""
PHASES = (*AGREEING, "blind", "opened", *RECOVERING)
UNTOLD = ("hello", "blind", "opened", "advertise")
"""Phases in which a party reads no message."""


def tensor_name(meaning: bytes, *fields: str) -> str:
    """The name that a mask's key is derived from: the meaning of a sum, and these fields of it."""
    return f"{meaning.hex()}/{'+'.join(fields)}"


def mark_of(about: Subject, forms: Mapping[str, Form]) -> torch.Tensor:
    """A mark by which an honest owner notices that a party masked something else than the others.

    Two bytes are a digest of facts that the owner knows, too. Two are a digest of the messages that the party received
    before, which must be equal at all parties.
    """
    known = about._replace(history=b"").meaning(forms)
    return torch.frombuffer(bytearray(known[:2] + about.history[:2].ljust(2, b"\0")), dtype=torch.int32).reshape(())


class BlindParty:
    """One of the parties whose sums are blinded."""

    def __init__(
        self,
        job: bytes,
        party: str,
        parties: Sequence[str],
        identity: Identity,
        manifest: Mapping[str, bytes],
        *,
        recover: bool = False,
        rules: SumRules | None = None,
    ) -> None:
        """``recover`` is the kind of sum that was agreed on; the other kind is refused."""
        self.job, self.party, self.parties = job, party, list(parties)
        self.identity, self.manifest, self.recover = identity, manifest, recover
        self.book = SumBook(party, job, rules)  # for the whole job, also after a restart
        self.log = SumLog()  # for this process, over all key agreements
        self._member: Membership | None = None
        self._masker: Masker | None = None
        self._coded: dict[str, Coded] = {}
        self._about: Subject | None = None
        self._meaning, self._mark = b"", torch.zeros((), dtype=torch.int32)
        self._recovering: RecoverParty | None = None
        self._begun = Ticket(0, 0, 0, "")  # the owner's ticket of the recoverable sum

    def hold(self, coded: dict[str, Coded], about: Subject, values: bytes | None) -> None:
        """Take the values of the next sum and its subject; the sum is noted in the book before anything is sent.

        ``values`` is a digest of the values before noise and rounding; None for values that will never be sent.
        """
        forms = {name: Form(field.codes.shape, field.ring, field.bound) for name, field in coded.items()}
        meaning = about.meaning(forms)
        self._coded, self._recovering = {}, None
        if values is not None:
            self.book.lend(about, meaning, values)
        self._coded, self._about, self._meaning, self._mark = coded, about, meaning, mark_of(about, forms)

    def answer(self, phase: str, message: Fields, ticket: Ticket | None = None) -> Fields:
        """This party's reply in a phase, to the message ``message``; ``ticket`` names the sum."""
        if phase in AGREEING:
            return {"hello": self._hello, "confirm": self._confirm, "join": self._join}[phase](message)
        if phase not in PHASES or ticket is None:
            raise SealError(f"'{self.party}' was asked for the phase '{phase:.40}' of a sum, which there is not; stop.")
        if self.recover != (phase in RECOVERING):
            # A sum of all parties and a sum of some of them would differ by one party's values.
            raise SealError(f"'{self.party}' was asked to {phase} in a sum of another kind than was agreed on; stop.")
        if phase == "blind":
            return self._blind(ticket)
        if phase == "opened":
            self._joined().log.opened(ticket)
            return {}
        return self._recover(phase, message, ticket)

    # Keys

    def _hello(self, message: Fields) -> Fields:
        self.book.check_mix(self.parties)
        self._member = Membership(self.job, self.party, self.identity, self.manifest)
        return spoken(*self._member.hello()[1:])

    def _confirm(self, message: Fields) -> Fields:
        hellos = unstacked(message, self.parties, parts=3)
        return spoken(self._membership().confirm([Hello(name, *parts) for name, parts in hellos.items()]))

    def _join(self, message: Fields) -> Fields:
        member = self._membership()
        member.join(only(unstacked(message, self.parties, parts=1)))
        self._masker = Masker(member, self.log)
        return {}

    # A sum of all parties

    def _blind(self, ticket: Ticket) -> Fields:
        wire: Fields = {}
        self._check_about(ticket.round, ticket.tensor)
        for name, (codes, ring, _) in self._values().items():
            masked = self._joined().mask(ticket._replace(tensor=tensor_name(self._meaning, name)), codes, ring)
            wire |= as_wire(name, masked, ring.bits, masked.shape) | {f"{name}.about": self._mark}
        return wire

    # A sum of the parties that remain

    def _recover(self, phase: str, message: Fields, ticket: Ticket) -> Fields:
        """``ticket.tensor`` names the step and the fields that are summed together: ``step: name+name``."""
        step, _, listed = ticket.tensor.rpartition(": ")
        own = self._some_of(listed.split("+"))
        about = self._check_about(ticket.round, step)
        if phase == "advertise":
            masker, ring = self._joined(), next(iter(own.values())).ring
            bound_to = ticket._replace(tensor=tensor_name(self._meaning, *own))
            agree = partial(self.book.agree, about)
            self._recovering = RecoverParty(masker.membership, bound_to, ring, masker.log, agree)
            self._begun = ticket
            return spoken(*self._recovering.advertise()[1:])
        if self._recovering is None or ticket != self._begun:
            # The other parties' masks are for these fields in this order: masking others would expose this party's.
            raise SealError(f"'{self.party}' was asked to {phase:.40} in a sum that it did not begin; stop.")
        return self._go_on(self._recovering, phase, message, own)

    def _go_on(self, party: RecoverParty, phase: str, message: Fields, own: Mapping[str, Coded]) -> Fields:
        names = sorted(self.parties)
        parts_by_party = unstacked(message, names, {"share": 3, "sign": 0}.get(phase, 1))
        if phase == "share":
            return stacked(single(party.share([Advert(name, *parts) for name, parts in parts_by_party.items()])), names)
        if phase == "mask":
            joined = np.concatenate([field.codes.ravel() for field in own.values()])
            masked = party.mask(only(parts_by_party), joined)
            return as_wire("codes", masked, next(iter(own.values())).ring.bits, masked.shape)
        if phase == "sign":
            return spoken(party.sign(tuple(parts_by_party)))
        seeds, keys = (stacked(single(shares), names) for shares in party.reveal(only(parts_by_party)))
        return {f"seed_{n}": t for n, t in seeds.items()} | {f"key_{n}": t for n, t in keys.items()}

    def _some_of(self, names: Sequence[str]) -> dict[str, Coded]:
        coded = self._values()
        if not names or any(name not in coded for name in names):
            raise SealError(f"'{self.party}' holds {sorted(coded)} for a sum, and {list(names)} were asked for; stop.")
        return {name: coded[name] for name in names}

    def _check_about(self, number: int, step: str) -> Subject:
        """Refuse a ticket of another round or step than the one that this party's values come from."""
        about = self._about
        if about is None or not self._coded or (about.round, about.step) != (number, step):
            raise SealError(
                f"'{self.party}' was asked for a sum of step '{step:.40}' in round {number} that no step of its own "
                "gave values to; stop."
            )
        return about

    def _values(self) -> dict[str, Coded]:
        if not self._coded:
            raise SealError(f"'{self.party}' was asked for a sum that no step of its own gave values to; stop.")
        return self._coded

    def _membership(self) -> Membership:
        if self._member is None:
            raise SealError(f"'{self.party}' was asked about keys before it said hello; stop.")
        return self._member

    def _joined(self) -> Masker:
        if self._masker is None:
            raise SealError(f"'{self.party}' was asked for a blinded sum before everybody agreed on keys; stop.")
        return self._masker
