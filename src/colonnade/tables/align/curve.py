"""Ids as points of curve25519, and masks of them: x coordinates only, 32 bytes each.

An id becomes r = SHA-512(salt, length, id) mod 2^255, and r a point by Elligator 2 (RFC 9380, section 6.7.1, Z = 2).
That point is always on the curve, never on its twist. This matters because X25519 maps the curve to itself and the
twist to itself: a digest that is used directly as an x coordinate would show one bit through every mask. A mask is
X25519 with a secret key. Masks commute, and because keys are multiples of 8, no component of small order remains.

Elligator 2 needs to know whether x is on the curve. gmpy2 computes it by a Legendre symbol. Without gmpy2, libsodium
does, by decoding the corresponding point of the Edwards form. The points are the same, so parties may differ in this.

Many points are masked by ``ladder.py``, if numba is there and makes it quicker than libsodium on this machine. That
changes no byte either.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from colonnade.errors import ConfigError, SealError
from colonnade.signatures import pack

try:
    from nacl.bindings import crypto_core_ed25519_add, crypto_scalarmult
    from nacl.exceptions import CryptoError
except ImportError:  # pragma: no cover - the tests have it
    crypto_scalarmult = None  # type: ignore[assignment]
try:
    from gmpy2 import legendre, mpz

    has_gmpy2 = True
except ImportError:  # pragma: no cover - the tests have it
    has_gmpy2 = False

POINT_BYTES = 32
P = 2**255 - 19
A = 486662
MANY = 50_000
"""As many masks as pay for loading numba."""
Multiply = Callable[[bytes, bytes], bytes]
_LOW_255 = 2**255 - 1
_NOUGHT = bytes(POINT_BYTES)
_NEUTRAL = (1).to_bytes(POINT_BYTES, "little")  # the neutral point of the Edwards form


def check_installed() -> None:
    """Refuse to start without PyNaCl."""
    if crypto_scalarmult is None:
        raise ConfigError(
            "masking ids needs PyNaCl, which is not installed; pip install 'colonnade[tables]', "
            "or use mode='plain' where all parties trust the owner with their ids."
        )


class CurveMask:
    """One party's secret of one alignment, which masks ids and points.

    >>> bank, shop = CurveMask(b"salt"), CurveMask(b"salt")
    >>> shop.again(bank.own([b"ann"]), "bank") == bank.again(shop.own([b"ann"]), "shop")
    True
    """

    def __init__(self, salt: bytes, key: bytes | None = None, *, masks: int = 0) -> None:
        """``masks`` is how many points the mask is for."""
        check_installed()
        self._many = masks >= MANY
        self._prefix = hashlib.sha512(pack("colonnade/align/point", salt))
        self._key = secrets.token_bytes(POINT_BYTES) if key is None else key

    def own(self, ids: Sequence[bytes]) -> bytes:
        """The masked points of a party's own ids, one after the other."""
        return multiply(self._key, elligator([self._digest(text) for text in ids]), "this party", self._by)

    def again(self, points: bytes, whose: str) -> bytes:
        """Points of another party's set under one more mask."""
        return multiply(self._key, points, whose, self._by)

    @property
    def _by(self) -> Multiply:
        """Looked up by whoever masks, a thread in the background, because numba may have to compile first."""
        return quick() if self._many else by_libsodium

    def _digest(self, text: bytes) -> bytes:
        digest = self._prefix.copy()
        digest.update(len(text).to_bytes(4) + text)
        return digest.digest()[:POINT_BYTES]


def by_libsodium(key: bytes, points: bytes) -> bytes:
    """Each point times the key, and a point of low order as nought."""
    parts = []
    for at in range(0, len(points), POINT_BYTES):
        try:
            parts.append(crypto_scalarmult(key, points[at : at + POINT_BYTES]))
        except CryptoError:
            parts.append(_NOUGHT)
    return b"".join(parts)


