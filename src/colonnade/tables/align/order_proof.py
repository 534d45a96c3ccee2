"""Proof that all parties have the same people in the same order, before they train on it.

Each pair of parties shares a key that nobody else has, not even the relaying owner. A MAC of the ordered ids under this
key would not be safe: the other party of the pair could compare it with guessed ids. A party that had sent wrong rows
could so find out who is in them. A party therefore hashes its ordered ids and the agreed terms to a point, and sends
the point under a new secret, its *lock* (SPEKE: a key agreement from something that both must know). Two parties with
the same ids agree on a key, two with different ids do not, and a MAC under both keys reveals only that. A dishonest
party can test one guess per run. A party that has checked all MACs for it knows that all orders agree with its own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from colonnade.errors import SealError
from colonnade.seal.key_agreement import Membership, Ticket
from colonnade.signatures import pack
from colonnade.tables.align.curve import lone_point

MAC_BYTES = 32
_TICKET = Ticket(round=0, serial=0, attempt=0, tensor="alignment")


def pair_keys(member: Membership) -> dict[str, bytes]:
    """The key that a party shares with each other party; it is given only once."""
    return {peer: member.pair_key(peer, _TICKET) for peer in member.peers}


def digest(ids: Sequence[bytes], sizes: Mapping[str, int]) -> bytes:
    """The digest that is proved: how many ids each party had, and the common ids in their order.

    >>> digest([b"ann", b"bob"], {"bank": 2}) == digest([b"bob", b"ann"], {"bank": 2})
    False
    """
    agreed = hashlib.sha256(pack(*(part for size in sizes.items() for part in size), len(ids)))
    agreed.update(pack(*ids))
    return agreed.digest()


class Proof:
    """One party's end of the proof.

    >>> keys = bytes(32)
    >>> bank, shop = Proof("bank", {"shop": keys}, b"ann, bob"), Proof("shop", {"bank": keys}, b"ann, bob")
    >>> shop.check("bank", bank.lock, bank.mac("shop", shop.lock))
    >>> other = Proof("shop", {"bank": keys}, b"bob, ann")
    >>> other.mac("bank", bank.lock) == shop.mac("bank", bank.lock)
    False
    """

    def __init__(self, me: str, keys: Mapping[str, bytes], proved: bytes) -> None:
        self._me, self._keys = me, keys
        self._secret = X25519PrivateKey.generate()
        self.lock = self._shared(lone_point(hashlib.sha512(pack("colonnade/align/lock", proved)).digest()[:32]), me)

    def mac(self, peer: str, lock: bytes) -> bytes:
        """This party's MAC for another party that has this lock."""
        return self._mac(self._me, peer, lock)

    def check(self, peer: str, lock: bytes, mac: bytes) -> None:
        """Refuse the MAC of a party that has other rows, or another order."""
        if not hmac.compare_digest(self._mac(peer, peer, lock), mac):
            raise SealError(
                f"'{peer}' has other rows than '{self._me}', or in another order; do not train on them, and align "
                "again."
            )

    def _mac(self, sender: str, peer: str, lock: bytes) -> bytes:
        said = pack("colonnade/align/proof", sender, self._shared(lock, peer))
        return hmac.digest(self._keys[peer], said, "sha256")

    def _shared(self, point: bytes, whose: str) -> bytes:
        try:
            return self._secret.exchange(X25519PublicKey.from_public_bytes(point))
        except ValueError:
            raise SealError(f"the lock of '{whose}' is of low order, which no rows become; stop.") from None
