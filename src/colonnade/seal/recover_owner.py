"""The owner's part of one recoverable sum (:mod:`colonnade.seal.recover`), with the messages of its five phases.

Every message goes through ``send``, so that it is carried to its receiver and counted in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from colonnade.errors import AwayError, MessageError, SealError
from colonnade.seal import shamir
from colonnade.seal.codec import from_wire
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.pack import Codes
from colonnade.seal.recover import Advert, RecoverOwner, Reveal
from colonnade.seal.relay import Fields, heard, only, single, stacked, unstacked
from colonnade.seal.ring import Ring

ADVERT, SIGNATURE = (32, 32, 64), (64,)  # bytes: key, commitment and signature; a signature
BOX = 12 + 2 * shamir.VALUE_BYTES + 16  # bytes: a nonce, shares of key and seed, a tag
Send = Callable[[Fields, str, str, str], Fields]
"""(fields, sender, receiver, step) -> fields as they arrive, or AwayError."""


class Answering(Protocol):
    """The part of a party's end that a recoverable sum uses."""

    def answer(self, phase: str, told: Fields, ticket: Ticket | None = None) -> Fields:
        """The party's reply in a phase."""


class SumSession(NamedTuple):
    """The sides of blinded sums after their key agreement: the parties' ends and public keys, and the owner."""

    ends: Mapping[str, Answering]
    manifest: Mapping[str, bytes]
    roster: bytes
    owner: str


class RecoverableSum:
    """One sum over the parties that answer in every phase; one that is absent in a phase is left out of later ones."""

    def __init__(
        self,
        session: SumSession,
        asked: Ticket,
        ticket: Ticket,
        ring: Ring,
        send: Send,
        *,
        present: Sequence[str] | None = None,
        over: tuple[str, ...] | None = None,
    ) -> None:
        """``asked`` names step and fields; ``ticket`` also binds rings and scales, as every party computes it.

        ``present`` are the parties to ask first, all of them if None. ``over`` are the parties that must remain; with
        None it is enough that more than two thirds do.
        """
        self.names = sorted(session.ends)
        self.ends, self.asked, self.ring, self.owner_name, self.send = session.ends, asked, ring, session.owner, send
        self.owner = RecoverOwner(session.manifest, session.roster, ticket, ring)
        self.present = list(self.names if present is None else present)
        self.over = over

    def run(self) -> tuple[Codes, tuple[str, ...]]:
        """The sum of the survivors' codes, and the survivors' names."""
        keys = self._up("advertise", {})
        adverts = self.owner.advertise([Advert(n, *heard(f, ADVERT, n)) for n, f in keys.items()])
        all_adverts = self._down("adverts", lambda _: self._stacked({a.party: a[1:] for a in adverts}))
        sealed = self._up("share", all_adverts)
        boxes = self.owner.share({n: self._boxes(n, f, BOX) for n, f in sealed.items()})
        shares = self._down("shares", lambda n: self._stacked(single(boxes[n])))
        masked = self._up("mask", shares)
        self.owner.mask({n: self._codes(n, f) for n, f in masked.items()})
        survivors = self.owner.announce()
        lists = self._down("survivors", lambda _: self._stacked(dict.fromkeys(survivors, ())))
        signed = self._up("sign", lists)
        signatures = self.owner.sign({n: heard(f, SIGNATURE, n)[0] for n, f in signed.items()})
        reveals = self._up("reveal", self._down("signatures", lambda _: self._stacked(single(signatures))))
        return self.owner.open({n: self._revealed(n, f) for n, f in reveals.items()}), survivors

    def _check_present(self, phase: str) -> None:
        """Give a sum up that lacks a required party, so that it can be asked again.

        That is only possible before parties sign the list of survivors. Once all masked messages have arrived, the
        threshold of parties is enough to open their sum.
        """
        absent = [name for name in self.over or () if name not in self.present]
        if absent and (phase in ("advertise", "share", "mask") or len(self.present) < self.owner.threshold):
            raise AwayError(f"'{absent[0]}' fell away within a sum that needs everybody who began it.", absent[0])

    def _up(self, phase: str, told: Mapping[str, Fields]) -> dict[str, Fields]:
        def exchange(name: str) -> Fields:
            reply = self.ends[name].answer(phase, told.get(name, {}), self.asked)
            return self.send(reply, name, self.owner_name, phase)

        replies = self._all(exchange)
        self._check_present(phase)
        return replies

    def _down(self, phase: str, say: Callable[[str], Fields]) -> dict[str, Fields]:
        return self._all(lambda name: self.send(say(name), self.owner_name, name, phase))

    def _all(self, exchange: Callable[[str], Fields]) -> dict[str, Fields]:
        arrived = {}
        for name in list(self.present):
            try:
                arrived[name] = exchange(name)
            except AwayError:
                self.present.remove(name)
        return arrived

    def _codes(self, party: str, fields: Fields) -> Codes:
        with _said_by(party, "codes"):
            codes, shape = from_wire("codes", fields, self.ring.bits)
            return codes.reshape(shape)

    def _revealed(self, party: str, fields: Fields) -> Reveal:
        def shares(kind: str) -> dict[str, bytes]:
            own = {name.removeprefix(kind): tensor for name, tensor in fields.items() if name.startswith(kind)}
            return self._boxes(party, own, shamir.VALUE_BYTES)

        return Reveal(shares("seed_"), shares("key_"))

    def _stacked(self, said: Mapping[str, Sequence[bytes]]) -> Fields:
        return stacked(said, self.names)

    def _boxes(self, party: str, fields: Fields, length: int) -> dict[str, bytes]:
        with _said_by(party, "shares"):
            shares = only(unstacked(fields, self.names, parts=1))
            if wrong := [len(share) for share in shares.values() if len(share) != length]:
                raise SealError(f"a share of {wrong[0]} bytes came, and {length} were expected.")
            return shares


@contextmanager
def _said_by(party: str, what: str) -> Iterator[None]:
    """Add the party and the field to an error about a message."""
    try:
        yield
    except (MessageError, SealError) as error:
        raise type(error)(f"'{party}' sent '{what}' of a blinded sum that are none: {error}") from error
