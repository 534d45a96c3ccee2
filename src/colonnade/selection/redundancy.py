"""Parties that add no information: noise, and copies of other parties."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from colonnade.selection.group_scores import GroupScores

ALIKE = 0.6
"""Correlation of two parties' orders above which one may be a copy; parties with merely similar columns stay below."""


def noise(scores: GroupScores) -> set[int]:
    """The parties whose own information cannot be distinguished from zero."""
    return {party for party, own in enumerate(scores.own) if own.is_nothing}


def twins(scores: GroupScores) -> dict[int, set[int]]:
    """For each party its copies: given the one, the other adds no information.

    Only pairs that order the rows similarly are compared, so that few sums are opened for it.
    """
    dull = noise(scores)
    copies: dict[int, set[int]] = {party: set() for party in range(len(scores.names))}
    for pair in combinations(copies, 2):
        if float(scores.likeness[pair]) < ALIKE or dull.intersection(pair):
            continue
        richer = max(pair, key=lambda party: scores([party]).value)
        if (scores(pair) - scores([richer])).is_nothing:
            copies[pair[0]].add(pair[1])
            copies[pair[1]].add(pair[0])
    return copies


def notes(scores: GroupScores, chosen: Sequence[int], copies: dict[int, set[int]]) -> dict[str, str]:
    """A remark about a party, by name; most parties have none."""
    said: dict[str, str] = {}
    for party in noise(scores):
        own = scores.own[party]
        said[scores.names[party]] = f"noise: by itself it tells {own.value:.2f} nats, give or take {own.error:.2f}"
    for party, others in copies.items():
        known = [other for other in (*scores.always, *chosen, *sorted(others)) if other in others]
        if known and party not in scores.always and (party not in chosen or known[0] in scores.always):
            said[scores.names[party]] = f"copy of {scores.names[known[0]]}: it adds nothing to it"
        elif known and set(known) & set(chosen):
            said[scores.names[party]] = f"chosen beside its copy {scores.names[known[0]]}"
    return said
