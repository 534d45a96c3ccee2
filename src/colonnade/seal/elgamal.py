"""Whole numbers that a party adds up without reading them: exponential ElGamal on Ed25519, by libsodium.

With secret keys x_t and public ones H_t = x_t G, a row's numbers y_1, ..., y_T become the points

    ``r G,  r H_1 + y_1 G,  ...,  r H_T + y_T G``     with a fresh r for every row.

Several numbers of one row share r G, which is as safe as an r for each (Kurosawa, "Multi-recipient public-key
encryption with shortened ciphertext", PKC 2002). Sums of rows, point by point, are the points of the sums of their
numbers. Who has the keys opens a sum and finds the number by baby steps and giant steps, which is quick because sums
are small. To everybody else the points of any two rows look alike (decisional Diffie-Hellman).

Whoever adds rows up *refreshes* a sum before it leaves: it multiplies all points by 8 and adds the points of nought
under a fresh r. After that the points say nothing but the sum, also to an owner that sent something else than was
agreed: points of small order, which the curve has and with which rows could be marked, end with the factor 8.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import count, islice
from typing import Any

import numpy as np

from colonnade.errors import ConfigError, MessageError

try:
    from nacl.bindings import (
        crypto_core_ed25519_add,
        crypto_core_ed25519_is_valid_point,
        crypto_core_ed25519_sub,
        crypto_scalarmult_ed25519_base_noclamp,
        crypto_scalarmult_ed25519_noclamp,
    )
    from nacl.exceptions import CryptoError
except ImportError:  # pragma: no cover - the tests have it
    crypto_core_ed25519_add = None  # type: ignore[assignment]

POINT_BYTES = 32
ORDER = 2**252 + 27742317777372353535851937790883648493
NEUTRAL = (1).to_bytes(POINT_BYTES, "little")
_COFACTOR = 8
_LEAST_TABLE, _LARGEST_TABLE = 1 << 10, 1 << 16  # baby steps: 32 bytes and 30 microseconds each

Points = list[bytes]
"""One row's points, or those of a sum: T + 1 of them."""


def check_elgamal() -> None:
    """Refuse to start without PyNaCl."""
    if crypto_core_ed25519_add is None:
        raise ConfigError("encrypting labels needs PyNaCl, which is not installed; pip install 'colonnade[tables]'.")


def times_base(scalar: int) -> bytes:
    """A multiple of the base point."""
    rest = scalar % ORDER
    return crypto_scalarmult_ed25519_base_noclamp(_scalar(rest)) if rest else NEUTRAL


def times(scalar: int, point: bytes) -> bytes:
    """A multiple of a point of the large group; other points are refused."""
    try:
        return crypto_scalarmult_ed25519_noclamp(_scalar(scalar), point)
    except CryptoError:
        raise MessageError("a point came that is not in the curve's large group; leave that side out.") from None


def scalars(key: bytes | None = None) -> Iterator[int]:
    """Random scalars without end: fresh ones, or those that follow from a secret key.

    >>> [next(scalars(bytes(32))) == next(scalars(bytes(32))), next(scalars()) == next(scalars())]
    [True, False]
    """
    for number in count():
        if key is None:
            yield 1 + secrets.randbelow(ORDER - 1)
        else:
            drawn = hmac.digest(key, b"colonnade scalar" + number.to_bytes(8, "little"), "sha512")
            yield 1 + int.from_bytes(drawn, "little") % (ORDER - 1)


