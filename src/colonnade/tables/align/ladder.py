"""X25519 of many points at once, on vector units, compiled by numba: the same bytes as libsodium, in less time.

A library computes one point after the other. All points of an alignment have the same key, so their ladders go through
the same steps, and a vector unit takes ``LANES`` of them at a time. The ladder is that of RFC 7748, section 5. A number
modulo p = 2^255 - 19 is ten limbs of 26 and 25 bits in turn, as in "ref10" of SUPERCOP; a product of two limbs and the
sum of ten of them fit in 64 bits. There is no branch and no address that depends on a key or a point.

Bounds: ``carried`` leaves limbs of 26 and 25 bits and a little more, at most 2^17 of it. A sum of two such numbers, or
a difference, to which ``less`` adds 2p, has limbs below 2^27.6 and 2^26.6. Times 19, or 38 for the odd ones, those are
below 2^32, which a vector multiplier reads; ten products of two are below 2^63. Nothing is multiplied that was added
to or taken from twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

LANES = 8
LIMBS = 10
WORD = LANES * LIMBS
"""The length of one number of every lane."""
Limbs = tuple[Any, ...]
F = TypeVar("F", bound=Callable[..., Any])

# Where numbers lie in the memory of a ladder.
X2, Z2, X3, Z3, X1, POWER, FACTOR, T0, T1, T2 = range(0, 10 * WORD, WORD)
MEMORY = 10 * WORD
# X2 / Z2: one over a number is its power p - 2. A line says which number to put where: one that is squared so often and
# then multiplied by another.
CHAIN = np.array(
    [
        (T1, Z2, 3, Z2),  # the power 9
        (T0, Z2, 1, T1),  # 11
        (T1, T0, 1, T1),  # 2^5 - 1
        (T1, T1, 5, T1),  # 2^10 - 1
        (T2, T1, 10, T1),  # 2^20 - 1
        (T2, T2, 20, T2),  # 2^40 - 1
        (T1, T2, 10, T1),  # 2^50 - 1
        (T2, T1, 50, T1),  # 2^100 - 1
        (T2, T2, 100, T2),  # 2^200 - 1
        (T1, T2, 50, T1),  # 2^250 - 1
        (T1, T1, 5, T0),  # 2^255 - 21, which is p - 2
        (X2, X2, 0, T1),
    ]
)
_BITS = [26, 25] * 5
_STARTS = [0, 26, 51, 77, 102, 128, 153, 179, 204, 230]

# In numba a sum of an unsigned number and a plain one would be a float, so every constant is an unsigned one.
LOW_25, LOW_26, LOW_32 = np.uint64(2**25 - 1), np.uint64(2**26 - 1), np.uint64(2**32 - 1)
SHIFT_25, SHIFT_26 = np.uint64(25), np.uint64(26)
ONE, TWO, NINETEEN, THIRTY_EIGHT = np.uint64(1), np.uint64(2), np.uint64(19), np.uint64(38)
NAUGHT, A_24 = np.uint64(0), np.uint64(121666)
TWO_P_0, TWO_P_EVEN, TWO_P_ODD = np.uint64(2**27 - 38), np.uint64(2**27 - 2), np.uint64(2**26 - 2)


def compiled(function: F) -> F:
    """A function in machine code that becomes a part of the one that calls it."""
    made: F = njit(function, forceinline=True)
    return made


def called(function: F) -> F:
    """A function in machine code that is there once."""
    made: F = njit(function)
    return made


@compiled
def carried(h: Limbs) -> Limbs:
    """The same number with short limbs; what is above 2^255 comes back 19 times at the bottom."""
    h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 = h
    h1, h0 = h1 + (h0 >> SHIFT_26), h0 & LOW_26
    h5, h4 = h5 + (h4 >> SHIFT_26), h4 & LOW_26
    h2, h1 = h2 + (h1 >> SHIFT_25), h1 & LOW_25
    h6, h5 = h6 + (h5 >> SHIFT_25), h5 & LOW_25
    h3, h2 = h3 + (h2 >> SHIFT_26), h2 & LOW_26
    h7, h6 = h7 + (h6 >> SHIFT_26), h6 & LOW_26
    h4, h3 = h4 + (h3 >> SHIFT_25), h3 & LOW_25
    h8, h7 = h8 + (h7 >> SHIFT_25), h7 & LOW_25
    h5, h4 = h5 + (h4 >> SHIFT_26), h4 & LOW_26
    h9, h8 = h9 + (h8 >> SHIFT_26), h8 & LOW_26
    h0, h9 = h0 + (h9 >> SHIFT_25) * NINETEEN, h9 & LOW_25
    h1, h0 = h1 + (h0 >> SHIFT_26), h0 & LOW_26
    return h0, h1, h2, h3, h4, h5, h6, h7, h8, h9


@compiled
def times(f: Limbs, by: Any) -> Limbs:
    """Every limb times a small number; all stay below 2^32, and the mask lets the compiler know it."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    low = f0 * by & LOW_32, f1 * by & LOW_32, f2 * by & LOW_32, f3 * by & LOW_32, f4 * by & LOW_32
    high = f5 * by & LOW_32, f6 * by & LOW_32, f7 * by & LOW_32, f8 * by & LOW_32, f9 * by & LOW_32
    return low + high


