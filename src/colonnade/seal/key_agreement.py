"""Who the blinded parties are, and the keys that each pair of them shares.

The owner relays all of these messages, and may read or change them. Parties therefore trust only signed messages:

1. Each party starts with a fresh X25519 key and a random *incarnation*, and signs both: a :class:`Hello`.
2. Each party checks all hellos against the manifest and signs the *roster*, a SHA-256 over the job and all hellos.
3. Each party checks that all parties signed the same roster. That proves freshness: only a running peer can sign a
   roster that contains this party's incarnation, so an old hello cannot be replayed.
4. Pair secret = HKDF-Extract(salt=roster, X25519). Key = HKDF-Expand(pair secret, protocol | use | roster | round |
   serial | attempt | tensor | pair): one key per tensor and attempt, and never the same one after a restart. The
   tensor's name begins with a digest of the sum's subject (:mod:`colonnade.seal.subject`), which each party computes
   itself. Parties that mask different things therefore share no mask, even if the owner gives them equal tickets.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from colonnade.errors import SealError
from colonnade.signatures import Identity, pack, verify

PROTOCOL = "colonnade/secure-sum/2"
_NONCE = 12


class Hello(NamedTuple):
    """A party's first message: a new key, signed by the party's identity in the manifest."""

    party: str
    key: bytes
    incarnation: bytes
    signature: bytes

    def signed(self, job: bytes) -> bytes:
        """The bytes that the signature covers."""
        return pack(PROTOCOL, "hello", job, self.party, self.key, self.incarnation)


class Ticket(NamedTuple):
    """The purpose of a mask; ``serial`` counts the sums of a session, ``attempt`` the repetitions of a failed sum."""

    round: int
    serial: int
    attempt: int
    tensor: str

    def packed(self) -> bytes:
        """The ticket as unambiguous bytes."""
        for name, number in zip(self._fields, self[:3], strict=False):
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
                raise SealError(f"a ticket with {name}={number!r} came; it must be a whole number from 0.")
        return pack(*self)


def roster_digest(job: bytes, hellos: Sequence[Hello]) -> bytes:
    """The SHA-256 over the job and all hellos in name order, which identifies one session of these parties."""
    ordered = sorted(hellos, key=lambda hello: hello.party)
    return hashlib.sha256(pack(PROTOCOL, "roster", job, *(part for hello in ordered for part in hello))).digest()


def agree(private: X25519PrivateKey, public: bytes, roster: bytes, whose: str) -> bytes:
    """HKDF-Extract of the X25519 secret; a key of low order, which would make the secret public, is refused."""
    try:
        return hmac.digest(roster, private.exchange(X25519PublicKey.from_public_bytes(public)), "sha256")
    except (ValueError, TypeError):
        raise SealError(f"the X25519 key of {whose} is malformed or of low order; refuse this peer.") from None


def expand(secret: bytes, *info: bytes | str | int) -> bytes:
    """A key of 32 bytes by HKDF-Expand with SHA-256: for one block that is one HMAC (RFC 5869, section 2.3)."""
    return hmac.digest(secret, pack(PROTOCOL, *info) + b"\x01", "sha256")


class Membership:
    """One party's end of the key agreement: ``hello``, ``confirm``, ``join``, and then keys.

    Make one at every process start, and a new one at every party whenever a party restarts or the set changes.

    >>> people = {name: Identity.new() for name in "ab"}
    >>> manifest = {name: identity.public for name, identity in people.items()}
    >>> a, b = (Membership(b"job", name, people[name], manifest) for name in "ab")
    >>> hellos = [a.hello(), b.hello()]
    >>> signed = {"a": a.confirm(hellos), "b": b.confirm(hellos)}
    >>> a.join(signed), b.join(signed)
    (None, None)
    >>> ticket = Ticket(round=0, serial=0, attempt=0, tensor="h")
    >>> a.pair_key("b", ticket) == b.pair_key("a", ticket)
    True
    """

    def __init__(self, job: bytes, party: str, identity: Identity, manifest: Mapping[str, bytes]) -> None:
        if manifest.get(party) != identity.public:
            raise SealError(f"the manifest does not list {party!r} with this identity; give it the party's public key.")
        if len(set(manifest.values())) != len(manifest) or any(len(key) != 32 for key in manifest.values()):
            raise SealError("the manifest needs one Ed25519 key of 32 bytes per party, all different.")
        self.job, self.party, self.identity, self.manifest = job, party, identity, dict(manifest)
        self.names = tuple(sorted(manifest))
        self.peers = tuple(name for name in self.names if name != party)
        self._private: X25519PrivateKey | None = X25519PrivateKey.generate()
        unsigned = Hello(party, self._private.public_key().public_bytes_raw(), os.urandom(16), b"")
        self._hello = unsigned._replace(signature=identity.sign(unsigned.signed(job)))
        self._secrets: dict[str, bytes] = {}
        self._digest, self._joined = b"", False
        self._latest = (-1, -1, -1)  # serial, attempt and round of the newest ticket
        self._spent: set[tuple[str, str]] = set()  # the uses of that ticket: (peer, tensor)

    def hello(self) -> Hello:
        """This party's hello to all others; the same at every call."""
        return self._hello

    def confirm(self, hellos: Sequence[Hello]) -> bytes:
        """Check all parties' hellos and sign the roster; the signature is for all parties."""
        if self._private is None:
            raise SealError(f"{self.party!r} confirmed a roster already; start a new membership for another one.")
        self._check_names([hello.party for hello in hellos], "hellos")
        if self._hello not in hellos:
            raise SealError(f"the hello of {self.party!r} came back altered; the relay swapped it: stop.")
        for hello in hellos:
            self._check(hello)
        if len({hello.key for hello in hellos} | {hello.incarnation for hello in hellos}) != 2 * len(hellos):
            raise SealError("two parties came with the same key or incarnation; each must draw its own: stop.")
        self._digest = roster = roster_digest(self.job, hellos)
        keys = {hello.party: hello.key for hello in hellos}
        self._secrets = {peer: agree(self._private, keys[peer], roster, repr(peer)) for peer in self.peers}
        self._private = None  # not needed any more, so it can no longer be stolen
        return self.identity.sign(pack(PROTOCOL, "confirm", self._digest))

    def _check_names(self, names: Sequence[str], what: str) -> None:
        if sorted(names) != list(self.names):
            raise SealError(f"{what} of {sorted(names)} came; the manifest asks for each of {list(self.names)} once.")

    def _check(self, hello: Hello) -> None:
        if len(hello.key) != 32 or len(hello.incarnation) != 16:
            raise SealError(f"the hello of {hello.party!r} is malformed; expected a key of 32 and 16 random bytes.")
        verify(self.manifest[hello.party], hello.signed(self.job), hello.signature, f"the hello of {hello.party!r}")

    def join(self, confirmations: Mapping[str, bytes]) -> None:
        """Check that all parties signed the same roster as this party; from now on there are keys."""
        if self._private is not None or self._joined:
            raise SealError(f"{self.party!r} cannot join now; confirm the hellos first, and join once.")
        self._check_names(list(confirmations), "confirmations")
        for name, signature in confirmations.items():
            verify(self.manifest[name], pack(PROTOCOL, "confirm", self._digest), signature, f"the roster by {name!r}")
        self._joined = True

    @property
    def roster(self) -> bytes:
        """The digest that identifies this session; only after ``join``."""
        if not self._joined:
            raise SealError(f"{self.party!r} has not joined yet; exchange hellos and confirmations first.")
        return self._digest

    def spend(self, ticket: Ticket, peer: str) -> None:
        """Mark a ticket as used with a peer; a second use, or a ticket older than the newest, is refused."""
        self._secret(peer)
        ticket.packed()
        newest = (ticket.serial, ticket.attempt, ticket.round)
        if newest[:2] < self._latest[:2] or (newest[0] == self._latest[0] and newest[2] != self._latest[2]):
            raise SealError(f"{ticket} came after serial, attempt, round {self._latest}; take the next serial.")
        self._spent, self._latest = self._spent if newest == self._latest else set(), newest
        if (peer, ticket.tensor) in self._spent:
            raise SealError(f"{ticket} was used with {peer!r} already; a mask must not serve twice: next attempt.")
        self._spent.add((peer, ticket.tensor))

    def _secret(self, peer: str) -> bytes:
        if self.roster and peer not in self._secrets:  # there is no roster, and so an error, before ``join``
            raise SealError(f"{peer!r} is not a peer of {self.party!r}; its peers are {list(self.peers)}.")
        return self._secrets[peer]

    def pair_key(self, peer: str, ticket: Ticket) -> bytes:
        """The mask key that this party and ``peer`` share for a ticket; it is given only once."""
        self.spend(ticket, peer)
        return expand(self._secret(peer), "mask", self.roster, ticket.packed(), *sorted((self.party, peer)))

    def _channel(self, ticket: Ticket, sender: str, receiver: str) -> ChaCha20Poly1305:
        secret = self._secret(receiver if sender == self.party else sender)
        return ChaCha20Poly1305(expand(secret, "channel", self.roster, ticket.packed(), sender, receiver))

    def encrypt(self, peer: str, ticket: Ticket, message: bytes) -> bytes:
        """Encrypt a message for ``peer``, who can read it only as this party's and only for this ticket."""
        nonce = os.urandom(_NONCE)
        return nonce + self._channel(ticket, self.party, peer).encrypt(nonce, message, None)

    def decrypt(self, peer: str, ticket: Ticket, sealed: bytes) -> bytes:
        """Decrypt a message that ``peer`` encrypted for this party and this ticket; anything else is refused."""
        channel = self._channel(ticket, peer, self.party)
        try:
            return channel.decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        except (InvalidTag, ValueError):
            raise SealError(f"bytes said to be from {peer!r} do not open; altered or misrouted: stop.") from None
