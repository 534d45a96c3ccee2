"""Ways to choose parties by the information of groups: each takes a score and returns party numbers, the best first.

* :func:`greedy` adds the party that adds most information, and leaves out copies and noise; this is the one to use.
* :func:`by_groups` is VF-PS (Jiang et al., NeurIPS 2022): random groups, each member credited with its groups' scores.
* :func:`by_single` takes the parties that are best by themselves, :func:`at_random` any; both are for comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from colonnade.core.schedule import derive_seed, permutation
from colonnade.selection.group_scores import Score
from colonnade.selection.participation import best


def greedy(
    score: Score, candidates: Sequence[int], count: int, twins: Mapping[int, Collection[int]], noise: Collection[int]
) -> list[int]:
    """Up to ``count`` parties, each the one that adds most to those before it.

    ``twins`` are the copies of each party: no party is chosen beside a copy of it. A party that is ``noise`` by itself
    is chosen only if it adds to those before it. So fewer are chosen if only copies and noise are left.

    >>> from colonnade.selection.information import Estimate
    >>> columns = {0: {"a", "b"}, 1: {"a", "b"}, 2: {"c"}, 3: set()}
    >>> def counted(group):
    ...     return Estimate(torch.tensor([float(len(set().union(*(columns[k] for k in group))))]))
    >>> greedy(counted, range(4), 4, twins={0: {1}, 1: {0}}, noise={3})
    [0, 2]
    """
    chosen: list[int] = []
    left = list(candidates)
    while left and len(chosen) < count:
        useful = [
            k for k in left if k not in noise or not chosen or not (score([*chosen, k]) - score(chosen)).is_nothing
        ]
        if not useful:
            break
        pick = max(useful, key=lambda k: score([*chosen, k]).value)
        chosen.append(pick)
        left = [k for k in left if k != pick and k not in twins.get(pick, ())]
    return chosen


def by_groups(score: Score, candidates: Sequence[int], count: int, tests: int, seed: int) -> list[int]:
    """The ``count`` parties whose groups were the best on average, over ``tests`` random groups."""
    groups = random_groups(candidates, tests, seed)
    scores = [score(group).value for group in groups]
    mean = sum(scores) / len(scores)  # for a party that was in no group
    credit = [
        [value for group, value in zip(groups, scores, strict=True) if party in group] or [mean] for party in candidates
    ]
    return [candidates[k] for k in best([sum(values) / len(values) for values in credit], count)]


def random_groups(candidates: Collection[int], tests: int, seed: int) -> list[list[int]]:
    """Random groups that are not empty; every party is in each with probability one half.

    >>> all(random_groups([3, 4], tests=9, seed=0))
    True
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "groups"))
    groups: list[list[int]] = []
    while len(groups) < tests:
        coins = torch.rand(len(candidates), generator=generator) < 0.5
        groups += [[party for party, coin in zip(candidates, coins, strict=True) if coin]] if bool(coins.any()) else []
    return groups


def by_single(score: Score, candidates: Sequence[int], count: int) -> list[int]:
    """The ``count`` parties with the most information by themselves, beside those that always take part."""
    return [candidates[k] for k in best([score([k]).value for k in candidates], count)]


def at_random(candidates: Sequence[int], count: int, seed: int) -> list[int]:
    """Any ``count`` parties."""
    return [candidates[int(k)] for k in permutation(len(candidates), seed, "at random")[:count]]