@compiled
def multiplied(f: Limbs, g: Limbs) -> Limbs:
    """The product of two numbers. Two odd limbs start half a bit too high, so d are limbs twice; n are 19 times."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = times(f, ONE)
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = times(g, ONE)
    _, d1, _, d3, _, d5, _, d7, _, d9 = times(f, TWO)
    _, n1, n2, n3, n4, n5, n6, n7, n8, n9 = times(g, NINETEEN)
    product = (
        f0 * g0 + d1 * n9 + f2 * n8 + d3 * n7 + f4 * n6 + d5 * n5 + f6 * n4 + d7 * n3 + f8 * n2 + d9 * n1,
        f0 * g1 + f1 * g0 + f2 * n9 + f3 * n8 + f4 * n7 + f5 * n6 + f6 * n5 + f7 * n4 + f8 * n3 + f9 * n2,
        f0 * g2 + d1 * g1 + f2 * g0 + d3 * n9 + f4 * n8 + d5 * n7 + f6 * n6 + d7 * n5 + f8 * n4 + d9 * n3,
        f0 * g3 + f1 * g2 + f2 * g1 + f3 * g0 + f4 * n9 + f5 * n8 + f6 * n7 + f7 * n6 + f8 * n5 + f9 * n4,
        f0 * g4 + d1 * g3 + f2 * g2 + d3 * g1 + f4 * g0 + d5 * n9 + f6 * n8 + d7 * n7 + f8 * n6 + d9 * n5,
        f0 * g5 + f1 * g4 + f2 * g3 + f3 * g2 + f4 * g1 + f5 * g0 + f6 * n9 + f7 * n8 + f8 * n7 + f9 * n6,
        f0 * g6 + d1 * g5 + f2 * g4 + d3 * g3 + f4 * g2 + d5 * g1 + f6 * g0 + d7 * n9 + f8 * n8 + d9 * n7,
        f0 * g7 + f1 * g6 + f2 * g5 + f3 * g4 + f4 * g3 + f5 * g2 + f6 * g1 + f7 * g0 + f8 * n9 + f9 * n8,
        f0 * g8 + d1 * g7 + f2 * g6 + d3 * g5 + f4 * g4 + d5 * g3 + f6 * g2 + d7 * g1 + f8 * g0 + d9 * n9,
        f0 * g9 + f1 * g8 + f2 * g7 + f3 * g6 + f4 * g5 + f5 * g4 + f6 * g3 + f7 * g2 + f8 * g1 + f9 * g0,
    )
    return carried(product)


@compiled
def squared(f: Limbs) -> Limbs:
    """The square of a number: most products of two limbs occur twice, so it takes 55 of them instead of 100."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = times(f, ONE)
    d0, d1, d2, d3, d4, d5, d6, d7, d8, _ = times(f, TWO)
    _, _, _, _, _, _, n6, n7, n8, n9 = times(f, NINETEEN)
    _, _, _, _, _, m5, _, m7, _, m9 = times(f, THIRTY_EIGHT)
    product = (
        f0 * f0 + d1 * m9 + d2 * n8 + d3 * m7 + d4 * n6 + f5 * m5,
        d0 * f1 + d2 * n9 + d3 * n8 + d4 * n7 + d5 * n6,
        d0 * f2 + d1 * f1 + d3 * m9 + d4 * n8 + d5 * m7 + f6 * n6,
        d0 * f3 + d1 * f2 + d4 * n9 + d5 * n8 + d6 * n7,
        d0 * f4 + d1 * d3 + f2 * f2 + d5 * m9 + d6 * n8 + f7 * m7,
        d0 * f5 + d1 * f4 + d2 * f3 + d6 * n9 + d7 * n8,
        d0 * f6 + d1 * d5 + d2 * f4 + d3 * f3 + d7 * m9 + f8 * n8,
        d0 * f7 + d1 * f6 + d2 * f5 + d3 * f4 + d8 * n9,
        d0 * f8 + d1 * d7 + d2 * f6 + d3 * d5 + f4 * f4 + f9 * m9,
        d0 * f9 + d1 * f8 + d2 * f7 + d3 * f6 + d4 * f5,
    )
    return carried(product)


