"""The owner's end of a description: it encrypts labels for everybody, and opens the sums that come back."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from colonnade.core.method import Parties, Turn
from colonnade.description import describe_messages as messages
from colonnade.description.describe_party import DescribeParty
from colonnade.description.label_targets import NARROW, LabelTargets
from colonnade.description.own_columns import LEVELS, OwnColumn, OwnColumns, PartyRules, stability
from colonnade.errors import ConfigError, MessageError, TableError, naming
from colonnade.seal.bit_proofs import prove_at_least, prove_bits
from colonnade.seal.elgamal import POINT_BYTES, LabelKey, SmallSums, points_of, scalars

PURPOSE = "describe"
_TAIL = 12  # deviations that noise never exceeds
_WIDEST = 1 << 35  # of all sums: finding one takes up to a million additions


@dataclass(frozen=True, eq=False)
class OpenedColumn:
    """What the owner knows of one column: what its party told, and the sums of the targets that were opened."""

    told: messages.ToldColumn
    sums: np.ndarray
    """Whole numbers [bins, T]."""
    products: np.ndarray | None
    """Of a column of numbers: the sum of levels times targets, [T]."""


class DescribeOwner:
    """The owner's end of one description of all parties."""

    def __init__(
        self, parties: Parties, targets: LabelTargets, *, least: int | None = None, secret: bytes | None = None
    ) -> None:
        """With ``least`` the owner proves what it encrypts, and that each class has and lacks so many rows.

        Keys and ciphertexts follow from a ``secret`` and the labels, if one is given: an owner that was started again
        sends the same ones.
        """
        self.parties, self.targets, self.least = parties, targets, least
        self._draws = scalars(None if secret is None else _key_for(secret, targets.numbers))
        self.key = LabelKey.new(len(targets.names), self._draws)
        self.turn = Turn(0, torch.arange(0), purpose=PURPOSE)
        self._random = 0  # of the sum of all rows
        if least is not None:
            _check_groups(targets, least)

    def run(self) -> list[tuple[messages.ToldFacts, list[OpenedColumn]]]:
        """Ask all parties and open their answers, one result per party."""
        self.parties.tell(DescribeParty.begin, self.turn, all=self.opening())
        for chunk, proofs in self.proved_chunks():
            self.parties.tell(DescribeParty.hear, self.turn, all=chunk)
            if proofs is not None:
                self.parties.tell(DescribeParty.believe, self.turn, all=proofs)
        if self.least is not None:
            self.parties.tell(DescribeParty.believe_groups, self.turn, all=self.groups())
        results = []
        for party, name in enumerate(self.parties.names):  # one at a time, so that one party's sums are held at once
            (answer,) = self.parties.ask(DescribeParty.answer, self.turn, to=[party])
            with naming(name, "answer"):
                results.append(self.opened(answer))
        return results

    def opening(self) -> messages.Targets:
        """The public keys and sizes."""
        raw = bytearray(b"".join(self.key.public))
        sizes = [len(self.targets.numbers), self.targets.bound, self.targets.together]
        return messages.Targets(torch.frombuffer(raw, dtype=torch.uint8).reshape(-1, POINT_BYTES), torch.tensor(sizes))

    def chunks(self) -> Iterator[messages.LabelChunk]:
        """All rows' encrypted numbers, some rows at a time; every label is encrypted once, for all parties."""
        return (chunk for chunk, _ in self.proved_chunks())

    def proved_chunks(self) -> Iterator[tuple[messages.LabelChunk, messages.LabelProofs | None]]:
        """The same, each with its proof if there is to be one."""
        for start in range(0, len(self.targets.numbers), messages.CHUNK):
            numbers = self.targets.numbers[start : start + messages.CHUNK]
            randoms = list(islice(self._draws, len(numbers)))
            points = self.key.encrypted(numbers, randoms)
            self._random += sum(randoms)
            chunk = messages.LabelChunk(torch.tensor(start), torch.from_numpy(points.copy()))
            yield chunk, None if self.least is None else self._proofs(points, numbers, randoms)

    def _proofs(self, points: np.ndarray, numbers: np.ndarray, randoms: list[int]) -> messages.LabelProofs:
        return messages.LabelProofs(
            *map(torch.from_numpy, prove_bits(self.key, points, numbers, randoms, one=numbers.shape[1] > 1))
        )

    def groups(self) -> messages.GroupProofs:
        """Proofs that each class has and lacks enough rows, after all labels were encrypted."""
        assert self.least is not None
        rows, made = len(self.targets.numbers), []
        for k, positive in enumerate(self.targets.numbers.sum(axis=0).tolist()):
            for surplus, random in ((positive, self._random), (rows - positive, -self._random)):
                made.append(prove_at_least(self.key.only(k), surplus - self.least, random, rows.bit_length()))
        parts = [np.stack(part) for part in zip(*((one.digits, *one.proof) for one in made), strict=True)]
        return messages.GroupProofs(torch.tensor(self.least), *map(torch.from_numpy, parts))

    def opened(self, answer: messages.BinSums) -> tuple[messages.ToldFacts, list[OpenedColumn]]:
        """What a party told, and its opened sums."""
        rows = len(self.targets.numbers)
        facts = messages.read_facts(answer.facts, rows)
        _check_points(answer.sums, facts.bins, len(self.targets.names))
        _check_points(answer.products, len(facts.numbers), len(self.targets.names))
        reaches = [self._reach(count, facts.sigma) for told in facts.columns for count in told.counts]
        wide = self._reach_of_products(facts.sigma)
        if max(wide, *reaches) > _WIDEST:
            raise MessageError(f"noise of {facts.sigma:g} on every count is too much for a sum to be found; use less.")
        small = SmallSums(max(wide, *reaches))
        sums = [
            self.key.opened(points_of(line.numpy()), small, -reach, reach)
            for line, reach in zip(answer.sums, reaches, strict=True)
        ]
        products = [self.key.opened(points_of(line.numpy()), small, -wide, wide) for line in answer.products]
        return facts, _put_together(facts, sums, products)

    def _reach(self, count: int, sigma: float) -> int:
        """The largest sum of a bin of this many rows (by Cauchy and Schwarz, or all as large as can be), with noise."""
        bound, rows = self.targets.bound, count + _TAIL * sigma
        return math.ceil(min(bound * rows, math.sqrt(rows * self._squares)) + _TAIL * sigma * bound)

    def _reach_of_products(self, sigma: float) -> int:
        """The largest sum of levels times numbers, with noise."""
        most = math.sqrt(messages.SQUARES * len(self.targets.numbers) * self._squares)
        return math.ceil(most + _TAIL * sigma * self.targets.bound * LEVELS * NARROW)

    @property
    def _squares(self) -> float:
        return float((self.targets.numbers**2).sum(axis=0).max())


