"""How much better an attack guesses than its control, with an interval from a paired bootstrap of the scored rows.

====================  =====================  ===================================  ================================
secret                metric                 a guess by nobody                    what a row adds
====================  =====================  ===================================  ================================
two classes           AUC                    0.5                                  its rank among rows of the other
more classes          accuracy               the share of the largest class       whether its class is guessed
values, columns       R2 over all columns    0, the mean of the known rows        its squared errors, standardised
====================  =====================  ===================================  ================================

The advantage is (attack - control) / (1 - control): the share of what the control leaves open that the messages give.
A control is never worse than a guess by nobody. Attack and control are scored on the same resampled rows.

*The sign.* An AUC below 0.5 is not turned round: who turns a guess round has looked at the truth. An attack may choose
its sign on the rows ``chosen_on``. If it is still surely below 0.5, it is called ``inverted``: that decides nothing,
because the messages do tell something of the labels.

*Several attacks.* A lower bound is a claim that something was found. With many attacks one of them finds something by
chance, so lower bounds hold for all attacks of an audit together (Bonferroni): ``family`` is their number. An upper
bound needs no correction. "Nothing found" asks that the upper bounds of all attacks are low, and each single one is
wrong in at most 2.5 of 100 cases.

*Few rows.* If a guess is right in every resample, their deviation is 0, which would make a few rows a proof. So the
error is at least that of one row: of those of the rarer class, and of those that the control leaves open. An attack
that falls back on what its control guesses has chosen so on other rows, fewer than these. Its upper bound is that of a
guess that has nothing to do with the truth.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from colonnade.privacy.material import Array, Material

RESAMPLES = 600
LEVEL = 0.95
_LEAST_OPEN = 0.005
"""A control that leaves less open than this leaves no room for an attack to show anything."""


class Judge(NamedTuple):
    """How guesses are judged: the metric of guesses [n, ...] on rows weighted by ``counts`` [resamples, n]."""

    metric: str
    truth: Array
    """Class numbers int64 [n], or standardised values [n, columns]."""
    nobody: float
    """What a guess by nobody scores."""
    centre: Array
    """The mean of the known rows, and below it the scale of each column [2, columns]; empty for classes."""

    def score(self, guess: Array, counts: Array) -> Array:
        """The metric of one guess in every resample [resamples]."""
        if self.metric == "AUC":
            scores = np.asarray(guess, dtype=np.float64).reshape(len(self.truth))
            return auc(self.truth, _without_gaps(scores), counts)
        if self.metric == "accuracy":
            return np.asarray(counts @ (np.asarray(guess).reshape(-1) == self.truth) / counts.sum(1))
        errors, spreads = self._squares(guess)
        return np.asarray(1 - counts @ errors.sum(1) / np.maximum(counts @ spreads.sum(1), 1e-12))

    @property
    def one_row(self) -> float:
        """What one row counts for; of two classes, one of the rarer."""
        return 1 / float(self._classes.min() if self.metric == "AUC" else len(self.truth))

    @property
    def by_chance(self) -> float:
        """The standard error of a guess of classes that has nothing to do with the truth; 0 for values."""
        if self.metric == "AUC":
            return float(np.sqrt((len(self.truth) + 1) / (12 * self._classes.prod())))
        return 0.0 if self.metric == "R2" else float(np.sqrt(self.nobody * (1 - self.nobody) / len(self.truth)))

    @property
    def _classes(self) -> Array:
        return np.maximum(np.bincount(self.truth, minlength=2)[:2], 1).astype(np.float64)

    def best_column(self, guess: Array) -> tuple[int, float]:
        """The number of the column that is guessed best, and its R2."""
        errors, spreads = self._squares(guess)
        each = 1 - errors.sum(0) / np.maximum(spreads.sum(0), 1e-12)
        each[spreads.sum(0) < 1e-9] = -np.inf
        return int(each.argmax()), float(each.max())

    def _squares(self, guess: Array) -> tuple[Array, Array]:
        mean, scale = self.centre
        wide = np.asarray(guess, dtype=np.float64).reshape(self.truth.shape)
        wide = np.where(np.isfinite(wide), wide, mean)
        return ((wide - self.truth) / scale) ** 2, ((mean - self.truth) / scale) ** 2


def judge_of(material: Material) -> Judge:
    """How guesses of this secret are judged, on the scored rows."""
    scored = material.truth[material.scored]
    if material.classes == 2:
        return Judge("AUC", scored.astype(np.int64), 0.5, np.zeros((2, 0)))
    if material.classes:
        most = np.bincount(scored.astype(np.int64)).max() / len(scored)
        return Judge("accuracy", scored.astype(np.int64), float(most), np.zeros((2, 0)))
    values = scored.reshape(len(scored), -1).astype(np.float64)
    every = material.truth.reshape(len(material.truth), -1).astype(np.float64)
    spread = np.nanstd(every, axis=0)
    scale = np.where(spread > 1e-9 * (1 + np.abs(every).max(0)), spread, np.inf)  # a constant column tells nothing
    return Judge("R2", values, 0.0, np.stack([every[material.known].mean(0), scale]))


def _without_gaps(scores: Array) -> Array:
    """Scores in which rows without one are neither high nor low."""
    there = np.isfinite(scores)
    return np.where(there, scores, np.median(scores[there]) if there.any() else 0.0)


def auc(truth: Array, scores: Array, counts: Array) -> Array:
    """The area under the ROC curve of every resample; 0.5 where a class does not occur in it.

    >>> auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.4, 0.8]), np.ones((1, 4)))
    array([0.875])
    """
    order = np.argsort(scores, kind="stable")
    ranked, positive, weights = scores[order], truth[order] == 1, counts[:, order].astype(np.float64)
    below = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(weights * ~positive, axis=1)], axis=1)
    first, last = np.searchsorted(ranked, ranked, "left"), np.searchsorted(ranked, ranked, "right")
    won = (weights * positive * (below[:, first] + below[:, last]) / 2).sum(1)
    pairs = (weights * positive).sum(1) * below[:, -1]
    return np.where(pairs > 0, won / np.maximum(pairs, 1e-12), 0.5)


@dataclass(frozen=True)
class Advantage:
    """What an attack gained over its control; ``low`` and ``high`` bound the advantage, see the module's text."""

    metric: str
    attack: float
    attack_low: float
    attack_high: float
    control: float
    value: float
    low: float
    high: float
    rows: int
    inverted: bool = False
    """Whether the guesses are surely the wrong way round."""
    no_room: bool = False
    """Whether the control leaves nothing open."""
    best_column: int | None = None
    best_score: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def measure_advantage(
    judge: Judge, guess: Array, control: Array, rng: np.random.Generator, family: int = 1
) -> Advantage:
    """The advantage of a guess over its control; ``family`` is how many attacks are tried in all."""
    rows = len(judge.truth)
    drawn = rng.multinomial(rows, np.full(rows, 1 / rows), size=RESAMPLES)
    counts = np.concatenate([np.ones((1, rows), dtype=drawn.dtype), drawn])  # the rows themselves first
    scores, others = judge.score(guess, counts), np.maximum(judge.score(control, counts), judge.nobody)
    gained = (scores - others) / np.maximum(1 - others, _LEAST_OPEN)
    tail = (1 - LEVEL) / 2
    each, once = NormalDist().inv_cdf(1 - tail / max(family, 1)), NormalDist().inv_cdf(1 - tail)
    own, left = max(float(scores[1:].std()), 1 / rows), max(float(1 - others[0]), _LEAST_OPEN)
    error = max(float(gained[1:].std()), judge.one_row, (float(others[1:].std()) / left) ** 2)
    above = max(error, judge.by_chance / left) if np.array_equal(guess, control) else error
    low, high = max(-1.0, gained[0] - each * error), min(1.0, gained[0] + once * above)
    best: tuple[int | None, float | None] = judge.best_column(guess) if judge.metric == "R2" else (None, None)
    return Advantage(
        metric=judge.metric,
        attack=float(scores[0]),
        attack_low=float(scores[0] - once * own),
        attack_high=float(min(1.0, scores[0] + once * own)),
        control=float(others[0]),
        value=float(gained[0]),
        low=float(low),
        high=float(high),
        rows=rows,
        inverted=judge.metric == "AUC" and float(scores[0] + once * own) < judge.nobody,
        no_room=bool(1 - others[0] < _LEAST_OPEN),
        best_column=best[0],
        best_score=best[1],
    )
