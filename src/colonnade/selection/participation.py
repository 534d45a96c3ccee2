"""The parties that take part: a share of them by score; in training the share is chosen again every few rounds.

These are plain functions that need no run, for methods that choose parties during training, as FedOptimus does.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from colonnade.errors import ConfigError
from colonnade.selection.distances import checked_distances
from colonnade.selection.information import information, ranks


def how_many(share: float, parties: int) -> int:
    """The number of parties in a share of them, rounded to the nearest, but at least one.

    >>> how_many(1 / 3, 12), how_many(0.5, 5), how_many(0.01, 5)
    (4, 3, 1)
    """
    if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share <= 1:
        raise ConfigError(
            f"share={share!r} of the parties selects nobody, or more than there are; "
            "give a number above 0 and up to 1, such as 0.5."
        )
    return max(1, math.floor(float(share) * parties + 0.5))


def best(scores: Sequence[float], count: int) -> list[int]:
    """The numbers of the ``count`` highest scores, the highest first; of equal scores the earlier one.

    >>> best([0.1, 0.9, 0.9, 0.5], 3)
    [1, 2, 3]
    """
    return sorted(range(len(scores)), key=lambda k: -scores[k])[:count]


def participants(scores: Sequence[float], share: float) -> list[int]:
    """The numbers of the share of parties with the highest scores, in the parties' order.

    >>> participants([0.1, 0.9, 0.3, 0.5], share=0.5)
    [1, 3]
    """
    if not len(scores):
        raise ConfigError("no scores came, so nobody can be selected; give one score per party.")
    for party, score in enumerate(scores):
        if not math.isfinite(score):
            raise ConfigError(f"the score of party number {party} is {score}; give a finite number for every party.")
    return sorted(best(list(scores), how_many(share, len(scores))))


def information_of_embeddings(distances: Sequence[Tensor], labels: Tensor, neighbours: int = 3) -> list[float]:
    """Each party's own information about ``labels`` [N] by squared distances [Q, N] of its embeddings, or its columns.

    Queries are the first rows. :func:`colonnade.selection.distances.squared_distances` makes such distances.

    >>> import torch
    >>> from colonnade.selection.distances import squared_distances
    >>> labels = torch.arange(100) % 2
    >>> clear = labels[:, None] + 0.1 * torch.rand(100, 1)
    >>> useless = torch.arange(100.0)[:, None]
    >>> first, second = information_of_embeddings([squared_distances(x, 100) for x in (clear, useless)], labels)
    >>> first > 0.6 > 0.1 > second
    True
    """
    queries = len(distances[0]) if len(distances) else 0
    shape = (queries, len(labels))
    checked = [checked_distances(own, shape, f"party number {party}") for party, own in enumerate(distances)]
    return [information(ranks(own), labels, neighbours).value for own in checked]


@dataclass(frozen=True)
class Participation:
    """A share of the parties takes part in each round, and is chosen again every ``every`` rounds.

    It has no state: a method keeps the present participants in its own state and passes them in.

    >>> half = Participation(share=0.5, every=2)
    >>> half.of_round(0, [], lambda: [0.1, 0.9])
    [1]
    >>> half.of_round(1, [1], lambda: [0.9, 0.1]), half.of_round(2, [1], lambda: [0.9, 0.1])
    ([1], [0])
    """

    share: float = 0.5
    every: int = 1

    def __post_init__(self) -> None:
        how_many(self.share, 1)
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ConfigError(f"every={self.every!r} is out of range; give a whole number of rounds from 1.")

    def is_due(self, number: int) -> bool:
        """Whether the parties are scored again in this round."""
        return number % self.every == 0

    def of_round(self, number: int, before: Sequence[int], score: Callable[[], Sequence[float]]) -> list[int]:
        """The participants of a round; ``score`` is called only if they are chosen again, or if there are none yet."""
        return participants(score(), self.share) if self.is_due(number) or not before else list(before)