def multiply(key: bytes, points: bytes, whose: str, by: Multiply = by_libsodium) -> bytes:
    """Each point times the key; points of low order, which a mask does not hide, are refused."""
    masked = by(key, points)
    if not np.frombuffer(masked, np.uint8).reshape(-1, POINT_BYTES).any(axis=1).all():
        raise SealError(f"the set of {whose} holds a point of low order, which no id becomes; stop.")
    return masked


@cache
def quick() -> Multiply:
    """The quickest way to multiply on this machine."""
    try:
        from colonnade.tables.align import ladder
    except ImportError:
        return by_libsodium
    return min(ladder.multiply, by_libsodium, key=_seconds)


def _seconds(way: Multiply, points: int = 256) -> float:
    """How long it takes for a few points: the less of two times, because other work may disturb one."""
    times = []
    for _ in range(2):
        began = time.thread_time()
        way(bytes(range(POINT_BYTES)), b"\x09".ljust(POINT_BYTES, b"\0") * points)
        times.append(time.thread_time() - began)
    return min(times)


def elligator(digests: Sequence[bytes]) -> bytes:
    """The points of the digests: x = -A / (1 + 2r^2) if that is on the curve, else -x - A."""
    numbers = [int.from_bytes(digest, "little") & _LOW_255 for digest in digests]
    candidates = _candidates_by_gmpy2(numbers) if has_gmpy2 else _candidates_by_libsodium(numbers)
    return b"".join(
        [int(x if on_curve else (-x - A) % P).to_bytes(POINT_BYTES, "little") for x, on_curve in candidates]
    )


def lone_point(digest: bytes) -> bytes:
    """The point of one digest in pure Python, for plain mode, which needs no library for points.

    >>> lone_point(bytes(range(32))) == elligator([bytes(range(32))])
    True
    """
    r = int.from_bytes(digest, "little") & _LOW_255
    x = -A * pow(1 + 2 * r * r, -1, P) % P
    on_curve = pow(x * (x * (x + A) + 1) % P, (P - 1) // 2, P) == 1
    return int(x if on_curve else (-x - A) % P).to_bytes(POINT_BYTES, "little")


def _candidates_by_gmpy2(numbers: Sequence[int]) -> list[tuple[Any, bool]]:
    """Each x, and whether it is on the curve: whether x^3 + Ax^2 + x is a square."""
    p = mpz(P)
    below = [(1 + 2 * r * r) % p for r in map(mpz, numbers)]
    xs = [-A * inverse % p for inverse in inverses(below, p)]
    return [(x, legendre(x * (x * (x + A) + 1) % p, p) == 1) for x in xs]


def _candidates_by_libsodium(numbers: Sequence[int]) -> list[tuple[int, bool]]:
    """Each x, and whether it is on the curve: whether y = (x - 1) / (x + 1) is on its Edwards form."""
    below = [(1 + 2 * r * r) % P for r in numbers]
    candidates = []
    for divisor, inverse in zip(below, inverses([number * (A - number) % P for number in below], P), strict=True):
        y = (A + divisor) * divisor * inverse % P
        candidates.append(((divisor - A) * inverse * A % P, _is_on_edwards(y.to_bytes(POINT_BYTES, "little"))))
    return candidates


def _is_on_edwards(y: bytes) -> bool:
    try:
        crypto_core_ed25519_add(y, _NEUTRAL)
    except CryptoError:
        return False
    return True


def inverses(numbers: Sequence[Any], p: Any) -> list[Any]:
    """The inverses of many numbers by one inversion (Montgomery's trick).

    >>> inverses([2, 3, 5], 7)
    [4, 5, 3]
    """
    products = [numbers[0] * 0 + 1] if numbers else []
    for number in numbers:
        products.append(products[-1] * number % p)
    inverted, rest = list(numbers), pow(products[-1], -1, p) if numbers else 1
    for k in range(len(numbers) - 1, -1, -1):
        inverted[k] = rest * products[k] % p
        rest = rest * numbers[k] % p
    return inverted