@compiled
def added(f: Limbs, g: Limbs) -> Limbs:
    """The sum of two numbers, with limbs as long as they come."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = g
    return f0 + g0, f1 + g1, f2 + g2, f3 + g3, f4 + g4, f5 + g5, f6 + g6, f7 + g7, f8 + g8, f9 + g9


@compiled
def less(f: Limbs, g: Limbs) -> Limbs:
    """The difference of two numbers, plus 2p, so that no limb is below nought."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = g
    even, odd = TWO_P_EVEN, TWO_P_ODD
    low = f0 + TWO_P_0 - g0, f1 + odd - g1, f2 + even - g2, f3 + odd - g3, f4 + even - g4
    high = f5 + odd - g5, f6 + even - g6, f7 + odd - g7, f8 + even - g8, f9 + odd - g9
    return low + high


@compiled
def swapped(f: Limbs, g: Limbs, mask: Any) -> Limbs:
    """The first number where the mask is nought, the second where it is all ones."""
    f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = f
    g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = g
    low = f0 ^ mask & (f0 ^ g0), f1 ^ mask & (f1 ^ g1), f2 ^ mask & (f2 ^ g2), f3 ^ mask & (f3 ^ g3)
    middle = f4 ^ mask & (f4 ^ g4), f5 ^ mask & (f5 ^ g5), f6 ^ mask & (f6 ^ g6), f7 ^ mask & (f7 ^ g7)
    return low + middle + (f8 ^ mask & (f8 ^ g8), f9 ^ mask & (f9 ^ g9))


@compiled
def load(memory: Any, at: int, lane: int) -> Limbs:
    """One lane's number."""
    m, k, n = memory, at + lane, LANES
    low = m[k], m[k + n], m[k + 2 * n], m[k + 3 * n], m[k + 4 * n]
    return low + (m[k + 5 * n], m[k + 6 * n], m[k + 7 * n], m[k + 8 * n], m[k + 9 * n])


@compiled
def store(memory: Any, at: int, lane: int, f: Limbs) -> None:
    """Put one lane's number into the memory."""
    m, k, n = memory, at + lane, LANES
    m[k], m[k + n], m[k + 2 * n], m[k + 3 * n], m[k + 4 * n] = f[0], f[1], f[2], f[3], f[4]
    m[k + 5 * n], m[k + 6 * n], m[k + 7 * n], m[k + 8 * n], m[k + 9 * n] = f[5], f[6], f[7], f[8], f[9]


@called
def step(memory: Any, mask: Any) -> None:
    """One step of the ladder in every lane; the mask says whether the two points change places first."""
    for lane in range(LANES):
        p, q = load(memory, X2, lane), load(memory, X3, lane)
        x2, x3 = swapped(p, q, mask), swapped(q, p, mask)
        p, q = load(memory, Z2, lane), load(memory, Z3, lane)
        z2, z3 = swapped(p, q, mask), swapped(q, p, mask)
        da, cb = multiplied(less(x3, z3), added(x2, z2)), multiplied(added(x3, z3), less(x2, z2))
        aa, bb = squared(added(x2, z2)), squared(less(x2, z2))
        e0, e1, e2, e3, e4, e5, e6, e7, e8, e9 = e = less(aa, bb)
        a = A_24
        more = added((e0 * a, e1 * a, e2 * a, e3 * a, e4 * a, e5 * a, e6 * a, e7 * a, e8 * a, e9 * a), bb)
        store(memory, X2, lane, multiplied(aa, bb))
        store(memory, Z2, lane, multiplied(e, carried(more)))
        store(memory, X3, lane, squared(added(da, cb)))
        store(memory, Z3, lane, multiplied(squared(less(da, cb)), load(memory, X1, lane)))


@called
def power(memory: Any, to: int, at: int, squares: int, by: int) -> None:
    """A line of ``CHAIN``. It is worked out at places that do not vary, or the compiler would take lane by lane."""
    for k in range(WORD):
        memory[POWER + k] = memory[at + k]
        memory[FACTOR + k] = memory[by + k]
    for _ in range(squares):
        for lane in range(LANES):
            store(memory, POWER, lane, squared(load(memory, POWER, lane)))
    for lane in range(LANES):
        product = multiplied(load(memory, POWER, lane), load(memory, FACTOR, lane))
        store(memory, POWER, lane, product)
    for k in range(WORD):
        memory[to + k] = memory[POWER + k]


