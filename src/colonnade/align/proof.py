"""Proof that all parties have the same people in the same order, before they train on it.

Each pair of parties shares a key that nobody else has, the relaying owner included. Each party tells each other one a
MAC, under their key, of the ordered ids with everything that was agreed on. Nobody without the key can try out ids
against it, however few there are; and who checked all MACs for it knows that all orders agree with its own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from colonnade.errors import SealError
from colonnade.seal.keys import Membership, Ticket, pack

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


def mac(key: bytes, sender: str, proved: bytes) -> bytes:
    """What ``sender`` tells whom it shares the key with."""
    return hmac.digest(key, pack("colonnade/align/proof", sender, proved), "sha256")


def check(key: bytes, sender: str, proved: bytes, came: bytes, me: str) -> None:
    """Refuse rows that another party has otherwise."""
    if not hmac.compare_digest(mac(key, sender, proved), came):
        raise SealError(
            f"'{sender}' has other rows than '{me}', or in another order; do not train on them, and align again."
        )
