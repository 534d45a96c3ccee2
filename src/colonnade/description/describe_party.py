"""A party's end of a description: it adds up encrypted labels per bin of its columns, and never reads one.

The protocol, for each party by itself:

1. the owner sends public keys, then every row's label encrypted under them (``seal/elgamal.py``);
2. if the party asks for it, the owner proves that every number is 0 or 1, that a row's add up to one if there are
   several, and that each class has and lacks enough rows (``seal/bit_proofs.py``);
3. the party adds up the encrypted labels of each bin of each column, and for columns of numbers also the labels times
   the column's levels; it refreshes every sum, so that nothing else is left in it, and adds noise if it wants some;
4. the owner opens the sums.

A party answers once: the same bins under other labels would tell an owner that lies which row is where.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch

from colonnade.core.step import party_step
from colonnade.core.table import Table
from colonnade.description.describe_messages import (
    CHUNK,
    BinSums,
    GroupProofs,
    LabelChunk,
    LabelProofs,
    Targets,
    ToldColumn,
    ToldFacts,
    facts_tensor,
)
from colonnade.description.label_targets import MOST_TARGETS, NARROW, STEPS, WIDE
from colonnade.description.own_columns import FINE, LEVELS, OwnColumn, PartyRules, own_columns, stability
from colonnade.errors import MessageError, SealError
from colonnade.seal import accountant
from colonnade.seal.bit_proofs import AtLeast, BitProof, check_at_least, check_bits
from colonnade.seal.elgamal import (
    NEUTRAL,
    POINT_BYTES,
    EncryptedRows,
    Points,
    added,
    check_key,
    refreshed,
    subtracted,
    times_base,
    weighted,
)
from colonnade.seal.noise import NoiseSource

_PRODUCT = LEVELS * NARROW  # the largest level if noise must cover it
_SPAN = 4 * FINE * WIDE  # more levels than a column has


class DescribeParty:
    """One party's end. ``key`` is the secret that its noise follows from."""

    def __init__(
        self,
        name: str,
        table: Table,
        later: Table | None,
        rules: PartyRules,
        key: bytes,
        note: Callable[[bytes], None] | None = None,
    ) -> None:
        """``note`` is called before the answer is made, with a digest of all that the answer follows from."""
        self.name, self.rows, self.rules, self.note = name, table.rows, rules, note
        self.own = own_columns(table, later, rules)
        self._noise, self._keys = NoiseSource(key), list[bytes]()
        self._sizes, self._chunks = (0, 0, 0), list[np.ndarray]()
        self._answered = False
        self._believed, self._groups_believed = 0, False  # rows whose labels were proved, and whether enough of each

    @party_step
    def begin(self, message: Targets) -> None:
        """Take the owner's public keys."""
        keys, sizes = message
        if keys.dtype != torch.uint8 or keys.ndim != 2 or keys.shape[1] != POINT_BYTES or len(keys) > MOST_TARGETS:
            raise MessageError(f"keys came as {keys.dtype} of shape {tuple(keys.shape)}; expected 1 to 20 of 32 bytes.")
        if sizes.dtype != torch.int64 or tuple(sizes.shape) != (3,):
            raise MessageError(f"sizes came as {sizes.dtype} of shape {tuple(sizes.shape)}; expected three numbers.")
        rows, bound, together = sizes.tolist()
        if rows != self.rows or not 1 <= bound <= STEPS * WIDE or not 1 <= together <= len(keys):
            raise MessageError(
                f"labels of {rows} rows up to {bound} are announced, {together} a row; '{self.name}' has {self.rows} "
                f"rows, and labels go up to {STEPS * WIDE}: align the rows, or leave that owner out."
            )
        if self.rules.proof and (bound, together) != (1, 1):
            raise MessageError(
                f"labels up to {bound} are announced, {together} a row; '{self.name}' asks for a proof that every row "
                "is of one class, so describe classes, or agree with it on proof = false."
            )
        if self._keys:
            raise SealError(f"'{self.name}' was asked to describe its columns a second time; it answers once.")
        self._keys = [check_key(row.numpy().tobytes()) for row in keys]
        self._sizes = rows, bound, together

    @party_step
    def hear(self, message: LabelChunk) -> None:
        """Take the encrypted labels of some rows."""
        start, points = message
        there = sum(map(len, self._chunks))
        shape = (min(CHUNK, self.rows - there), len(self._keys) + 1, POINT_BYTES)
        fits = points.dtype == torch.uint8 and tuple(points.shape) == shape and start.dtype == torch.int64
        if not self._keys or shape[0] < 1 or not fits or start.shape != () or int(start) != there:
            raise MessageError(
                f"encrypted labels came as {points.dtype} of shape {tuple(points.shape)}, where rows from {there} on "
                f"of shape {shape} are expected; keep the order."
            )
        self._check_believed(there)
        self._chunks.append(points.numpy())

    @party_step
    def believe(self, message: LabelProofs) -> None:
        """Check the proof that the rows that came last are labels: 0 or 1, and one of a row if there are several."""
        there = sum(map(len, self._chunks))
        if not self.rules.proof or self._believed == there:
            raise MessageError(f"a proof about labels came to '{self.name}', which waits for none; keep the order.")
        proof = BitProof(*(_bytes(part) for part in message))
        check_bits(self._keys, self._chunks[-1], proof, one=len(self._keys) > 1)
        self._believed = there

    @party_step
    def believe_groups(self, message: GroupProofs) -> None:
        """Check the proofs that at least as many rows as a bin must have are of each class, and are not."""
        self._check_believed(sum(map(len, self._chunks)))
        if not self.rules.proof or self._groups_believed or sum(map(len, self._chunks)) != self.rows:
            raise MessageError(f"a proof about groups came to '{self.name}', which waits for none; keep the order.")
        check_groups(self._keys, self._encrypted.total, message, self.rows, self.rules.minimum)
        self._groups_believed = True

    def _check_believed(self, there: int) -> None:
        if self.rules.proof and self._believed != there:
            raise SealError(f"'{self.name}' was given {there} labels and a proof of {self._believed}; it asks for all.")

    @cached_property
    def _encrypted(self) -> EncryptedRows:
        """All labels, once all came."""
        return EncryptedRows(np.concatenate(self._chunks))

    @party_step
    def answer(self) -> BinSums:
        """The sums of every bin, refreshed, with the noise that the party's rules want."""
        if not self._keys or self._answered or sum(map(len, self._chunks)) != self.rows:
            raise SealError(f"'{self.name}' is asked for sums before all labels came, or a second time; stop.")
        self._check_believed(self.rows)
        if self.rules.proof and not self._groups_believed:
            raise SealError(f"'{self.name}' is asked for sums without a proof that they are of enough people; stop.")
        self._answered = True
        digest = self._digest()
        if self.note is not None:
            self.note(digest)
        facts, noise = self._facts(digest)
        columns = self.own.columns
        by_cell = self._encrypted.by_codes([_cells(column) for column in columns])
        sums, products = [], []
        for column, cells in zip(columns, by_cell, strict=True):
            sums += _per_bin(column, cells)
            products += [weighted(_per_level(cells), len(self._keys))] if column.levels is not None else []
        return BinSums(facts_tensor(facts), self._sealed(sums, noise[0]), self._sealed(products, noise[1]))

    def _sealed(self, sums: Sequence[Points], noise: np.ndarray) -> torch.Tensor:
        raw = [b"".join(refreshed(own, self._keys, extra)) for own, extra in zip(sums, noise.tolist(), strict=True)]
        shape = len(sums), len(self._keys) + 1, POINT_BYTES
        return torch.frombuffer(bytearray(b"".join(raw)), dtype=torch.uint8).reshape(shape) if raw else _none(shape)

    # What is said in the clear

    def _facts(self, digest: bytes) -> tuple[ToldFacts, tuple[np.ndarray, np.ndarray]]:
        """The facts about all columns, and whole-number noise for the sums and the products."""
        columns, targets = self.own.columns, len(self._keys)
        bins, numbers = sum(len(c.titles) for c in columns), sum(c.levels is not None for c in columns)
        sigma = self._sigma(numbers)
        _, bound, _ = self._sizes

        def drawn(what: str, shape: tuple[int, ...], scale: float) -> np.ndarray:
            if not sigma:
                return np.zeros(shape, np.int64)
            label = f"describe {what} {self.name} {self.rules}"
            noise: np.ndarray = self._noise.gaussian(label, digest, shape).numpy()
            return np.round(noise * sigma * scale).astype(np.int64)

        counts, later = drawn("counts", (bins,), 1.0), drawn("later", (bins + len(columns),), 1.0)
        told, at = [], 0
        for k, column in enumerate(columns):
            until = at + len(column.titles)
            told.append(self._told(column, counts[at:until], later[at + k : until + k + 1], noisy=sigma > 0))
            at = until
        facts = ToldFacts(self.rules.minimum, sigma, self.own.notes, tuple(told))
        return facts, (drawn("sums", (bins, targets), bound), drawn("products", (numbers, targets), bound * _PRODUCT))

    def _digest(self) -> bytes:
        """A digest of keys and labels as they came and of the party's own rows: if any is another, so is all noise."""
        digest = hashlib.sha256(b"".join([*self._keys, *(chunk.tobytes() for chunk in self._chunks)]))
        for column in self.own.columns:
            for part in (column.codes, column.levels, column.later):
                digest.update(b"" if part is None else part.tobytes())
        return digest.digest()

    def _told(self, column: OwnColumn, counts: np.ndarray, later: np.ndarray, *, noisy: bool) -> ToldColumn:
        told = np.maximum(column.counts + counts, 1)
        stable = None
        if column.later is not None:
            stable = stability(told, np.maximum(column.later + later, 0), self.rules.minimum)
        levels: tuple[float, ...] | None = None
        if column.levels is not None:
            levels = () if noisy else (float(column.levels.sum()), float((column.levels**2).sum()))
        return ToldColumn(
            column.name, column.titles, tuple(told.tolist()), self._missing(column, told, noisy), stable, levels
        )

    def _missing(self, column: OwnColumn, told: np.ndarray, noisy: bool) -> float | None:
        """The share of missing values; None if they are too few to be told, or if noise would have to cover them."""
        if noisy:  # their bin's count has noise already
            return None if column.missing_bin is None else min(float(told[column.missing_bin]) / self.rows, 1.0)
        return None if 0 < column.missing < self.rules.minimum else column.missing / self.rows

    def _sigma(self, numbers: int) -> float:
        """The deviation of the noise on a count, so that all that leaves together costs the party's epsilon."""
        if self.rules.epsilon is None:
            return 0.0
        columns = self.own.columns
        releases = len(columns) + numbers + sum(column.later is not None for column in columns)
        return noise_multiplier(self.rules.epsilon, self.rules.delta, releases) * 2.0 * math.sqrt(self._sizes[2])


