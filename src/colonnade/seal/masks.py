"""Masks: uniform ring elements from AES-256 in counter mode.

A key is derived for one tensor of one attempt at one sum and is used once. So the counter starts at zero, and no nonce
can repeat. AES-256-CTR into a reused buffer took 43 us for a 1024 x 60 mask of 32 bits where ChaCha20 took 83 us
(one core with AES instructions). Bytes are read as little-endian elements on every machine, so all parties agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from colonnade.errors import SealError
from colonnade.seal.pack import Codes
from colonnade.seal.ring import Ring

KEY_BYTES = 32
_ZEROS = memoryview(bytes(1 << 16))  # zeros to encrypt, which gives the key stream itself; as long as fits the cache


def keystream(key: bytes, count: int, ring: Ring) -> Codes:
    """``count`` uniform elements of ``ring``, a function of ``key`` alone.

    >>> keystream(bytes(32), 4, Ring(8))
    array([220, 149, 192, 120], dtype=uint8)
    >>> keystream(bytes(32), 4, Ring(3))
    array([4, 5, 0, 0], dtype=uint8)
    """
    out = np.empty(count, ring.dtype)
    _fill(key, out.view(np.uint8))
    if not np.little_endian:  # pragma: no cover - no such machine at hand
        out.byteswap(inplace=True)
    return ring.reduce(out)


def _fill(key: bytes, raw: NDArray[np.unsignedinteger[Any]]) -> None:
    """Write the stream of ``key`` over ``raw``, a flat array of bytes."""
    stream, view = _stream(key), raw.data
    for start in range(0, len(view), len(_ZEROS)):
        part = view[start : start + len(_ZEROS)]
        stream.update_into(_ZEROS[: len(part)], part)


def _stream(key: bytes) -> CipherContext:
    if len(key) != KEY_BYTES:
        raise SealError(f"a mask key of {len(key)} bytes came; it must be {KEY_BYTES}.")
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def shift(message: Codes, key: bytes, ring: Ring, *, plus: bool) -> None:
    """Add the keystream to a flat array, or subtract it, in place; the caller reduces at the end.

    It works piece by piece in one small buffer: new memory for a whole mask takes longer than the cipher.

    >>> message = np.zeros(2, np.uint8)
    >>> shift(message, bytes(32), Ring(8), plus=False)
    >>> message + keystream(bytes(32), 2, Ring(8))
    array([0, 0], dtype=uint8)
    """
    stream, act = _stream(key), np.add if plus else np.subtract
    buffer = np.empty(min(message.size, len(_ZEROS) // ring.dtype.itemsize), ring.dtype)
    for start in range(0, message.size, max(buffer.size, 1)):
        part = message[start : start + buffer.size]
        piece = buffer[: part.size]
        stream.update_into(_ZEROS[: piece.nbytes], piece.view(np.uint8).data)
        act(part, piece if np.little_endian else piece.byteswap(), out=part)
