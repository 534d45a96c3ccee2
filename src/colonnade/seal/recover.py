"""A secure sum that succeeds although parties drop out: the double masking of Bonawitz et al. (CCS 2017).

For one ticket each party makes a fresh X25519 key and a random seed, and gives every peer a Shamir share of both. Its
message is ``codes + stream(seed) + sum of +-stream(pair)``. The owner announces the *survivors*, whose message arrived.
Then the parties reveal shares of *either* a party's seed (it survived: its message counts, and its pair masks cancel)
*or* its key (it dropped out: its pair masks are removed). They never reveal both, so no message is ever unmasked:

    advertise -> share -> mask -> (owner) announce -> sign -> reveal -> (owner) open

The owner relays all messages and may lie. Keys are signed, shares are encrypted, and a party reveals shares only after
``t`` of ``K`` parties signed the same list of survivors as itself. Let ``c`` parties be corrupt and help the owner.

* Two lists of one ticket have ``t`` signers each, so at least ``2t - K`` signed both, and an honest party signs one.
  With ``c <= 2t - K - 1`` there is one list. The same holds for two sums of a person over different parties: a party
  that signed both has broken the rules of its own book (:mod:`colonnade.seal.sum_book`).
* Honest parties reveal shares of a survivor's seed, never of its key, and ``c < t`` shares of the key reveal nothing.
  So masks between honest survivors stay, and only their sum can be read. With ``c <= t - 2`` they are two or more.

So a party's values are hidden in the sum with another honest one's as long as ``c <= min(2t - K - 1, t - 2)``: one of
4, five of 14. The seed's hash is advertised, too, so wrong shares are noticed and cannot give a wrong sum.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from colonnade.errors import SealError
from colonnade.seal import shamir
from colonnade.seal.key_agreement import PROTOCOL, Membership, Ticket, agree, expand
from colonnade.seal.masks import shift
from colonnade.seal.pack import Codes
from colonnade.seal.ring import Ring
from colonnade.seal.secure_sum import SumLog, check_messages
from colonnade.signatures import pack, verify

PHASES = ("advertise", "share", "mask", "sign", "reveal")
_TRIED = 2000  # sets of shares, to find whose does not fit


class Advert(NamedTuple):
    """A party's key for one ticket and the hash of its seed, signed by its identity."""

    party: str
    key: bytes
    commitment: bytes
    signature: bytes

    def signed(self, roster: bytes, ticket: Ticket) -> bytes:
        """The bytes that the signature covers."""
        return pack(PROTOCOL, "advert", roster, ticket.packed(), self.party, self.key, self.commitment)


class Reveal(NamedTuple):
    """One party's shares of every survivor's seed and of every other party's key."""

    seeds: dict[str, bytes]
    keys: dict[str, bytes]


class _Sum:
    """The facts that party and owner share: the parties of the sum, and how masks and signatures are computed."""

    def __init__(self, manifest: Mapping[str, bytes], roster: bytes, ticket: Ticket, ring: Ring) -> None:
        self.threshold = shamir.threshold(len(manifest))
        self.manifest, self.roster, self.ticket, self.ring = dict(manifest), roster, ticket, ring
        self.names = tuple(sorted(manifest))
        self.adverts: dict[str, Advert] = {}

    def _enough(self, names: Sequence[str], known: Sequence[str], what: str) -> None:
        if len(set(names)) != len(names) or not set(names) <= set(known):
            raise SealError(f"{what} of {list(names)} came; expected some of {sorted(known)}, each once: stop.")
        if len(names) < self.threshold:
            raise SealError(f"{what} of {len(names)} parties came; {self.threshold} are needed: drop this sum.")

    def _check_adverts(self, adverts: Sequence[Advert]) -> dict[str, Advert]:
        self._enough([advert.party for advert in adverts], self.names, "adverts")
        for advert in adverts:
            message = advert.signed(self.roster, self.ticket)
            verify(self.manifest[advert.party], message, advert.signature, f"the advert of {advert.party!r}")
        if len({advert.key for advert in adverts}) != len(adverts):
            raise SealError("two parties advertised the same key; each must draw its own: stop.")
        return {advert.party: advert for advert in adverts}

    def _check_signatures(self, survivors: Sequence[str], signatures: Mapping[str, bytes]) -> None:
        self._enough(list(signatures), survivors, "signatures")
        for name, signature in signatures.items():
            verify(self.manifest[name], self._list(survivors), signature, f"the survivors by {name!r}")

    def _list(self, survivors: Sequence[str]) -> bytes:
        return pack(PROTOCOL, "survivors", self.roster, self.ticket.packed(), *survivors)

    def _pair(self, private: X25519PrivateKey, mine: str, peer: str) -> bytes:
        secret = agree(private, self.adverts[peer].key, self.roster, repr(peer))
        return expand(secret, "recover", self.ticket.packed(), *sorted((mine, peer)))

    def _self(self, seed: bytes, party: str) -> bytes:
        return expand(seed, "self", self.roster, self.ticket.packed(), party)

    def _commit(self, seed: bytes, party: str) -> bytes:
        return hashlib.sha256(pack(PROTOCOL, "seed", self.roster, self.ticket.packed(), party, seed)).digest()


