"""The owner's part of one recoverable sum (:mod:`colonnade.seal.recover`), with the messages of its five phases.

Every message goes through ``send``, so that it is carried to its receiver and counted in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar

from colonnade.errors import AwayError, MessageError, SealError
from colonnade.seal import shamir
from colonnade.seal.codec import from_wire
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.pack import Codes
from colonnade.seal.recover import Advert, RecoverOwner, Reveal
from colonnade.seal.relay import Fields, forms_of, heard, only, single, stacked, unstacked
from colonnade.seal.ring import Ring

ADVERT, SIGNATURE = (32, 32, 64), (64,)  # bytes: key, commitment and signature; a signature
BOX = 12 + 2 * shamir.VALUE_BYTES + 16  # bytes: a nonce, shares of key and seed, a tag
T = TypeVar("T")
Send = Callable[[Fields, str, str, str], Fields]
"""(fields, sender, receiver, step) -> fields as they arrive, or AwayError."""


class Answering(Protocol):
    """The part of a party's end that a recoverable sum uses."""

    def answer(self, phase: str, message: Fields, ticket: Ticket | None = None) -> Fields:
        """The party's reply in a phase."""


class SumSession(NamedTuple):
    """The sides of blinded sums after their key agreement: the parties' ends and public keys, and the owner."""

    ends: Mapping[str, Answering]
    manifest: Mapping[str, bytes]
    roster: bytes
    owner: str


class SumTicket(NamedTuple):
    """One recoverable sum of a session."""

    asked: Ticket
    """The owner's ticket, which names step and fields."""
    ticket: Ticket
    """The ticket that also binds rings and scales, as every party computes it."""
    ring: Ring
    size: int | None = None
    """How many codes every party masks, if that is known."""


class RecoverableSum:
    """One sum over the parties that answer in every phase; one that is absent in a phase is left out of later ones."""

    def __init__(
        self,
        session: SumSession,
        sum: SumTicket,
        send: Send,
        *,
        present: Sequence[str] | None = None,
        over: tuple[str, ...] | None = None,
    ) -> None:
        """``present`` are the parties to ask first, all of them if None.

        ``over`` are the parties that must remain; with None it is enough that more than two thirds do.
        """
        self.names, self.ends, self.owner_name = sorted(session.ends), session.ends, session.owner
        self.asked, self.ring, self.size, self.send = sum.asked, sum.ring, sum.size, send
        self.owner = RecoverOwner(session.manifest, session.roster, sum.ticket, sum.ring)
        self.present = list(self.names if present is None else present)
        self.over = over

    def run(self) -> tuple[Codes, tuple[str, ...]]:
        """The sum of the survivors' codes, and the survivors' names."""
        adverts = self.owner.advertise(list(self._up("advertise", {}, self.advert).values()))
        all_adverts = self._down("adverts", lambda _: self._stacked({a.party: a[1:] for a in adverts}))
        boxes = self.owner.share(self._up("share", all_adverts, self.shared))
        shares = self._down("shares", lambda n: self._stacked(single(boxes[n])))
        self.owner.mask(self._up("mask", shares, self.masked))
        survivors = self.owner.announce()
        lists = self._down("survivors", lambda _: self._stacked(dict.fromkeys(survivors, ())))
        signatures = self.owner.sign(self._up("sign", lists, self.signed))
        all_signatures = self._down("signatures", lambda _: self._stacked(single(signatures)))
        return self.owner.open(self._up("reveal", all_signatures, self.revealed)), survivors

    # One party's reply in a phase, if it has the expected form; else an error that names the party.

    def advert(self, party: str, fields: Fields) -> Advert:
        """The party's key for this sum, and the commitment to its seed."""
        return Advert(party, *heard(fields, ADVERT, party))

    def shared(self, party: str, fields: Fields) -> dict[str, bytes]:
        """The party's encrypted shares for the others."""
        boxes = self._boxes(party, "shares", fields, BOX)
        self.owner.check_shared(party, boxes)
        return boxes

    def masked(self, party: str, fields: Fields) -> Codes:
        """The party's masked message."""
        with _said_by(party, "codes"):
            codes, shape = from_wire("codes", fields, self.ring.bits)
            expected = shape if self.size is None else (self.size,)
            if len(fields) > 2 or shape != expected:
                raise SealError(
                    f"{forms_of(fields)} of the shape {shape} came, and {expected} of 'codes' was expected."
                )
            return codes.reshape(shape)

    def signed(self, party: str, fields: Fields) -> bytes:
        """The party's signature of the list of survivors."""
        return heard(fields, SIGNATURE, party)[0]

    def revealed(self, party: str, fields: Fields) -> Reveal:
        """The party's shares of seeds and keys."""
        kinds = ("seed_", "key_")
        own = {kind: {n.removeprefix(kind): t for n, t in fields.items() if n.startswith(kind)} for kind in kinds}
        if sum(map(len, own.values())) < len(fields):
            raise MessageError(f"'{party}' was to say shares of seeds and keys; {forms_of(fields)} came.")
        reveal = Reveal(*(self._boxes(party, f"{kind}*", own[kind], shamir.VALUE_BYTES) for kind in kinds))
        self.owner.check_revealed(party, reveal)
        return reveal

    def _check_present(self, phase: str) -> None:
        """Give a sum up that lacks a required party, so that it can be asked again.

        That is only possible before parties sign the list of survivors. Once all masked messages have arrived, the
        threshold of parties is enough to open their sum.
        """
        absent = [name for name in self.over or () if name not in self.present]
        if absent and (phase in ("advertise", "share", "mask") or len(self.present) < self.owner.threshold):
            raise AwayError(f"'{absent[0]}' fell away within a sum that needs everybody who began it.", absent[0])

    def _up(self, phase: str, messages: Mapping[str, Fields], read: Callable[[str, Fields], T]) -> dict[str, T]:
        def exchange(name: str) -> Fields:
            reply = self.ends[name].answer(phase, messages.get(name, {}), self.asked)
            return self.send(reply, name, self.owner_name, phase)

        replies = self._all(exchange)
        self._check_present(phase)
        return {name: read(name, fields) for name, fields in replies.items()}

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

    def _stacked(self, said: Mapping[str, Sequence[bytes]]) -> Fields:
        return stacked(said, self.names)

    def _boxes(self, party: str, what: str, fields: Fields, length: int) -> dict[str, bytes]:
        with _said_by(party, what):
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
