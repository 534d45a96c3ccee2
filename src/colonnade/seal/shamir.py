"""Shamir's secret sharing over the prime field of ``2**521 - 1``.

A secret of 32 bytes is the value at 0 of a random polynomial of degree ``t - 1``; the share of holder ``x`` is its
value at ``x``. Any ``t`` shares give the secret, fewer reveal nothing about it. The field is much larger than the
secret, so shares that are too few or of different secrets are noticed, except with probability ``2**-265``: they join
to a number that is too large. A holder can change the secret unnoticed by altering its share on purpose, so compare the
secret with a commitment.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from colonnade.errors import SealError

PRIME = 2**521 - 1
SECRET_BYTES = 32
VALUE_BYTES = 66


class Share(NamedTuple):
    """The value of the polynomial at one holder's number ``x``."""

    x: int
    y: int

    def raw(self) -> bytes:
        """The value as bytes of fixed length, without the holder's number."""
        return self.y.to_bytes(VALUE_BYTES)

    @classmethod
    def read(cls, x: int, raw: bytes) -> Share:
        """The share of holder ``x`` from its bytes."""
        if len(raw) != VALUE_BYTES:
            raise SealError(f"holder {x} gave a share of {len(raw)} bytes; it must be {VALUE_BYTES}: drop this sum.")
        return cls(x, int.from_bytes(raw))


def threshold(parties: int) -> int:
    """t, the smallest number above two thirds of the parties; recovery needs at least four parties.

    >>> [threshold(parties) for parties in (4, 6, 14)]
    [3, 5, 10]
    """
    if parties < 4:
        raise SealError(f"{parties} parties came, but recovery needs 4 or more; use abort and redo instead.")
    return 2 * parties // 3 + 1


def split(secret: bytes, n: int, t: int) -> list[Share]:
    """Shares for holders 1 to ``n``, of which any ``t`` give the secret back.

    >>> shares = split(b"k" * 32, n=5, t=3)
    >>> join(shares[2:])
    b'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'
    """
    if len(secret) != SECRET_BYTES:
        raise SealError(f"a secret of {len(secret)} bytes came to be shared; it must be {SECRET_BYTES}.")
    if not 1 <= t <= n:
        raise SealError(f"{n} shares with threshold {t} were asked for; the threshold must be from 1 to {n}.")
    polynomial = [int.from_bytes(secret), *(secrets.randbelow(PRIME) for _ in range(t - 1))]
    return [Share(x, _value(polynomial, x)) for x in range(1, n + 1)]


def _value(polynomial: Sequence[int], x: int) -> int:
    """The polynomial at ``x``, by Horner's rule."""
    total = 0
    for coefficient in reversed(polynomial):
        total = (total * x + coefficient) % PRIME
    return total


def join(shares: Sequence[Share]) -> bytes:
    """The secret of ``t`` or more shares; too few shares, or shares of different secrets, are refused.

    >>> join(split(b"k" * 32, n=5, t=3)[:2])
    Traceback (most recent call last):
    colonnade.errors.SealError: 2 shares do not join to a secret; they are too few or of different secrets.
    """
    places = [share.x for share in shares]
    if len(set(places)) != len(places) or not all(0 < x < PRIME and 0 <= y < PRIME for x, y in shares):
        raise SealError(f"shares of holders {places} came; every holder must be a positive number and come once.")
    value = sum(share.y * _weight(share.x, places) for share in shares) % PRIME
    if not shares or value >> (8 * SECRET_BYTES):
        raise SealError(f"{len(shares)} shares do not join to a secret; they are too few or of different secrets.")
    return value.to_bytes(SECRET_BYTES)


def _weight(x: int, places: Sequence[int]) -> int:
    """Lagrange's weight of the share at ``x`` for the value at 0."""
    above = below = 1
    for other in places:
        if other != x:
            above = above * other % PRIME
            below = below * (other - x) % PRIME
    return above * pow(below, -1, PRIME) % PRIME
