"""One recoverable sum (:mod:`colonnade.seal.recover`), every message of its five phases carried and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from colonnade.errors import AwayError
from colonnade.seal.codec import as_wire, from_wire
from colonnade.seal.keys import Ticket
from colonnade.seal.pack import Codes
from colonnade.seal.recover import Advert, RecoverOwner, RecoverParty, Reveal
from colonnade.seal.relay import Fields, Said, heard, only, single, spoken, stacked, unstacked
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import Masker, Subject

Send = Callable[[Fields, str, str, str], Fields]
"""(fields, sender, receiver, step) -> fields as they arrive, or AwayError."""


class RecoverableSum:
    """One sum over those who answer to its end; a party that is silent in a phase is out of the later ones."""

    def __init__(
        self,
        ends: Mapping[str, Masker],
        tickets: Mapping[str, Ticket],
        about: Subject,
        ring: Ring,
        owner: str,
        send: Send,
    ) -> None:
        """``tickets`` has one per party and one for the owner: they are equal if all agree on rings and scales."""
        self.names = sorted(ends)
        self.ring, self.owner_name, self.send = ring, owner, send
        known = ends[self.names[0]].membership
        self.owner = RecoverOwner(known.manifest, known.roster, tickets[owner], ring)
        self.parties = {
            name: RecoverParty(end.membership, tickets[name], ring, end.log, about) for name, end in ends.items()
        }
        self.here = list(self.names)

    def run(self, codes: Mapping[str, Codes]) -> tuple[Codes, tuple[str, ...]]:
        """The sum of the survivors' codes, and who they are."""
        mine = self._up("advertise", lambda n: spoken(*self.parties[n].advertise()[1:]))
        adverts = self.owner.advertise([Advert(n, *heard(f)) for n, f in mine.items()])
        told = self._down("adverts", lambda _: self._stacked({a.party: a[1:] for a in adverts}))
        known = {n: [Advert(p, *parts) for p, parts in self._unstacked(f).items()] for n, f in told.items()}
        sealed = self._up("share", lambda n: self._stacked(single(self.parties[n].share(known[n]))))
        boxes = self.owner.share({n: only(self._unstacked(f)) for n, f in sealed.items()})
        given = self._down("shares", lambda n: self._stacked(single(boxes[n])))
        masked = self._up("mask", lambda n: self._masked(n, given[n], codes[n]))
        self.owner.mask({n: self._codes(f) for n, f in masked.items()})
        survivors = self.owner.announce()
        lists = self._down("survivors", lambda _: self._stacked(dict.fromkeys(survivors, ())))
        signed = self._up("sign", lambda n: spoken(self.parties[n].sign(tuple(self._unstacked(lists[n])))))
        signatures = self.owner.sign({n: heard(f)[0] for n, f in signed.items()})
        agreed = self._down("signatures", lambda _: self._stacked(single(signatures)))
        reveals = self._up("reveal", lambda n: self._reveal(n, agreed[n]))
        return self.owner.open({n: self._revealed(f) for n, f in reveals.items()}), survivors

    def _up(self, step: str, say: Callable[[str], Fields]) -> dict[str, Fields]:
        return self._all(lambda name: self.send(say(name), name, self.owner_name, step))

    def _down(self, step: str, say: Callable[[str], Fields]) -> dict[str, Fields]:
        return self._all(lambda name: self.send(say(name), self.owner_name, name, step))

    def _all(self, exchange: Callable[[str], Fields]) -> dict[str, Fields]:
        heard = {}
        for name in list(self.here):
            try:
                heard[name] = exchange(name)
            except AwayError:
                self.here.remove(name)
        return heard

    def _masked(self, name: str, given: Fields, codes: Codes) -> Fields:
        masked = self.parties[name].mask(only(self._unstacked(given)), codes)
        return as_wire("codes", masked, self.ring.bits, masked.shape)

    def _codes(self, fields: Fields) -> Codes:
        codes, shape = from_wire("codes", fields, self.ring.bits)
        return codes.reshape(shape)

    def _reveal(self, name: str, agreed: Fields) -> Fields:
        seeds, keys = (
            self._stacked(single(shares)) for shares in self.parties[name].reveal(only(self._unstacked(agreed)))
        )
        return {f"seed_{n}": t for n, t in seeds.items()} | {f"key_{n}": t for n, t in keys.items()}

    def _revealed(self, fields: Fields) -> Reveal:
        def shares(kind: str) -> dict[str, bytes]:
            own = {name.removeprefix(kind): tensor for name, tensor in fields.items() if name.startswith(kind)}
            return only(self._unstacked(own))

        return Reveal(shares("seed_"), shares("key_"))

    def _stacked(self, said: Mapping[str, Sequence[bytes]]) -> Fields:
        return stacked(said, self.names)

    def _unstacked(self, fields: Fields) -> Said:
        return unstacked(fields, self.names)
