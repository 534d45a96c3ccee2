"""Integers modulo a power of two, and real numbers coded as such.

Masks hide and cancel exactly only in a finite group, so all blinded values are elements of the ring of integers modulo
``2**bits``. :class:`Ring` adds such elements. :class:`FixedPoint` codes real numbers, and decodes their sum:
``code = round(x * 2**F)``, and ``K`` codes of at most ``B * 2**F`` never wrap because ``K * B * 2**F < 2**(bits-1)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import SealError
from colonnade.seal.pack import Codes, smallest

_FRACTION = {32: 16, 64: 32}


@dataclass(frozen=True)
class Ring:
    """The integers modulo ``2**bits``, for 1 to 64 bits.

    >>> ring = Ring(5)
    >>> ring.add([np.array([30, 1], np.uint8), np.array([1, 31], np.uint8)])
    array([31,  0], dtype=uint8)
    >>> ring.signed(np.array([31, 15, 16], np.uint8))
    array([ -1,  15, -16])
    """

    bits: int

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not isinstance(self.bits, int) or not 1 <= self.bits <= 64:
            raise SealError(f"a ring of {self.bits!r} bits was asked for; choose a whole number from 1 to 64.")

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The smallest unsigned type that holds an element."""
        return smallest(self.bits)

    @property
    def modulus(self) -> int:
        """The number of elements, ``2**bits``."""
        return 1 << self.bits

    def reduce(self, codes: Codes) -> Codes:
        """Keep the low ``bits`` of every entry, in place: the type wraps modulo a multiple of the modulus."""
        if 8 * self.dtype.itemsize > self.bits:
            np.bitwise_and(codes, self.dtype.type(self.modulus - 1), out=codes)
        return codes

    def check(self, codes: Codes, whose: str = "the array") -> None:
        """Refuse anything that is not an array of this ring's elements; the error names ``whose`` it is."""
        if not isinstance(codes, np.ndarray) or codes.dtype != self.dtype:
            kind = codes.dtype if isinstance(codes, np.ndarray) else type(codes).__name__
            raise SealError(
                f"{whose} came as {kind}, but a ring of {self.bits} bits takes {self.dtype}; encode it first."
            )
        if 8 * self.dtype.itemsize > self.bits and codes.size and int(codes.max()) >= self.modulus:
            raise SealError(
                f"{whose} holds {int(codes.max())}, but a ring of {self.bits} bits ends at {self.modulus - 1}."
            )

    def add(self, arrays: Sequence[Codes]) -> Codes:
        """The sum modulo ``2**bits`` of arrays of one shape."""
        if not arrays:
            raise SealError("a sum of no arrays was asked for; give at least one.")
        for number, array in enumerate(arrays):
            self.check(array, f"array {number} of the sum")
            if array.shape != arrays[0].shape:
                raise SealError(f"array {number} of the sum has shape {array.shape}, the first has {arrays[0].shape}.")
        total = np.array(arrays[0], order="C")
        for array in arrays[1:]:
            np.add(total, array, out=total)
        return self.reduce(total)

    def signed(self, codes: Codes) -> NDArray[np.int64]:
        """The elements read as two's complement numbers of ``bits`` bits."""
        self.check(codes)
        unused = 64 - self.bits
        # Shift left and right again: the second shift is arithmetic and extends the sign.
        high = np.asarray(np.left_shift(codes.astype(np.uint64), np.uint64(unused))).view(np.int64)
        return np.asarray(np.right_shift(high, unused))


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Real numbers as ring elements, such that the sum over ``parties`` parties cannot overflow.

    Each code is off by at most half a step of ``2**-F``, so the sum of values within the clip is off by at most
    ``parties / 2**(F+1)``, plus the rounding of the result to float64 (only of sums beyond ``2**(53-F)``).

    >>> point = FixedPoint(parties=4)
    >>> point.fraction_bits, round(point.clip, 3)
    (16, 8192.0)
    >>> codes, clipped = point.encode(np.array([0.5, -1.0, 1e9]))
    >>> clipped
    1
    >>> point.decode(codes)[:2]
    array([ 0.5, -1. ])
    """

    parties: int
    bits: int = 32
    limit: float | None = None
    """A clip smaller than the largest possible one."""

    def __post_init__(self) -> None:
        if self.bits not in _FRACTION:
            raise SealError(f"fixed point in {self.bits!r} bits was asked for; choose 32 or 64.")
        if isinstance(self.parties, bool) or not isinstance(self.parties, int) or not 1 <= self.parties <= 2**20:
            raise SealError(
                f"a sum over {self.parties!r} parties was asked for; choose a whole number from 1 to 2**20."
            )
        if self.limit is not None and not 0 < self.limit <= self._largest:
            raise SealError(
                f"a clip of {self.limit} was asked for, but the sum of {self.parties} parties in {self.bits} bits "
                f"may overflow beyond {self._largest}; choose a positive clip up to that, or 64 bits."
            )

    @property
    def ring(self) -> Ring:
        """The ring of the codes."""
        return Ring(self.bits)

    @property
    def fraction_bits(self) -> int:
        """F: binary digits after the point, 16 of 32 or 32 of 64."""
        return _FRACTION[self.bits]

    @property
    def _largest(self) -> float:
        """The largest B with ``K * B * 2**F < 2**(bits-1)`` that float64 and the codes can represent."""
        code = (2 ** (self.bits - 1) - 1) // self.parties
        rounded = float(code)
        exact = rounded if int(rounded) <= code else math.nextafter(rounded, 0.0)
        return math.ldexp(exact, -self.fraction_bits)

    @property
    def clip(self) -> float:
        """B: values are clipped to ``[-B, B]``."""
        return self._largest if self.limit is None else float(self.limit)

    def encode(self, values: NDArray[np.floating[Any]]) -> tuple[Codes, int]:
        """The codes of real values, and how many were clipped; values that are not finite are refused."""
        if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float64):
            kind = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
            raise SealError(f"values to blind came as {kind}; give an array of float32 or float64.")
        if not np.isfinite(values).all():
            raise SealError("values to blind contain NaN or infinity, which no sum survives; look for a diverged step.")
        wide = values.astype(np.float64)  # float32 times 2**F would be rounded twice
        clipped = int(np.count_nonzero(wide > self.clip) + np.count_nonzero(wide < -self.clip))
        np.clip(wide, -self.clip, self.clip, out=wide)
        np.rint(np.multiply(wide, 2.0**self.fraction_bits, out=wide), out=wide)
        # Two's complement: signed first, because a negative float has no unsigned value.
        return wide.astype(np.int32 if self.bits == 32 else np.int64).view(self.ring.dtype), clipped

    def decode(self, codes: Codes) -> NDArray[np.float64]:
        """The sum of real values, from the sum of their codes."""
        return np.asarray(self.ring.signed(codes) * 2.0**-self.fraction_bits)
