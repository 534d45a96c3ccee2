"""How the next points of a search are found: at random, or by Optuna from what the others came to.

A search asks the same questions again if it is told the same answers, so an interrupted one goes on where it was.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np

from colonnade.errors import ConfigError, unknown
from colonnade.study.sweep.search_space import Between, Space
from colonnade.study.sweep.sweep_point import Point

TRIES = 100  # draws for a point that was not drawn before


class Search(ABC):
    """The points of a search, one after the other."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.seen: set[str] = set()

    @abstractmethod
    def draw(self) -> Point:
        """Another point, which may have been drawn before."""

    @abstractmethod
    def tell(self, point: Point, score: float | None) -> None:
        """Say what a point came to, higher is better; None if it failed."""

    def ask(self, count: int) -> list[Point]:
        """So many points that were not asked before; fewer if nearly all were."""
        points: list[Point] = []
        for _ in range(TRIES):
            if len(points) == count:
                break
            point = self.draw()
            name = json.dumps(point, sort_keys=True)
            if name not in self.seen:
                self.seen.add(name)
                points.append(point)
        return points


@final
class RandomSearch(Search):
    """Every value is drawn by itself; a strong baseline, and what others are told changes nothing."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self.generator = np.random.default_rng(0)

    def draw(self) -> Point:
        """A value of every key."""
        return {key: _drawn(values, self.generator.random()) for key, values in self.space.items()}

    def tell(self, point: Point, score: float | None) -> None:
        """Nothing follows from it."""


def _drawn(values: list[Any] | Between, share: float) -> Any:
    return values.at(share) if isinstance(values, Between) else values[int(share * len(values))]


@final
class OptunaSearch(Search):
    """Optuna's tree of Parzen estimators: points near good ones are drawn more often."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        try:
            import optuna  # an extra
        except ImportError:
            raise ConfigError(
                "search='optuna' needs Optuna; install colonnade[optuna], or use search='random'."
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.failed = optuna.trial.TrialState.FAIL
        self.study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
        self.trials: dict[str, Any] = {}

    def draw(self) -> Point:
        """A value of every key, as the study suggests it."""
        trial = self.study.ask()
        point = {key: self._suggested(trial, key, values) for key, values in self.space.items()}
        name = json.dumps(point, sort_keys=True)
        if name in self.trials:  # rounded to a point that is there already
            self.study.tell(trial, state=self.failed)
        else:
            self.trials[name] = trial
        return point

    def _suggested(self, trial: Any, key: str, values: list[Any] | Between) -> Any:
        if isinstance(values, Between):
            share = trial.suggest_float(key, 0.0, 1.0)
            return values.at(share)
        return values[trial.suggest_categorical(key, range(len(values)))]

    def tell(self, point: Point, score: float | None) -> None:
        """The study learns from it."""
        trial = self.trials[json.dumps(point, sort_keys=True)]
        if score is None:
            self.study.tell(trial, state=self.failed)
        else:
            self.study.tell(trial, score)


SEARCHES: dict[str, type[Search]] = {"random": RandomSearch, "optuna": OptunaSearch}


def make_search(name: str, space: Space) -> Search:
    """A search from its name."""
    if name not in SEARCHES:
        raise unknown("search", name, SEARCHES)
    return SEARCHES[name](space)