def ladders(bits: Any, numbers: Any, memory: Any) -> None:
    """Each row of ``numbers`` [batches, WORD] has the x of one point per lane; put the x of its multiple there."""
    for row in range(len(numbers)):
        for k in range(WORD):
            first = ONE if k < LANES else NAUGHT
            memory[X2 + k] = memory[Z3 + k] = first
            memory[Z2 + k] = NAUGHT
            memory[X1 + k] = memory[X3 + k] = numbers[row, k]
        last = NAUGHT
        for bit in bits:
            step(memory, NAUGHT - (last ^ bit))
            last = bit
        # The last bit of a key is nought, so the points are where they belong.
        for to, at, squares, by in CHAIN:
            power(memory, to, at, squares, by)
        for k in range(WORD):
            numbers[row, k] = memory[X2 + k]


TYPES = "void(uint64[::1], uint64[:, ::1], uint64[::1])"


def _made() -> Callable[..., None]:
    """The ladder in machine code, kept on disk beside this file, or anew where there is no folder to keep it in."""
    try:
        kept: Callable[..., None] = njit(TYPES, nogil=True, cache=True)(ladders)
    except RuntimeError:
        kept = njit(TYPES, nogil=True)(ladders)
    return kept


_ladders = _made()


def multiply(key: bytes, points: bytes) -> bytes:
    """Each point times the key, by X25519."""
    count = len(points) // 32
    padded = -(-count // LANES) * LANES
    words = np.zeros((padded, 4), np.uint64)
    words[:count] = np.frombuffer(points, "<u8").reshape(count, 4)
    numbers = np.ascontiguousarray(_limbs(words).reshape(LIMBS, -1, LANES).swapaxes(0, 1)).reshape(-1, WORD)
    _ladders(_bits(key), numbers, np.empty(MEMORY, np.uint64))
    limbs = numbers.reshape(-1, LIMBS, LANES).swapaxes(0, 1).reshape(LIMBS, padded)
    return _words(_reduced(limbs))[:count].astype("<u8").tobytes()


def _bits(key: bytes) -> np.ndarray:
    """The bits of a key, the highest first, after X25519 set and cleared those that it fixes."""
    bits = np.unpackbits(np.frombuffer(key, np.uint8), bitorder="little").astype(np.uint64)
    bits[:3], bits[254] = 0, 1
    return np.ascontiguousarray(bits[254::-1])


def _limbs(words: np.ndarray) -> np.ndarray:
    """The limbs [LIMBS, points] of numbers of four words each; bit 255 is left out."""
    limbs = np.empty((LIMBS, len(words)), np.uint64)
    for limb, start, width in zip(limbs, _STARTS, _BITS, strict=True):
        word, shift = divmod(start, 64)
        limb[:] = words[:, word] >> np.uint64(shift)
        if shift + width > 64:
            limb |= words[:, word + 1] << np.uint64(64 - shift)
        limb &= np.uint64(2**width - 1)
    return limbs


def _reduced(limbs: np.ndarray) -> np.ndarray:
    """The same numbers below p."""
    limbs[0] += _rippled(limbs) * NINETEEN
    limbs[0] += _rippled(limbs) * NINETEEN  # now they are below 2^255
    too_large = limbs.copy()
    too_large[0] += NINETEEN
    limbs[0] += _rippled(too_large) * NINETEEN
    _rippled(limbs)
    return limbs


def _rippled(limbs: np.ndarray) -> np.ndarray:
    """Carry from limb to limb, once; the result is what is above 2^255."""
    carry = np.zeros(limbs.shape[1], np.uint64)
    for limb, width in zip(limbs, _BITS, strict=True):
        limb += carry
        carry = limb >> np.uint64(width)
        limb &= np.uint64(2**width - 1)
    return carry


def _words(limbs: np.ndarray) -> np.ndarray:
    """Numbers of four words each [points, 4]."""
    words = np.zeros((limbs.shape[1], 4), np.uint64)
    for limb, start, width in zip(limbs, _STARTS, _BITS, strict=True):
        word, shift = divmod(start, 64)
        words[:, word] |= limb << np.uint64(shift)
        if shift + width > 64:
            words[:, word + 1] |= limb >> np.uint64(64 - shift)
    return words