@dataclass(frozen=True)
class LabelKey:
    """The owner's secret: one number for each of the T numbers that a row has.

    >>> key = LabelKey.new(1)
    >>> once, again = key.encrypted(np.array([[1], [1]]))
    >>> bool((once == again).all(axis=1).any())  # the same label, and no point alike
    False
    >>> total = refreshed(added([row.tobytes() for row in once], [row.tobytes() for row in again]), key.public)
    >>> key.opened(total, SmallSums(5), 0, 5)
    [2]
    """

    scalars: tuple[int, ...] = field(repr=False)

    @staticmethod
    def new(targets: int, draws: Iterator[int] | None = None) -> LabelKey:
        """Keys for this many numbers a row, fresh ones unless ``draws`` gives some."""
        check_elgamal()
        return LabelKey(tuple(islice(draws or scalars(), targets)))

    def only(self, target: int) -> LabelKey:
        """The key of one of the numbers."""
        return LabelKey((self.scalars[target],))

    @property
    def public(self) -> Points:
        """The keys that everybody may know."""
        return [times_base(scalar) for scalar in self.scalars]

    def encrypted(self, numbers: np.ndarray, randoms: Sequence[int] | None = None) -> np.ndarray:
        """The points of whole numbers [rows, T], uint8 [rows, T + 1, 32]; ``randoms`` has an r for each row."""
        drawn = randoms or list(islice(scalars(), len(numbers)))
        raw = b"".join(self._points(row, r) for row, r in zip(numbers.tolist(), drawn, strict=True))
        return np.frombuffer(raw, np.uint8).reshape(len(numbers), len(self.scalars) + 1, POINT_BYTES)

    def _points(self, numbers: Sequence[int], r: int) -> bytes:
        """One row's points. Who has the keys needs multiples of the base point only, which are the quick ones."""
        return b"".join(
            times_base(own) for own in (r, *(r * x + y for x, y in zip(self.scalars, numbers, strict=True)))
        )

    def opened(self, points: Points, sums: SmallSums, low: int, high: int) -> list[int]:
        """The T numbers of a refreshed sum, each of which lies from ``low`` to ``high``."""
        try:
            shared = [crypto_scalarmult_ed25519_noclamp(_scalar(scalar), points[0]) for scalar in self.scalars]
            plain = [crypto_core_ed25519_sub(own, hidden) for own, hidden in zip(points[1:], shared, strict=True)]
        except CryptoError:
            raise MessageError("a sum of encrypted labels holds points that are not on the curve.") from None
        return [sums.find(point, low, high) for point in plain]


