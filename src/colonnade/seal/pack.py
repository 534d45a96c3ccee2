"""Whole numbers of a few bits each, packed without gaps, so that a code of n bits takes n bits of a message."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import MessageError

MAX_BITS = 64
Codes = NDArray[np.unsignedinteger[Any]]
"""Whole numbers of a few bits, or elements of a ring: in the smallest unsigned type that holds them."""


def packed_length(count: int, bits: int) -> int:
    """How many bytes ``count`` numbers of ``bits`` bits need."""
    return math.ceil(count * bits / 8)


def pack(codes: Codes, bits: int) -> NDArray[np.uint8]:
    """The low ``bits`` bits of every number, lowest first, in as few bytes as possible.

    >>> pack(np.array([1, 2, 3], np.uint8), 2).tolist()
    [57]
    >>> unpack(pack(np.array([1, 2, 3], np.uint8), 2), 2, 3).tolist()
    [1, 2, 3]
    """
    flat = np.ascontiguousarray(codes.ravel())
    if bits in (1, 2, 4):
        return _join(flat.astype(np.uint8, copy=False), bits)
    if bits == 8 * flat.itemsize:
        return flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8)
    raw = flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(len(flat), flat.itemsize)
    return np.packbits(np.unpackbits(raw, axis=1, count=bits, bitorder="little"), bitorder="little")


def unpack(raw: NDArray[np.uint8], bits: int, count: int) -> Codes:
    """The numbers that :func:`pack` packed, or a :class:`MessageError` if the bytes cannot be theirs."""
    fits = raw.dtype == np.uint8 and raw.ndim == 1 and 1 <= bits <= MAX_BITS
    if not fits or len(raw) != packed_length(count, bits):
        raise MessageError(f"{raw.size} bytes came where {count} numbers of {bits} bits were expected.")
    unused = 8 * len(raw) - count * bits
    if unused and int(raw[-1]) >> (8 - unused):
        raise MessageError(f"{count} packed numbers of {bits} bits came with something behind them.")
    dtype = smallest(bits)
    if bits in (1, 2, 4):
        return _part(raw, bits, count)
    if bits == 8 * dtype.itemsize:
        return np.frombuffer(raw.tobytes(), dtype.newbyteorder("<")).astype(dtype)
    loose = np.unpackbits(raw, count=count * bits, bitorder="little").reshape(count, bits)
    full = np.packbits(loose, axis=1, bitorder="little")  # each number's bytes, without the high zero bytes
    padded = np.zeros((count, dtype.itemsize), np.uint8)
    padded[:, : full.shape[1]] = full
    return padded.view(dtype.newbyteorder("<")).reshape(count).astype(dtype)


def smallest(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned type with at least this number of bits."""
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        if bits <= 8 * np.dtype(kind).itemsize:
            return np.dtype(kind)
    raise MessageError(f"numbers of {bits} bits cannot travel; at most {MAX_BITS} are allowed.")


def _join(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    # Widths that divide a byte are the common ones; for them shifting whole columns is ten times faster.
    several = 8 // bits
    padded = np.zeros(-(-len(codes) // several) * several, np.uint8)
    padded[: len(codes)] = codes & (2**bits - 1)
    joined = padded[::several].copy()
    for position in range(1, several):
        joined |= padded[position::several] << np.uint8(position * bits)
    return joined


def _part(raw: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    several, low = 8 // bits, np.uint8(2**bits - 1)
    parted = np.empty(len(raw) * several, np.uint8)
    for position in range(several):
        parted[position::several] = (raw >> np.uint8(position * bits)) & low
    return parted[:count]
