"""A search with a budget: ask for points, train them, tell what they came to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from colonnade.core.options import number
from colonnade.errors import ConfigError
from colonnade.study.sweep.searches import Search
from colonnade.study.sweep.sweep_point import Point

Kept = dict[str, Any]
JUDGES = ("valid_auc", "valid_r2", "valid_accuracy")  # the first that a run has
_NONE = "valid_accuracy"


def searched(
    search: Search, budget: int, seconds: float | None, at_once: int, trained: Callable[[list[Point]], list[Kept]]
) -> list[Kept]:
    """The results of so many points, fewer if time runs out or no other point is left; at least those asked first.

    Points that are trained at once are asked before any of them is told, and told in the order in which they were
    asked: so the same call asks for the same points again.
    """
    if seconds is not None and not number(seconds, "seconds") > 0:
        raise ConfigError(f"seconds={seconds} is out of range; give a positive number.")
    until = math.inf if seconds is None else time.monotonic() + seconds
    done: list[Kept] = []
    while len(done) < budget and (not done or time.monotonic() < until):
        points = search.ask(min(at_once, budget - len(done)))
        if not points:
            break
        results = trained(points)
        for point, result in zip(points, results, strict=True):
            search.tell(point, score_of(result))
        done += results
    return done


def judge_in(results: Sequence[Kept]) -> str:
    """The metric by which points are compared: AUC of two classes, r2 of values, else accuracy, on held-out rows."""
    found = {name for result in results for name in result.get("found", {})}
    return next((name for name in JUDGES if name in found), _NONE)


def score_of(result: Kept) -> float | None:
    """What a point came to, or None if it failed."""
    found: dict[str, float] = result.get("found", {})
    return found.get(judge_in([result]))