class RecoverParty(_Sum):
    """One party's end of one recoverable sum; it uses up the ticket, and the phases must come once each, in order."""

    def __init__(
        self,
        membership: Membership,
        ticket: Ticket,
        ring: Ring,
        log: SumLog | None = None,
        agree: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        """``agree`` refuses a list of survivors that this party must not sign."""
        super().__init__(membership.manifest, membership.roster, ticket, ring)
        self.agree = agree
        self.membership, self.party = membership, membership.party
        self.log = SumLog() if log is None else log
        self.log.begin(ticket, self.roster, self.names)
        for peer in membership.peers:
            membership.spend(ticket, peer)
        self._key, self._seed = X25519PrivateKey.generate(), os.urandom(32)
        self._held: dict[str, bytes] = {}  # by the party whose secret it is: a share of its key, then one of its seed
        self._survivors: tuple[str, ...] = ()
        self._next = "advertise"

    def _turn(self, phase: str) -> None:
        if phase != self._next:
            raise SealError(f"{self.party!r} was asked to {phase}, but comes to {self._next!r} next; keep the order.")

    def advertise(self) -> Advert:
        """This party's key and commitment of this sum, for all parties."""
        self._turn("advertise")
        self._next = "share"
        commitment = self._commit(self._seed, self.party)
        advert = Advert(self.party, self._key.public_key().public_bytes_raw(), commitment, b"")
        self._mine = advert._replace(signature=self.membership.identity.sign(advert.signed(self.roster, self.ticket)))
        return self._mine

    def share(self, adverts: Sequence[Advert]) -> dict[str, bytes]:
        """Shares of key and seed for every peer that advertised, each encrypted for that peer."""
        self._turn("share")
        checked = self._check_adverts(adverts)
        if checked.get(self.party) != self._mine:
            raise SealError(f"the advert of {self.party!r} is missing or altered; the relay swapped it: stop.")
        keys = shamir.split(self._key.private_bytes_raw(), len(self.names), self.threshold)
        seeds = shamir.split(self._seed, len(self.names), self.threshold)
        shares = {n: key.raw() + seed.raw() for n, key, seed in zip(self.names, keys, seeds, strict=True)}
        self._held[self.party] = shares[self.party]
        self.adverts, self._next = checked, "mask"
        peers = checked.keys() - {self.party}
        return {peer: self.membership.encrypt(peer, self.ticket, shares[peer]) for peer in peers}

    def mask(self, sealed: Mapping[str, bytes], codes: Codes) -> Codes:
        """The masked message, if enough peers sent shares; there is no pair mask with a peer that sent none."""
        self._turn("mask")
        self._enough([*sealed, self.party], list(self.adverts), "shares")
        self.ring.check(codes, f"the tensor {self.ticket.tensor!r}")
        shares = {peer: self.membership.decrypt(peer, self.ticket, box) for peer, box in sealed.items()}
        message = np.array(codes, order="C").reshape(-1)
        shift(message, self._self(self._seed, self.party), self.ring, plus=True)
        for peer in shares:
            shift(message, self._pair(self._key, self.party, peer), self.ring, plus=self.party < peer)
        self._held, self._next = self._held | shares, "sign"
        return self.ring.reduce(message).reshape(codes.shape)

    def sign(self, survivors: Sequence[str]) -> bytes:
        """Sign the owner's list of survivors; there is one list per ticket, and it is signed once."""
        if self._survivors and tuple(survivors) != self._survivors:
            raise SealError(f"survivors {list(survivors)} came after {list(self._survivors)} were signed: stop.")
        self._turn("sign")
        self._enough(survivors, list(self._held), "survivors")
        if self.party not in survivors or list(survivors) != sorted(survivors):
            raise SealError(f"survivors {list(survivors)} lack {self.party!r} or are not in name order: stop.")
        if self.agree is not None:
            self.agree(survivors)
        self._survivors, self._next = tuple(survivors), "reveal"
        return self._signature()

    def _signature(self) -> bytes:
        return self.membership.identity.sign(self._list(self._survivors))

    def reveal(self, signatures: Mapping[str, bytes]) -> Reveal:
        """One share for every party: of a survivor's seed, or of another party's key, never both."""
        self._turn("reveal")
        self._check_signatures(self._survivors, {self.party: self._signature(), **signatures})
        self._next = "the next sum"
        self.log.opened(self.ticket)
        seeds = {name: self._held[name][shamir.VALUE_BYTES :] for name in self._survivors}
        keys = {name: share[: shamir.VALUE_BYTES] for name, share in self._held.items() if name not in seeds}
        return Reveal(seeds, keys)


class RecoverOwner(_Sum):
    """The owner's end of one recoverable sum: it relays, announces the survivors, and opens the sum of their codes."""

    _messages: Mapping[str, Codes] = {}
    _sharers: tuple[str, ...] = ()

    def advertise(self, adverts: Sequence[Advert]) -> list[Advert]:
        """The adverts to send to all parties that advertised."""
        self.adverts = self._check_adverts(adverts)
        return list(adverts)

    def share(self, sealed: Mapping[str, Mapping[str, bytes]]) -> dict[str, dict[str, bytes]]:
        """Each sender's boxes, sorted by receiver."""
        self._enough(list(sealed), list(self.adverts), "shares")
        for by, boxes in sealed.items():
            self.check_shared(by, boxes)
        self._sharers = tuple(sorted(sealed))
        return {to: {by: sealed[by][to] for by in self._sharers if by != to} for to in self._sharers}

    def check_shared(self, by: str, boxes: Mapping[str, bytes]) -> None:
        """Refuse one party's boxes unless they are for exactly the other parties that advertised."""
        if boxes.keys() != self.adverts.keys() - {by}:
            raise SealError(f"{by!r} shared with {sorted(boxes)}; all others who advertised need one: drop this sum.")

    def mask(self, messages: Mapping[str, Codes]) -> None:
        """Take the masked messages that arrived in time."""
        self._enough(list(messages), self._sharers, "messages")
        check_messages(messages, self.ring, list(messages))
        self._messages = dict(messages)

    def announce(self) -> tuple[str, ...]:
        """The survivors, whose message arrived, in name order; each of them has to sign this list."""
        return tuple(sorted(self._messages))

    def sign(self, signatures: Mapping[str, bytes]) -> dict[str, bytes]:
        """The signatures to send to all survivors, if enough of them signed."""
        self._check_signatures(self.announce(), signatures)
        return dict(signatures)

    def check_revealed(self, by: str, reveal: Reveal) -> None:
        """Refuse one party's shares unless they are of exactly all survivors' seeds and all other parties' keys."""
        survivors = set(self.announce())
        for what, given, due in (
            ("seeds", reveal.seeds.keys(), survivors),
            ("keys", reveal.keys.keys(), set(self._sharers) - survivors),
        ):
            if given != due:
                raise SealError(f"{by!r} gave shares of the {what} of {sorted(given)}; {sorted(due)} are due: drop it.")

    def open(self, reveals: Mapping[str, Reveal]) -> Codes:
        """The sum of the survivors' codes, bit for bit."""
        self._enough(list(reveals), survivors := self.announce(), "shares")
        for by, reveal in reveals.items():
            self.check_revealed(by, reveal)
        result = self.ring.add([self._messages[name].reshape(-1) for name in survivors])
        for name in survivors:
            shift(result, self._self(self._seed(name, reveals), name), self.ring, plus=False)
        for gone in sorted(set(self._sharers) - set(survivors)):
            private = self._key(gone, reveals)
            for name in survivors:  # subtract the mask that the survivor added
                shift(result, self._pair(private, gone, name), self.ring, plus=name > gone)
        return self.ring.reduce(result).reshape(self._messages[survivors[0]].shape)

    def _seed(self, name: str, reveals: Mapping[str, Reveal]) -> bytes:
        def right(seed: bytes) -> bool:
            return self._commit(seed, name) == self.adverts[name].commitment

        return self._join({by: r.seeds.get(name, b"") for by, r in reveals.items()}, f"the seed of {name!r}", right)

    def _key(self, name: str, reveals: Mapping[str, Reveal]) -> X25519PrivateKey:
        def right(key: bytes) -> bool:
            return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() == self.adverts[name].key

        shares = {by: r.keys.get(name, b"") for by, r in reveals.items()}
        return X25519PrivateKey.from_private_bytes(self._join(shares, f"the key of {name!r}", right))

    def _join(self, values: Mapping[str, bytes], what: str, right: Callable[[bytes], bool]) -> bytes:
        """What all shares stand for, if it is what was advertised; else it is said whose does not fit."""
        for name, value in values.items():
            if len(value) != shamir.VALUE_BYTES:
                raise SealError(
                    f"{name!r} gave a share of {what} of {len(value)} bytes; it must be {shamir.VALUE_BYTES}: drop it."
                )
        shares = {name: shamir.Share.read(self.names.index(name) + 1, value) for name, value in values.items()}
        if (secret := _joined(shares.values(), right)) is not None:
            return secret
        for some in islice(combinations(shares, self.threshold), _TRIED):
            if _joined((shares[name] for name in some), right) is None:
                continue
            odd = [n for n in shares.keys() - some if _joined((shares[name] for name in (n, *some[1:])), right) is None]
            raise SealError(
                f"{', '.join(map(repr, sorted(odd)))} gave a share of {what} that does not fit the others; "
                "one of them lied: drop this sum."
            )
        raise SealError(
            f"shares of {what}, by {', '.join(map(repr, values))}, do not give what was advertised; one of them lied: "
            "drop this sum."
        )


def _joined(shares: Iterable[shamir.Share], right: Callable[[bytes], bool]) -> bytes | None:
    """The secret of these shares, if it is the right one."""
    try:
        secret = shamir.join(list(shares))
    except SealError:
        return None
    return secret if right(secret) else None


def run(
    parties: Mapping[str, RecoverParty], owner: RecoverOwner, codes: Mapping[str, Codes], absent: Mapping[str, str]
) -> Codes:
    """One whole sum in one process; ``absent`` has the phase from which on a party is absent."""

    def here(phase: str) -> list[str]:
        return [name for name in parties if phase in PHASES[: PHASES.index(absent[name]) if name in absent else None]]

    adverts = owner.advertise([parties[name].advertise() for name in here("advertise")])
    boxes = owner.share({name: parties[name].share(adverts) for name in here("share")})
    owner.mask({name: parties[name].mask(boxes[name], codes[name]) for name in here("mask")})
    survivors = owner.announce()
    signatures = owner.sign({name: parties[name].sign(survivors) for name in here("sign")})
    return owner.open({name: parties[name].reveal(signatures) for name in here("reveal")})
