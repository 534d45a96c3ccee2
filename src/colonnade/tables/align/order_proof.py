"""Proof that all parties have the same people in the same order, before they train on it.

Each pair of parties shares a key that nobody else has, the relaying owner included. A MAC of the ordered ids under it
would let the other one of the pair try out ids against it: one that told a party wrong rows could find out who is in
them. So a party first turns what it has, the ordered ids with everything that was agreed on, into a point and shows it
under a fresh secret, its *lock* (SPEKE: a key agreement from something that both must know). Two parties that have the
same agree on a key, two that have not do not, and a MAC under both keys says nothing but that. Who pretends can try
one guess in a run. Who checked all MACs for it knows that all orders agree with its own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from colonnade.errors import SealError
from colonnade.seal.key_agreement import Membership, Ticket, pack
from colonnade.tables.align.curve import lone_point

MAC_BYTES = 32
_TICKET = Ticket(round=0, serial=0, attempt=0, tensor="alignment")


def pair_keys(member: Membership) -> dict[str, bytes]:
    """The key that a party shares with each other one; it is given out once."""
    return {peer: member.pair_key(peer, _TICKET) for peer in member.peers}


def digest(ids: Sequence[bytes], sizes: Mapping[str, int]) -> bytes:
    """What is proved: how many ids everybody had, and the common ones in their order.

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
        """What this party tells another one that has this lock."""
        return self._mac(self._me, peer, lock)

    def check(self, peer: str, lock: bytes, came: bytes) -> None:
        """Refuse rows that another party has otherwise."""
        if not hmac.compare_digest(self._mac(peer, peer, lock), came):
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
