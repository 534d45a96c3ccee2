"""Which epochs a witness keeps: the first and the last two, and some between, fewer when they do not fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

MOST_BETWEEN = 28


@dataclass(frozen=True)
class RecordedEpochs:
    """Every ``stride``-th epoch is kept, and ``edge`` epochs at each end of what was trained so far.

    The rule needs no last round: a run may stop early, or be prolonged.

    >>> epochs = RecordedEpochs(per_epoch=4, stride=4)
    >>> [epoch for epoch in range(12) if epochs.keeps(epoch, newest=11)]
    [0, 1, 4, 8, 10, 11]
    """

    per_epoch: int
    """How many rounds an epoch has."""
    stride: int = 1
    edge: int = 2
    between: int = MOST_BETWEEN
    """How many epochs are kept between the ends, at most."""

    def of(self, round: int, *, training: bool) -> int:
        """The epoch of a round; what is asked after a round belongs to the epoch of that round."""
        return (round if training else max(round - 1, 0)) // self.per_epoch

    def keeps(self, epoch: int, newest: int) -> bool:
        """Whether an epoch is kept when ``newest`` has begun."""
        return epoch < self.edge or epoch > newest - self.edge or epoch % self.stride == 0

    def kept(self, epochs: Iterable[int]) -> list[int]:
        """Those of some epochs that are kept; the last of them has begun."""
        present = sorted(epochs)
        return [epoch for epoch in present if self.keeps(epoch, present[-1])]

    def has_too_many(self, epochs: Iterable[int]) -> bool:
        """Whether more of these epochs are kept than may be."""
        return len(self.kept(epochs)) > self.between + 2 * self.edge

    def thinner(self, epochs: Iterable[int]) -> RecordedEpochs | None:
        """The rule that keeps fewer of these epochs; None if no such rule is left."""
        present, rule = list(epochs), self
        while rule.stride <= max(present, default=0):
            rule = replace(rule, stride=2 * rule.stride)
            if len(rule.kept(present)) < len(self.kept(present)):
                return rule
        rule = replace(rule, edge=1)
        return rule if len(rule.kept(present)) < len(self.kept(present)) else None
