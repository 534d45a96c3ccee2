"""One recoverable sum (:mod:`colonnade.seal.recover`), every message of its five phases carried and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from colonnade.errors import AwayError, MessageError, SealError
from colonnade.seal import shamir
from colonnade.seal.codec import from_wire
from colonnade.seal.keys import Ticket
from colonnade.seal.pack import Codes
from colonnade.seal.recover import Advert, RecoverOwner, Reveal
from colonnade.seal.relay import Fields, heard, only, single, stacked, unstacked
from colonnade.seal.ring import Ring

ADVERT, SIGNATURE = (32, 32, 64), (64,)  # bytes: key, commitment and signature; a signature
BOX = 12 + 2 * shamir.VALUE_BYTES + 16  # bytes: a nonce, shares of key and seed, a tag
Send = Callable[[Fields, str, str, str], Fields]
"""(fields, sender, receiver, step) -> fields as they arrive, or AwayError."""


class Answering(Protocol):
    """All that is asked of a party's end here."""

    def answer(self, phase: str, told: Fields, ticket: Ticket | None = None) -> Fields:
        """What the party says in a phase."""


class RecoverableSum:
    """One sum over those who answer to its end; a party that is silent in a phase is out of the later ones."""

    def __init__(
        self,
        ends: Mapping[str, Answering],
        manifest: Mapping[str, bytes],
        roster: bytes,
        asked: Ticket,
        ticket: Ticket,
        ring: Ring,
        owner: str,
        send: Send,
    ) -> None:
        """``asked`` names step and fields; ``ticket`` is what all make of it who agree on rings and scales."""
        self.names = sorted(ends)
        self.ends, self.asked, self.ring, self.owner_name, self.send = ends, asked, ring, owner, send
        self.owner = RecoverOwner(manifest, roster, ticket, ring)
        self.here = list(self.names)
        self.over: tuple[str, ...] | None = None  # who must remain; None for enough of them
        self.size: int | None = None  # how many codes each sends, if that is known

    def run(self) -> tuple[Codes, tuple[str, ...]]:
        """The sum of the survivors' codes, and who they are."""
        mine = self._up("advertise", {})
        adverts = self.owner.advertise([Advert(n, *heard(f, ADVERT, n)) for n, f in mine.items()])
        told = self._down("adverts", lambda _: self._stacked({a.party: a[1:] for a in adverts}))
        sealed = self._up("share", told)
        boxes = self.owner.share({n: self._boxes(n, f, BOX) for n, f in sealed.items()})
        given = self._down("shares", lambda n: self._stacked(single(boxes[n])))
        masked = self._up("mask", given)
        self.owner.mask({n: self._codes(n, f) for n, f in masked.items()})
        survivors = self.owner.announce()
        lists = self._down("survivors", lambda _: self._stacked(dict.fromkeys(survivors, ())))
        signed = self._up("sign", lists)
        signatures = self.owner.sign({n: heard(f, SIGNATURE, n)[0] for n, f in signed.items()})
        reveals = self._up("reveal", self._down("signatures", lambda _: self._stacked(single(signatures))))
        return self.owner.open({n: self._revealed(n, f) for n, f in reveals.items()}), survivors

    def _check_here(self, phase: str) -> None:
        """Give a sum up that lacks a party before anybody signs who remains, so that it can be asked again.

        When all masked messages are there, enough parties open their sum.
        """
        gone = [name for name in self.over or () if name not in self.here]
        if gone and (phase in ("advertise", "share", "mask") or len(self.here) < self.owner.threshold):
            raise AwayError(f"'{gone[0]}' fell away within a sum that needs everybody who began it.", gone[0])

    def _up(self, phase: str, told: Mapping[str, Fields]) -> dict[str, Fields]:
        def exchange(name: str) -> Fields:
            said = self.ends[name].answer(phase, told.get(name, {}), self.asked)
            return self.send(said, name, self.owner_name, phase)

        said = self._all(exchange)
        self._check_here(phase)
        return said

    def _down(self, phase: str, say: Callable[[str], Fields]) -> dict[str, Fields]:
        return self._all(lambda name: self.send(say(name), self.owner_name, name, phase))

    def _all(self, exchange: Callable[[str], Fields]) -> dict[str, Fields]:
        heard = {}
        for name in list(self.here):
            try:
                heard[name] = exchange(name)
            except AwayError:
                self.here.remove(name)
        return heard

    def _codes(self, party: str, fields: Fields) -> Codes:
        with _said_by(party, "codes"):
            codes, shape = from_wire("codes", fields, self.ring.bits)
            if self.size is not None and shape != (self.size,):
                raise SealError(f"codes of the shape {shape} came, and {self.size} were expected.")
            return codes.reshape(shape)

    def _revealed(self, party: str, fields: Fields) -> Reveal:
        def shares(kind: str) -> dict[str, bytes]:
            own = {name.removeprefix(kind): tensor for name, tensor in fields.items() if name.startswith(kind)}
            return self._boxes(party, own, shamir.VALUE_BYTES)

        if more := [name for name in fields if not name.startswith(("seed_", "key_"))]:
            raise SealError(f"'{party}' sent {len(more)} fields beside its shares of seeds and keys.")
        return Reveal(shares("seed_"), shares("key_"))

    def _stacked(self, said: Mapping[str, Sequence[bytes]]) -> Fields:
        return stacked(said, self.names)

    def _boxes(self, party: str, fields: Fields, length: int) -> dict[str, bytes]:
        with _said_by(party, "shares"):
            said = only(unstacked(fields, self.names, parts=1))
            if wrong := [len(one) for one in said.values() if len(one) != length]:
                raise SealError(f"a share of {wrong[0]} bytes came, and {length} were expected.")
            return said


@contextmanager
def _said_by(party: str, what: str) -> Iterator[None]:
    """Let an error name the party and the field that it is about."""
    try:
        yield
    except (MessageError, SealError) as error:
        raise type(error)(f"'{party}' sent '{what}' of a blinded sum that are none: {error}") from error