def _key_for(secret: bytes, numbers: np.ndarray) -> bytes:
    """A key for these labels alone: under the same randomness, two sets of labels would show where they differ."""
    digest = hashlib.sha256(f"{numbers.shape}".encode() + np.ascontiguousarray(numbers, "<i8").tobytes()).digest()
    return hmac.digest(secret, b"describe" + digest, "sha256")


def _check_groups(targets: LabelTargets, least: int) -> None:
    """Refuse labels of which no proof is possible."""
    if targets.task != "classes":
        raise ConfigError(
            f"labels that are {targets.task} cannot be proved to be labels; give proof = false, if the parties trust "
            "the owner."
        )
    rows = len(targets.numbers)
    for name, positive in zip(targets.names, targets.numbers.sum(axis=0).tolist(), strict=True):
        if not least <= positive <= rows - least:
            raise TableError(
                f"{positive} of {rows} rows are of the class '{name}'; {least} or more must be and must not be, so "
                "that no sum is about fewer people: lower minimum, or join classes."
            )


def _check_points(points: Tensor, count: int, targets: int) -> None:
    shape = count, targets + 1, POINT_BYTES
    if points.dtype != torch.uint8 or tuple(points.shape) != shape:
        raise MessageError(
            f"sums came as {points.dtype} of shape {tuple(points.shape)}; bytes of {shape} are expected."
        )


def _put_together(facts: messages.ToldFacts, sums: list[list[int]], products: list[list[int]]) -> list[OpenedColumn]:
    columns, at, others = [], 0, iter(products)
    for told in facts.columns:
        until = at + len(told.titles)
        product = None if told.levels is None else np.array(next(others), np.int64)
        columns.append(OpenedColumn(told, np.array(sums[at:until], np.int64), product))
        at = until
    return columns


def own_result(
    own: OwnColumns, targets: LabelTargets, rules: PartyRules
) -> tuple[messages.ToldFacts, list[OpenedColumn]]:
    """The same of the owner's own columns, for which nothing needs to be encrypted."""
    columns = [_own_column(column, targets.numbers, rules.minimum) for column in own.columns]
    return messages.ToldFacts(rules.minimum, 0.0, own.notes, tuple(column.told for column in columns)), columns


def _own_column(column: OwnColumn, numbers: np.ndarray, minimum: int) -> OpenedColumn:
    counts, levels, products = column.counts, None, None
    sums = np.zeros((len(counts), numbers.shape[1]), np.int64)
    np.add.at(sums, column.codes, numbers)
    if column.levels is not None:
        levels = float(column.levels.sum()), float((column.levels**2).sum())
        products = column.levels @ numbers
    stable = None if column.later is None else stability(counts, column.later, minimum)
    missing = column.missing / len(numbers)
    told = messages.ToldColumn(column.name, column.titles, tuple(counts.tolist()), missing, stable, levels)
    return OpenedColumn(told, sums, products)
