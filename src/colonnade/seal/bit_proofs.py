"""Proofs that encrypted numbers are noughts and ones, and that there are enough ones, without showing any of them.

Without a proof an owner could encrypt 1, 2, 4, 8, ... instead of labels, and read from the sum of a bin who is in it.
The numbers y of some rows are encrypted as in ``elgamal``: ``r G, r H_t + y_t G``. The proof is the usual one for
committed bits (Groth and Kohlweiss, "One-out-of-many proofs", Eurocrypt 2015), for all rows at once:

1. weights w follow from a hash of the points. For every row the prover draws masks s_t and u, and makes the points
   S of s_t under u. It encrypts the sums ``a = sum w s (1 - 2 y)`` and ``b = - sum w s s``;
2. a challenge c follows from a hash of all that. The prover tells ``f = c y + s`` and ``v = c r + u`` of every row.

Who checks makes S again from f, v and c, and compares the hash. ``sum w f (c - f)`` must be what ``c a + b`` encrypts:
it has the term ``c c sum w y (1 - y)``, which vanishes only if every y is 0 or 1. If a row's numbers are to add up to
one, its masks add up to nought, and its f to c. Neither f nor v tells anything about y, because the masks are random.

That there are at least m ones is proved by encrypting the binary digits of their number less m: the digits are proved
to be noughts and ones, and add up to the sum of all rows, which whoever checks has made itself.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from colonnade.errors import MessageError
from colonnade.seal.elgamal import (
    NEUTRAL,
    ORDER,
    POINT_BYTES,
    LabelKey,
    Points,
    added,
    points_of,
    subtracted,
    times,
    times_base,
)

Array = np.ndarray
WHOLE = 6  # lines that a proof has beside its rows: the challenge, a scalar, and the points of two sums


class BitProof(NamedTuple):
    """A proof about some rows: scalars v and f_1 to f_T of each, uint8 [rows, T + 1, 32], and six lines about all."""

    scalars: Array
    whole: Array


class AtLeast(NamedTuple):
    """A proof that a number is not below another: the points of its binary digits, [digits, 2, 32], and their proof."""

    digits: Array
    proof: BitProof


def prove_bits(key: LabelKey, points: Array, numbers: Array, randoms: Sequence[int], *, one: bool = False) -> BitProof:
    """A proof that all ``numbers`` [rows, T] are 0 or 1, with ``one`` also that each row's add up to 1.

    ``points`` encrypt them with the ``randoms``, one for each row.

    >>> key, numbers, randoms = LabelKey.new(1), np.array([[0], [1], [1]]), [5, 6, 7]
    >>> points = key.encrypted(numbers, randoms)
    >>> check_bits(key.public, points, prove_bits(key, points, numbers, randoms))
    >>> check_bits(key.public, points, prove_bits(key, points, 2 * numbers, randoms))
    Traceback (most recent call last):
    colonnade.errors.MessageError: encrypted labels came with a proof that does not hold; leave that side out.
    """
    seed = _seed(key.public, points, one)
    masks = [_masks(len(key.scalars), one) for _ in randoms]
    blinds = [_drawn() for _ in randoms]
    bits, flat = numbers.reshape(-1).tolist(), [mask for row in masks for mask in row]
    weights = list(islice(_weights(seed), len(bits)))
    sums = (
        sum(w * s * (1 - 2 * y) for w, s, y in zip(weights, flat, bits, strict=True)),
        -sum(w * s * s for w, s in zip(weights, flat, strict=True)),
    )
    hidden = [_drawn(), _drawn()]
    tails = [_encrypted(key.scalars[:1], [own], u) for own, u in zip(sums, hidden, strict=True)]
    made = (_encrypted(key.scalars, row, u) for row, u in zip(masks, blinds, strict=True))
    c = _challenge(seed, made, tails)
    scalars = [
        [c * r + u, *(c * y + s for y, s in zip(row, mask, strict=True))]
        for row, mask, r, u in zip(numbers.tolist(), masks, randoms, blinds, strict=True)
    ]
    whole = [_raw(c), _raw(c * hidden[0] + hidden[1]), *tails[0], *tails[1]]
    return BitProof(_lines([[_raw(own) for own in row] for row in scalars]), _lines([whole])[0])


def check_bits(keys: Sequence[bytes], points: Array, proof: BitProof, *, one: bool = False) -> None:
    """Refuse points for which the proof does not hold."""
    rows, columns, _ = points.shape
    if proof.scalars.shape != points.shape or proof.whole.shape != (WHOLE, POINT_BYTES):
        raise MessageError(
            f"a proof about encrypted labels came in the shapes {proof.scalars.shape} and {proof.whole.shape}; "
            f"{points.shape} and {(WHOLE, POINT_BYTES)} are expected."
        )
    seed, (first, second, *tail) = _seed(keys, points, one), points_of(proof.whole)
    c, tails = _number(first), (tail[:2], tail[2:])
    scalars = [[_number(own) for own in points_of(row)] for row in proof.scalars]
    made = (_made_again(keys, points_of(points[k]), scalars[k], c) for k in range(rows))
    weights = islice(_weights(seed), rows * (columns - 1))
    total = sum(w * f * (c - f) for w, f in zip(weights, (f for row in scalars for f in row[1:]), strict=True))
    due = added([times(c, own) for own in tails[0]], list(tails[1]))
    adds_up = not one or all((sum(row[1:]) - c) % ORDER == 0 for row in scalars)
    if not adds_up or _opened(keys[0], total, _number(second)) != due or c != _challenge(seed, made, tails):
        raise MessageError("encrypted labels came with a proof that does not hold; leave that side out.")


def _made_again(keys: Sequence[bytes], points: Points, scalars: Sequence[int], c: int) -> Points:
    """The points of a row's masks, from what the prover told."""
    v, *told = scalars
    due = [times_base(v), *(added([times(v, key)], [times_base(f)])[0] for key, f in zip(keys, told, strict=True))]
    return subtracted(due, [times(c, point) for point in points])


