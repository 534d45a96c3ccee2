"""One recoverable sum (:mod:`colonnade.seal.recover`), every message of its five phases carried and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from colonnade.errors import AwayError
from colonnade.seal.codec import as_wire, from_wire
from colonnade.seal.keys import Ticket
from colonnade.seal.pack import Codes
from colonnade.seal.recover import Advert, RecoverOwner, RecoverParty, Reveal
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import Masker

Fields = dict[str, Tensor]
Send = Callable[[Fields, str, str, str], Fields]
"""(fields, sender, receiver, step) -> fields as they arrive, or AwayError."""


class RecoverableSum:
    """One sum over those who answer to its end; a party that is silent in a phase is out of the later ones."""

    def __init__(
        self,
        ends: Mapping[str, Masker],
        tickets: Mapping[str, Ticket],
        about: bytes,
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
        adverts = self.owner.advertise(
            [Advert(n, *_bytes(f)) for n, f in self._up("advertise", lambda n: self._advert(n)).items()]
        )
        told = self._down("adverts", lambda _: _stacked({a.party: a[1:] for a in adverts}, self.names))
        heard = {n: [Advert(p, *parts) for p, parts in self._parts(f).items()] for n, f in told.items()}
        sealed = self._up("share", lambda n: _stacked(_single(self.parties[n].share(heard[n])), self.names))
        boxes = self.owner.share({n: self._only(f) for n, f in sealed.items()})
        given = self._down("shares", lambda n: _stacked(_single(boxes[n]), self.names))
        masked = self._up("mask", lambda n: self._masked(n, given[n], codes[n]))
        self.owner.mask({n: self._codes(f) for n, f in masked.items()})
        survivors = self.owner.announce()
        lists = self._down("survivors", lambda _: {"who": _who(survivors, self.names)})
        signed = self._up("sign", lambda n: _named(self.parties[n].sign(self._listed(lists[n])), "signature"))
        signatures = self.owner.sign({n: _bytes(f)[0] for n, f in signed.items()})
        agreed = self._down("signatures", lambda _: _stacked(_single(signatures), self.names))
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

    def _advert(self, name: str) -> Fields:
        advert = self.parties[name].advertise()
        return (
            _named(advert.key, "key") | _named(advert.commitment, "commitment") | _named(advert.signature, "signature")
        )

    def _masked(self, name: str, given: Fields, codes: Codes) -> Fields:
        masked = self.parties[name].mask(self._only(given), codes)
        return as_wire("codes", masked, self.ring.bits, masked.shape)

    def _codes(self, fields: Fields) -> Codes:
        codes, shape = from_wire("codes", fields, self.ring.bits)
        return codes.reshape(shape)

    def _reveal(self, name: str, agreed: Fields) -> Fields:
        revealed = self.parties[name].reveal(self._only(agreed))
        seeds, keys = (_stacked(_single(shares), self.names) for shares in revealed)
        return {f"seed_{n}": t for n, t in seeds.items()} | {f"key_{n}": t for n, t in keys.items()}

    def _revealed(self, fields: Fields) -> Reveal:
        seeds, keys = (
            self._only({n.removeprefix(kind): tensor for n, tensor in fields.items() if n.startswith(kind)})
            for kind in ("seed_", "key_")
        )
        return Reveal(seeds, keys)

    def _listed(self, fields: Fields) -> tuple[str, ...]:
        return tuple(self.names[int(position)] for position in fields["who"])

    def _parts(self, fields: Fields) -> dict[str, list[bytes]]:
        rest = [[row.numpy().tobytes() for row in value] for name, value in fields.items() if name != "who"]
        return dict(zip(self._listed(fields), map(list, zip(*rest, strict=True)), strict=True))

    def _only(self, fields: Fields) -> dict[str, bytes]:
        return {name: part for name, (part,) in self._parts(fields).items()} if len(fields) > 1 else {}


def _single(said: Mapping[str, bytes]) -> dict[str, tuple[bytes, ...]]:
    return {name: (part,) for name, part in said.items()}


def _stacked(said: Mapping[str, Sequence[bytes]], names: Sequence[str]) -> Fields:
    """What several parties said, part by part, and who they are."""
    if not said:
        return {"who": _who((), names)}
    parts = zip(*said.values(), strict=True)
    stacked = {f"part{k}": torch.stack([_tensor(raw) for raw in part]) for k, part in enumerate(parts)}
    return {"who": _who(list(said), names), **stacked}


def _who(said: Sequence[str], names: Sequence[str]) -> Tensor:
    return torch.tensor([names.index(name) for name in said], dtype=torch.int16)


def _named(raw: bytes, name: str) -> Fields:
    return {name: _tensor(raw)}


def _tensor(raw: bytes) -> Tensor:
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


def _bytes(fields: Fields) -> list[bytes]:
    return [value.numpy().tobytes() for value in fields.values()]