def check_groups(keys: Sequence[bytes], total: Points, message: GroupProofs, rows: int, minimum: int) -> None:
    """Refuse proofs that do not show that every target has, and has not, at least ``minimum`` rows."""
    told, (digits, scalars, whole) = message.minimum.numpy(), map(_bytes, message[1:])
    fits = told.dtype == np.int64 and told.shape == () and minimum <= int(told) <= rows
    if not fits or {part.shape[:1] for part in (digits, scalars, whole)} != {(2 * len(keys),)}:
        raise MessageError(
            f"proofs of shape {digits.shape} about groups of {told} rows came; two for each of {len(keys)} targets and "
            f"at least {minimum} rows are expected."
        )
    least = int(told)
    for k, key in enumerate(keys):
        with_it = [total[0], subtracted([total[k + 1]], [times_base(least)])[0]]
        without = subtracted([NEUTRAL, times_base(rows - least)], [total[0], total[k + 1]])
        for at, surplus in ((2 * k, with_it), (2 * k + 1, without)):
            proof = AtLeast(digits[at], BitProof(scalars[at], whole[at]))
            check_at_least(key, surplus, proof, rows.bit_length())


def noise_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """The least deviation, over the sensitivity, with which this many Gaussian releases cost at most epsilon.

    >>> round(noise_multiplier(1.0, 1e-5, 1), 2)
    4.05
    """
    low, high = 1e-3, 1e7
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if accountant.epsilon(releases, middle, delta) <= epsilon else (middle, high)
    return high