class SmallSums:
    """Finds k for the point 8 k G, of which it keeps the first ones.

    >>> SmallSums(1000).find(times_base(8 * -713), -1000, 1000)
    -713
    """

    def __init__(self, bound: int) -> None:
        size = min(max(int((2 * bound) ** 0.5), _LEAST_TABLE), _LARGEST_TABLE)
        step, point = times_base(_COFACTOR), NEUTRAL
        self._known: dict[bytes, int] = {}
        for number in range(size):
            self._known[point] = number
            point = crypto_core_ed25519_add(point, step)
        self._giant = point

    def find(self, point: bytes, low: int, high: int) -> int:
        """The number of a point, if it lies from ``low`` to ``high``."""
        rest = crypto_core_ed25519_sub(point, times_base(_COFACTOR * low))
        for giant in range((high - low) // len(self._known) + 1):
            if rest in self._known:
                return low + giant * len(self._known) + self._known[rest]
            rest = crypto_core_ed25519_sub(rest, self._giant)
        raise MessageError(f"a sum of encrypted labels is not between {low:,} and {high:,}, where it must lie.")


# The side that adds up


def check_key(raw: bytes) -> bytes:
    """Another side's public key, if it is a point of the large group."""
    check_elgamal()
    if not crypto_core_ed25519_is_valid_point(raw):
        raise MessageError("a public key came that is no point of the curve's large group; leave that side out.")
    return raw


def added(first: Points, second: Points) -> Points:
    """The points of the sum of two rows or sums."""
    try:
        return [crypto_core_ed25519_add(one, other) for one, other in zip(first, second, strict=True)]
    except CryptoError:
        raise MessageError(
            "encrypted labels came with a point that is not on the curve; leave that side out."
        ) from None


def subtracted(first: Points, second: Points) -> Points:
    """The points of the difference of two sums."""
    return [crypto_core_ed25519_sub(one, other) for one, other in zip(first, second, strict=True)]


def nought(targets: int) -> Points:
    """The points of a sum of no rows."""
    return [NEUTRAL] * (targets + 1)


def weighted(sums: dict[int, Points], targets: int) -> Points:
    """The sum over weights of weight times points, with additions only: weights are small whole numbers."""
    up = _climbed({weight: own for weight, own in sums.items() if weight > 0}, targets)
    down = _climbed({-weight: own for weight, own in sums.items() if weight < 0}, targets)
    return subtracted(up, down)


def _climbed(sums: dict[int, Points], targets: int) -> Points:
    """Add up the sums of all weights from 1 to each weight: a sum is then counted as often as its weight says."""
    above = total = nought(targets)
    for weight in range(max(sums, default=0), 0, -1):
        above = added(above, sums[weight]) if weight in sums else above
        total = added(total, above)
    return total


def refreshed(points: Points, keys: Sequence[bytes], noise: Sequence[int] | None = None) -> Points:
    """A sum that tells nothing but its numbers, to which ``noise`` is added, one whole number for each."""
    r = 1 + secrets.randbelow(ORDER - 1)
    hidden = [crypto_scalarmult_ed25519_noclamp(_scalar(r), key) for key in keys]
    moved = [times_base(_COFACTOR * number) for number in noise or [0] * len(keys)]
    fresh = [times_base(r), *map(crypto_core_ed25519_add, hidden, moved)]
    return added([_eightfold(point) for point in points], fresh)


def _eightfold(point: bytes) -> bytes:
    return reduce(lambda double, _: crypto_core_ed25519_add(double, double), range(3), point)


class EncryptedRows:
    """All rows' points, as they came; ``by_code`` adds them up."""

    def __init__(self, points: np.ndarray) -> None:
        self.rows, self.targets = len(points), points.shape[1] - 1
        self._raw = [np.ascontiguousarray(points[:, k]).tobytes() for k in range(self.targets + 1)]

    def row(self, number: int) -> Points:
        """One row's points."""
        at = POINT_BYTES * number
        return [raw[at : at + POINT_BYTES] for raw in self._raw]

    @cached_property
    def total(self) -> Points:
        """The points of the sum of all rows."""
        return reduce(added, map(self.row, range(1, self.rows)), self.row(0))

    def by_code(self, codes: np.ndarray, total: Points) -> dict[int, Points]:
        """The sum of the rows of each code. The most frequent code's is what the others leave of the total."""
        sums: dict[int, Points] = {}
        values, counts = np.unique(codes, return_counts=True)
        most = int(values[counts.argmax()])
        for number in np.flatnonzero(codes != most).tolist():
            code, row = int(codes[number]), self.row(number)
            sums[code] = added(sums[code], row) if code in sums else row
        rest = reduce(added, sums.values(), nought(self.targets))
        return {**sums, most: subtracted(total, rest)}

    def by_codes(self, columns: Sequence[np.ndarray]) -> list[dict[int, Points]]:
        """The sums of :meth:`by_code` for several columns. Columns of few codes share one pass over the rows."""
        total, results = self.total, [dict[int, Points]()] * len(columns)
        for group in _groups([len(np.unique(codes)) for codes in columns], self.rows):
            uniques = [np.unique(columns[k], return_inverse=True) for k in group]
            shape = [len(values) for values, _ in uniques]
            joint = np.ravel_multi_index([places for _, places in uniques], shape)
            cells = self.by_code(joint, total)
            for place, k in enumerate(group):
                results[k] = _marginal(cells, shape, place, uniques[place][0])
        return results


def _marginal(cells: dict[int, Points], shape: Sequence[int], place: int, values: np.ndarray) -> dict[int, Points]:
    """The sums by one column's codes, from those by the codes of several columns."""
    sums: dict[int, Points] = {}
    for cell, points in cells.items():
        code = int(values[np.unravel_index(cell, shape)[place]])
        sums[code] = added(sums[code], points) if code in sums else points
    return sums


def _groups(codes: Sequence[int], rows: int) -> list[list[int]]:
    """Columns that share a pass: as many as have few enough combinations of codes that adding those up costs less.

    >>> _groups([2, 300, 4, 3], rows=1000)
    [[0, 3, 2], [1]]
    """
    groups: list[list[int]] = []
    cells = 1
    for k in sorted(range(len(codes)), key=lambda k: codes[k]):
        if groups and cells * codes[k] * (len(groups[-1]) + 1) <= rows // 2:
            groups[-1].append(k)
            cells *= codes[k]
        else:
            groups.append([k])
            cells = codes[k]
    return groups


def points_of(array: Any) -> Points:
    """The points of one line of an array, uint8 [T + 1, 32]."""
    return [row.tobytes() for row in array]


def _scalar(number: int) -> bytes:
    return (number % ORDER).to_bytes(POINT_BYTES, "little")
