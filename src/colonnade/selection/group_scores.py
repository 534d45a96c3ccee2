"""The information of a group of parties about the labels: one number per group, from the parties' distances.

With :class:`OpenScores` the owner reads every party's distances, once. With :class:`HelperScores` a helper opens
blinded sums of distances between rows that it cannot identify, and tells the owner only their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from colonnade.core.method import Parties
from colonnade.selection.distances import Ranks, Sample, Steps, checked_distances, checked_ranks, key_message, packed
from colonnade.selection.fagin import touched_by_order
from colonnade.selection.helper import Helper
from colonnade.selection.information import Estimate, information, ranks, same_class
from colonnade.selection.row_order import Secret
from colonnade.wire.ledger import OWNER

Group = tuple[int, ...]
Score = Callable[[Iterable[int]], Estimate]
"""The information of a group of parties, as the strategies use it."""


class Estimation(NamedTuple):
    """What the owner estimates information from: labels, sampled rows, neighbours; ``always`` are in every group."""

    labels: Tensor
    sample: Sample
    neighbours: int
    always: tuple[int, ...] = ()


class GroupScores(ABC):
    """The information of groups, estimated once for each group."""

    def __init__(self, names: Sequence[str], estimation: Estimation) -> None:
        labels, self.sample, self.neighbours, self.always = estimation
        self.names, self.labels = list(names), labels[self.sample.rows]
        self.sparing = False  # whether to add up only the rows that Fagin's algorithm touches
        self.touched: list[float] = []  # the share of touched rows, by group
        self._known: dict[Group, Estimate] = {}

    def __call__(self, group: Iterable[int]) -> Estimate:
        """The information of a group together with the parties that always take part."""
        members = tuple(sorted({*group, *self.always}))
        if members not in self._known:
            self._known[members] = self._estimate(self._ranks(members))
        return self._known[members]

    @property
    def evaluations(self) -> int:
        """The number of groups whose distances were added up."""
        return sum(len(members) > 1 for members in self._known)

    @cached_property
    def own(self) -> list[Estimate]:
        """Every party's information by itself."""
        return [self._estimate(ranked) for ranked in self.orders]

    @cached_property
    def likeness(self) -> Tensor:
        """How similarly two parties order the rows [parties, parties]: the mean correlation of ranks, 1 for a copy."""
        ranked = torch.stack([order.to(torch.float32) for order in self.orders])
        ranked = torch.nn.functional.normalize(ranked - ranked.mean(2, keepdim=True), dim=2).flatten(1)
        return (ranked @ ranked.T / self.sample.queries).fill_diagonal_(0.0)

    def _estimate(self, ranked: Tensor) -> Estimate:
        return information(ranked, self.labels, self.neighbours)

    def _cells(self, members: Group) -> Tensor:
        """The cells that Fagin's algorithm touches for a group; they follow from the parties' orders alone."""
        lists = torch.stack([self.orders[k] for k in members])
        cells = touched_by_order(lists, same_class(self.labels, self.sample.queries), self.neighbours)
        self.touched.append(float(cells.float().mean()))
        return cells

    @property
    @abstractmethod
    def orders(self) -> list[Tensor]:
        """Every party's own ranks."""

    @property
    @abstractmethod
    def opened(self) -> list[str]:
        """What each side learnt, in plain sentences."""

    @abstractmethod
    def _ranks(self, members: Group) -> Tensor:
        """The ranks by the summed distances of a group."""


class OpenScores(GroupScores):
    """The owner reads every party's distances and adds them up itself."""

    def __init__(self, parties: Parties, steps: Steps, estimation: Estimation) -> None:
        super().__init__(parties.names, estimation)
        sample = self.sample
        replies = parties.ask(steps.distances, sample.turn(0))
        self.distances = [
            checked_distances(reply.squared, sample.shape, name)
            for reply, name in zip(replies, parties.names, strict=True)
        ]

    @cached_property
    def orders(self) -> list[Tensor]:
        """Every party's own ranks, computed by the owner."""
        return [ranks(distances) for distances in self.distances]

    @property
    def opened(self) -> list[str]:
        """The owner learns all distances."""
        queries, rows = self.sample.shape
        others = [name for k, name in enumerate(self.names) if k not in self.always]
        return [
            f"The owner read the squared distances of each of {', '.join(others)} between {queries} and {rows} rows; "
            "they fix that party's rows up to a rotation.",
            "No other side learnt anything.",
        ]

    def _ranks(self, members: Group) -> Tensor:
        total = torch.stack([self.distances[k] for k in members]).sum(0)
        return ranks(torch.where(self._cells(members), total, torch.inf) if self.sparing else total)


class HelperScores(GroupScores):
    """The owner reads only orders: each party's own from the party, a group's from the helper that opens its sum."""

    def __init__(self, parties: Parties, steps: Steps, helper: Helper, secret: Secret, estimation: Estimation) -> None:
        super().__init__(parties.names, estimation)
        sample = self.sample
        self.parties, self.steps, self.helper, self.secret = parties, steps, helper, secret
        parties.tell(steps.remember, sample.turn(0), all=key_message(secret))
        replies = parties.ask(steps.order, sample.turn(0))
        self._own = [
            checked_ranks(reply.nearer, sample.shape, name) for reply, name in zip(replies, parties.names, strict=True)
        ]
        self.sums = 0

    @property
    def orders(self) -> list[Tensor]:
        """Every party's own ranks, from its reply."""
        return self._own

    @property
    def opened(self) -> list[str]:
        """The helper learns sums, the owner learns orders."""
        queries, rows = self.sample.shape
        sentences = [
            f"The owner read who is nearer than whom among {rows} rows, for {queries} queries: by each party's own "
            f"columns, and by those of {self.sums} groups together. It read no distance.",
            f"{self.helper.name} opened the summed distances of {self.sums} groups, each time about the same rows in "
            "another secret order and in other units; it knows no id, no label and no column.",
        ]
        if self.sparing:
            sentences.append(
                f"The parties and {self.helper.name} learnt how many rows each query needed, which hints at how pure "
                "its neighbourhood is in labels."
            )
        return [*sentences, "The parties learnt nothing else of each other."]

    def _ranks(self, members: Group) -> Tensor:
        if len(members) == 1:
            return self._own[members[0]]  # the party's own ranks; there is no sum to open
        self.sums += 1
        queries, rest = self.sample.shuffled(self.secret, self.sums)
        rows = torch.cat([queries, rest])
        turn = self.sample.turn(self.sums, (queries, rest))
        if self.sparing:
            cells = packed(self._cells(members)[queries][:, rows])
            self.parties.tell(self.steps.want, turn, all=cells, to=members)
            reply = self.helper.order_some(self.steps.some, members, turn, cells)
        else:
            reply = self.helper.order(self.steps.stretched, members, turn, self.sample.queries)
        return self._named(reply, queries, rows)

    def _named(self, reply: Ranks, queries: Tensor, rows: Tensor) -> Tensor:
        """The helper's order of shuffled rows, as an order of the sample's rows."""
        shuffled = checked_ranks(reply.nearer, self.sample.shape, f"{self.helper.name} (for the {OWNER})")
        named = torch.empty_like(shuffled)
        named[queries[:, None], rows[None, :]] = shuffled
        return named
