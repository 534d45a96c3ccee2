"""One blinded party's end: its keys, the values that it holds for a sum, and its answer in every phase.

It has no input or output of its own: whoever reaches the owner, in this process or another, passes phases in and
answers out. What the owner says is believed only where it is signed (:mod:`colonnade.seal.keys`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from colonnade.errors import SealError
from colonnade.seal.blind import Coded
from colonnade.seal.codec import as_wire
from colonnade.seal.keys import Hello, Identity, Membership, Ticket
from colonnade.seal.recover import Advert, RecoverParty
from colonnade.seal.relay import Fields, only, single, spoken, stacked, unstacked
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import Masker, Subject, SumLog

RECOVERING = ("advertise", "share", "mask", "sign", "reveal")
AGREEING = ("hello", "confirm", "join")
"""Phases of the key agreement, which is of no sum."""
PHASES = (*AGREEING, "blind", "opened", *RECOVERING)
UNTOLD = ("hello", "blind", "opened", "advertise")
"""Phases in which a party reads nothing."""


def tensor_name(step: str, field: str, ring: Ring, bound: float) -> str:
    """What a mask is for, ring and scale included: parties that do not agree on them share no mask."""
    return f"{step}/{field}/{ring.bits}/{bound!r}"


class BlindedEnd:
    """A party among others whose sums are blinded."""

    def __init__(
        self, job: bytes, party: str, parties: Sequence[str], identity: Identity, manifest: Mapping[str, bytes]
    ) -> None:
        self.job, self.party, self.parties = job, party, list(parties)
        self.identity, self.manifest = identity, manifest
        self.log = SumLog()  # of the whole job, over all key agreements
        self._member: Membership | None = None
        self._masker: Masker | None = None
        self._coded: dict[str, Coded] = {}
        self._about: Subject | None = None
        self._recovering: RecoverParty | None = None

    def hold(self, coded: dict[str, Coded], about: Subject) -> None:
        """Take the values of the next sum, and what it is about."""
        self._coded, self._about = coded, about

    def answer(self, phase: str, told: Fields, ticket: Ticket | None = None) -> Fields:
        """What this party says in a phase, after what it was told; ``ticket`` says of which sum it is."""
        if phase in AGREEING:
            return {"hello": self._hello, "confirm": self._confirm, "join": self._join}[phase](told)
        if phase not in PHASES or ticket is None:
            raise SealError(f"'{self.party}' was asked for the phase '{phase:.40}' of a sum, which there is not; stop.")
        if phase == "blind":
            return self._blind(ticket)
        if phase == "opened":
            self._joined().log.opened(ticket)
            return {}
        return self._recover(phase, told, ticket)

    # Keys

    def _hello(self, told: Fields) -> Fields:
        self._member = Membership(self.job, self.party, self.identity, self.manifest)
        return spoken(*self._member.hello()[1:])

    def _confirm(self, told: Fields) -> Fields:
        said = unstacked(told, self.parties, parts=3)
        return spoken(self._membership().confirm([Hello(name, *parts) for name, parts in said.items()]))

    def _join(self, told: Fields) -> Fields:
        member = self._membership()
        member.join(only(unstacked(told, self.parties, parts=1)))
        self._masker = Masker(member, self.log)
        return {}

    # A sum of all

    def _blind(self, ticket: Ticket) -> Fields:
        wire: Fields = {}
        for name, (codes, ring, bound) in self._held().items():
            own = ticket._replace(tensor=tensor_name(ticket.tensor, name, ring, bound))
            masked = self._joined().mask(own, codes, ring)
            wire |= as_wire(name, masked, ring.bits, masked.shape) | {f"{name}.bound": torch.tensor(bound)}
        return wire

    # A sum of those who remain

    def _recover(self, phase: str, told: Fields, ticket: Ticket) -> Fields:
        """``ticket.tensor`` names the step and the fields that are summed in one: ``step: name+name``."""
        step, _, listed = ticket.tensor.rpartition(": ")
        own = self._some_of(listed.split("+"))
        if phase == "advertise":
            masker, ring = self._joined(), next(iter(own.values())).ring
            tensor = "+".join(tensor_name(step, name, one.ring, one.bound) for name, one in own.items())
            about = None if self._about is None else self._about._replace(step=ticket.tensor)
            self._recovering = RecoverParty(masker.membership, ticket._replace(tensor=tensor), ring, masker.log, about)
            return spoken(*self._recovering.advertise()[1:])
        if self._recovering is None:
            raise SealError(f"'{self.party}' was asked to {phase:.40} in a sum that it did not begin; stop.")
        return self._go_on(self._recovering, phase, told, own)

    def _go_on(self, party: RecoverParty, phase: str, told: Fields, own: Mapping[str, Coded]) -> Fields:
        names = sorted(self.parties)
        said = unstacked(told, names, {"share": 3, "sign": 0}.get(phase, 1))
        if phase == "share":
            return stacked(single(party.share([Advert(name, *parts) for name, parts in said.items()])), names)
        if phase == "mask":
            joined = np.concatenate([one.codes.ravel() for one in own.values()])
            masked = party.mask(only(said), joined)
            return as_wire("codes", masked, next(iter(own.values())).ring.bits, masked.shape)
        if phase == "sign":
            return spoken(party.sign(tuple(said)))
        seeds, keys = (stacked(single(shares), names) for shares in party.reveal(only(said)))
        return {f"seed_{n}": t for n, t in seeds.items()} | {f"key_{n}": t for n, t in keys.items()}

    def _some_of(self, names: Sequence[str]) -> dict[str, Coded]:
        held = self._held()
        if not names or any(name not in held for name in names):
            raise SealError(f"'{self.party}' holds {sorted(held)} for a sum, and {list(names)} were asked for; stop.")
        return {name: held[name] for name in names}

    def _held(self) -> dict[str, Coded]:
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