def _opened(key: bytes, number: int, random: int) -> Points:
    return [times_base(random), added([times(random, key)], [times_base(number)])[0]]


# At least so many ones


def prove_at_least(key: LabelKey, surplus: int, random: int, digits: int) -> AtLeast:
    """A proof that ``surplus``, which points of this random encrypt under the one key, is not below nought."""
    bits = np.array([[surplus >> k & 1] for k in range(digits)])
    later = [_drawn() for _ in range(digits - 1)]
    randoms = [(random - sum(r << k for k, r in enumerate(later, 1))) % ORDER, *later]
    points = key.encrypted(bits, randoms)
    return AtLeast(points, prove_bits(key, points, bits, randoms))


def check_at_least(key: bytes, surplus: Points, proof: AtLeast, digits: int) -> None:
    """Refuse a proof that does not show that what the points ``surplus`` encrypt has so many binary digits."""
    if proof.digits.shape != (digits, 2, POINT_BYTES):
        raise MessageError(f"the digits of a number came in the shape {proof.digits.shape}; {digits} are expected.")
    check_bits([key], proof.digits, proof.proof)
    total = [NEUTRAL, NEUTRAL]
    for line in reversed([points_of(line) for line in proof.digits]):
        total = added(added(total, total), line)
    if total != surplus:
        raise MessageError("encrypted labels came without a proof that enough rows are of every class; refuse them.")


# Scalars and hashes


def _masks(targets: int, one: bool) -> list[int]:
    """Masks of one row; they add up to nought if its numbers add up to one."""
    masks = [_drawn() for _ in range(targets)]
    return [-sum(masks[1:]) % ORDER, *masks[1:]] if one else masks


def _encrypted(scalars: Sequence[int], numbers: Sequence[int], random: int) -> Points:
    """The points of numbers by who has the keys."""
    return [times_base(random), *(times_base(random * x + y) for x, y in zip(scalars, numbers, strict=True))]


def _seed(keys: Sequence[bytes], points: Array, one: bool) -> bytes:
    said = hashlib.sha512(f"colonnade bits {points.shape} {one} ".encode())
    said.update(b"".join(keys))
    said.update(np.ascontiguousarray(points).tobytes())
    return said.digest()


def _weights(seed: bytes) -> Iterable[int]:
    """The powers of a number that follows from the points."""
    base = power = int.from_bytes(hashlib.sha512(seed + b"weights").digest(), "little") % ORDER
    while True:
        yield power
        power = power * base % ORDER


def _challenge(seed: bytes, made: Iterable[Points], tails: Iterable[Points]) -> int:
    said = hashlib.sha512(seed + b"challenge")
    for points in chain(tails, made):
        said.update(b"".join(points))
    return int.from_bytes(said.digest(), "little") % ORDER


def _drawn() -> int:
    return 1 + secrets.randbelow(ORDER - 1)


def _raw(number: int) -> bytes:
    return (number % ORDER).to_bytes(POINT_BYTES, "little")


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "little") % ORDER


def _lines(lines: Sequence[Sequence[bytes]]) -> Array:
    raw = b"".join(b"".join(line) for line in lines)
    return np.frombuffer(raw, np.uint8).reshape(len(lines), -1, POINT_BYTES).copy()
