"""The owner's end of a description: it encrypts labels for everybody, and opens the sums that come back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from colonnade.core.method import Parties, Turn
from colonnade.description import describe_steps as steps
from colonnade.description.describe_messages import (
    CHUNK,
    SQUARES,
    BinSums,
    LabelChunk,
    Targets,
    ToldColumn,
    ToldFacts,
    read_facts,
)
from colonnade.description.label_targets import NARROW, LabelTargets
from colonnade.description.own_columns import LEVELS, OwnColumn, OwnColumns, PartyRules, stability
from colonnade.errors import MessageError, naming
from colonnade.seal.elgamal import POINT_BYTES, LabelKey, SmallSums, points_of

PURPOSE = "describe"
_TAIL = 12  # deviations that noise never exceeds
_WIDEST = 1 << 35  # of all sums: finding one takes up to a million additions


@dataclass(frozen=True, eq=False)
class OpenedColumn:
    """What the owner knows of one column: what its party told, and the sums of the targets that were opened."""

    told: ToldColumn
    sums: np.ndarray
    """Whole numbers [bins, T]."""
    products: np.ndarray | None
    """Of a column of numbers: the sum of levels times targets, [T]."""


class DescribeOwner:
    """The owner's end of one description of all parties."""

    def __init__(self, parties: Parties, targets: LabelTargets) -> None:
        self.parties, self.targets = parties, targets
        self.key = LabelKey.new(len(targets.names))
        self.turn = Turn(0, torch.arange(0), purpose=PURPOSE)

    def run(self) -> list[tuple[ToldFacts, list[OpenedColumn]]]:
        """Ask all parties and open their answers, one result per party."""
        self.parties.tell(steps.begin, self.turn, all=self.opening())
        for chunk in self.chunks():
            self.parties.tell(steps.hear, self.turn, all=chunk)
        results = []
        for party, name in enumerate(self.parties.names):  # one at a time, so that one party's sums are held at once
            (answer,) = self.parties.ask(steps.answer, self.turn, to=[party])
            with naming(name, "answer"):
                results.append(self.opened(answer))
        return results

    def opening(self) -> Targets:
        """The public keys and sizes."""
        raw = bytearray(b"".join(self.key.public))
        sizes = [len(self.targets.numbers), self.targets.bound, self.targets.together]
        return Targets(torch.frombuffer(raw, dtype=torch.uint8).reshape(-1, POINT_BYTES), torch.tensor(sizes))

    def chunks(self) -> Iterator[LabelChunk]:
        """All rows' encrypted numbers, some rows at a time; every label is encrypted once, for all parties."""
        for start in range(0, len(self.targets.numbers), CHUNK):
            points = self.key.encrypted(self.targets.numbers[start : start + CHUNK])
            yield LabelChunk(torch.tensor(start), torch.from_numpy(points.copy()))

    def opened(self, answer: BinSums) -> tuple[ToldFacts, list[OpenedColumn]]:
        """What a party told, and its opened sums."""
        rows = len(self.targets.numbers)
        facts = read_facts(answer.facts, rows)
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
        most = math.sqrt(SQUARES * len(self.targets.numbers) * self._squares)
        return math.ceil(most + _TAIL * sigma * self.targets.bound * LEVELS * NARROW)

    @property
    def _squares(self) -> float:
        return float((self.targets.numbers**2).sum(axis=0).max())


def _check_points(points: Tensor, count: int, targets: int) -> None:
    shape = count, targets + 1, POINT_BYTES
    if points.dtype != torch.uint8 or tuple(points.shape) != shape:
        raise MessageError(
            f"sums came as {points.dtype} of shape {tuple(points.shape)}; bytes of {shape} are expected."
        )


def _put_together(facts: ToldFacts, sums: list[list[int]], products: list[list[int]]) -> list[OpenedColumn]:
    columns, at, others = [], 0, iter(products)
    for told in facts.columns:
        until = at + len(told.titles)
        product = None if told.levels is None else np.array(next(others), np.int64)
        columns.append(OpenedColumn(told, np.array(sums[at:until], np.int64), product))
        at = until
    return columns


def own_result(own: OwnColumns, targets: LabelTargets, rules: PartyRules) -> tuple[ToldFacts, list[OpenedColumn]]:
    """The same of the owner's own columns, for which nothing needs to be encrypted."""
    columns = [_own_column(column, targets.numbers, rules.minimum) for column in own.columns]
    return ToldFacts(rules.minimum, 0.0, own.notes, tuple(column.told for column in columns)), columns


def _own_column(column: OwnColumn, numbers: np.ndarray, minimum: int) -> OpenedColumn:
    counts, levels, products = column.counts, None, None
    sums = np.zeros((len(counts), numbers.shape[1]), np.int64)
    np.add.at(sums, column.codes, numbers)
    if column.levels is not None:
        levels = float(column.levels.sum()), float((column.levels**2).sum())
        products = column.levels @ numbers
    stable = None if column.later is None else stability(counts, column.later, minimum)
    missing = column.missing / len(numbers)
    told = ToldColumn(column.name, column.titles, tuple(counts.tolist()), missing, stable, levels)
    return OpenedColumn(told, sums, products)