def _cells(column: OwnColumn) -> np.ndarray:
    """A number for each pair of bin and level, so that one pass over the rows serves both."""
    if column.levels is None:
        return column.codes
    cells: np.ndarray = column.codes * _SPAN + (column.levels + _SPAN // 2)
    return cells


def _per_bin(column: OwnColumn, cells: dict[int, Points]) -> list[Points]:
    span = 1 if column.levels is None else _SPAN
    return _gathered({cell: (cell // span, points) for cell, points in cells.items()}, len(column.titles))


def _per_level(cells: dict[int, Points]) -> dict[int, Points]:
    levels = sorted({cell % _SPAN for cell in cells})
    place = {level: k for k, level in enumerate(levels)}
    sums = _gathered({cell: (place[cell % _SPAN], points) for cell, points in cells.items()}, len(levels))
    return {level - _SPAN // 2: points for level, points in zip(levels, sums, strict=True)}


def _gathered(cells: dict[int, tuple[int, Points]], count: int) -> list[Points]:
    """The sums of cells that belong to the same of ``count`` places."""
    sums: list[Points | None] = [None] * count
    for place, points in cells.values():
        before = sums[place]
        sums[place] = points if before is None else added(before, points)
    return [own for own in sums if own is not None]


def _bytes(part: torch.Tensor) -> np.ndarray:
    if part.dtype != torch.uint8:
        raise MessageError(f"a proof about labels came as {part.dtype}; expected bytes.")
    return part.numpy()


def _none(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.uint8)
