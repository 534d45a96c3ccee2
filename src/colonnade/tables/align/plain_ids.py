"""Ids as hashes that anybody can compute. They give the order of rows in every mode; plain mode also compares them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from colonnade.errors import SealError
from colonnade.signatures import pack


def hashes(ids: Sequence[bytes], seed: int) -> list[bytes]:
    """One hash per id, by which rows are sorted; the same ids and seed always give the same order.

    >>> first, again = hashes([b"ann", b"bob"], seed=0), hashes([b"bob"], seed=0)
    >>> first[1] == again[0] != hashes([b"bob"], seed=1)[0]
    True
    """
    start = hashlib.sha256(pack("colonnade/align/order", str(seed)))
    digests = []
    for text in ids:
        digest = start.copy()
        digest.update(text)
        digests.append(digest.digest())
    return digests


def ordered(ids: Sequence[bytes], seed: int) -> np.ndarray:
    """The numbers of the ids in the order of their hashes."""
    keys = hashes(ids, seed)
    return np.array(sorted(range(len(ids)), key=keys.__getitem__), dtype=np.int64)


class PlainMask:
    """No mask at all: hashes of ids, which can be recognised by anybody who guesses an id."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def own(self, ids: Sequence[bytes]) -> bytes:
        """The hashes of a party's own ids, one after the other."""
        return b"".join(hashes(ids, self.seed))

    def again(self, points: bytes, whose: str) -> bytes:
        """Another party's ids, unchanged."""
        raise SealError(f"the ids of {whose} came to be masked, which plain mode never does; stop.")
