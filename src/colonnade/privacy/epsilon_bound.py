r"""The largest epsilon that guesses about canaries refute, at a given confidence.

A canary is a secret coin: heads and tails are two neighbouring inputs of a mechanism. Whoever reads the mechanism's
output guesses some of the coins. Differential privacy bounds how many of those guesses can be right.

* :func:`one_run`: all canaries in one run of the mechanism; nothing is assumed of how their outputs depend on each
  other. Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (NeurIPS 2023), theorem 5.2: if the
  mechanism is (epsilon, delta)-private, then of r guesses about m canaries at least v are right with probability

      ``f(v) + 2 m delta max_i (f(v - i) - f(v)) / i``  at most,  ``f(v) = P[Binomial(r, e^eps / (1 + e^eps)) >= v]``.

  The number of guesses must be fixed beforehand if delta > 0. With delta = 0 it may follow from the output.
* :func:`separate_runs`: one run of the mechanism for each canary, independent of each other. Then the probabilities a
  of a right and b of a wrong guess satisfy ``a <= e^eps b + delta``, and both are bounded by Clopper and Pearson. The
  rule that decides whether to guess must be fixed beforehand.

With delta > 0 the first bound has a limit that no number of canaries moves, because its second term grows with them: at
95 % confidence and delta 1e-5 it refutes nothing above about epsilon 8. It is meant for p-values below 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ConfigError

CONFIDENCE = 0.95
_MOST = 60.0  # beyond every epsilon that so many guesses as fit into memory could refute
_HALVINGS = 40  # of an interval, which is then shorter than 1e-10

Bound = Callable[[int, int, int, float, float], float]
"""Canaries, guesses, right guesses, delta, confidence: the epsilon that is refuted."""


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float = 0.0) -> float:
    """The largest probability of so many right guesses if the mechanism is (epsilon, delta)-private.

    >>> round(p_value(10, 10, 10, epsilon=0.0), 6) == round(0.5**10, 6)
    True
    """
    _check(canaries, guesses, correct)
    low, high = _window(guesses, 1.0 / (1.0 + math.exp(-epsilon)))
    if correct < low:
        return 1.0
    logs = -float(np.logaddexp(0.0, -epsilon)), -float(np.logaddexp(0.0, epsilon))
    tail = float(_chances(guesses, *logs, correct, max(correct, high)).sum())
    if correct == low or delta == 0.0:
        return min(tail, 1.0)
    below = _chances(guesses, *logs, low, correct - 1)[::-1]
    nearer = np.cumsum(below) / np.arange(1, len(below) + 1)  # (f(v - i) - f(v)) / i
    return min(tail + 2.0 * canaries * delta * float(nearer.max()), 1.0)


def one_run(canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = CONFIDENCE) -> float:
    """The largest epsilon that one run refutes; 0 if none.

    >>> round(one_run(1000, 1000, 900), 3)
    2.021
    """
    unlikely = 1.0 - confidence

    def refuted(epsilon: float) -> bool:
        return p_value(canaries, guesses, correct, epsilon, delta) < unlikely

    return _edge(refuted, _MOST)[0] if refuted(0.0) else 0.0


def separate_runs(
    canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """The largest epsilon that one run for each canary refutes; 0 if none.

    >>> round(separate_runs(1000, 1000, 900), 3)
    1.99
    """
    _check(canaries, guesses, correct)
    unlikely = (1.0 - confidence) / 2.0
    right = 1.0 - _most_likely(canaries, canaries - correct, unlikely)
    wrong = _most_likely(canaries, guesses - correct, unlikely)
    return max(0.0, math.log((right - delta) / wrong)) if right > delta else 0.0


def _most_likely(trials: int, hits: int, unlikely: float) -> float:
    """The largest probability of a hit with which at most so many hits are not unlikely (Clopper and Pearson)."""
    if hits >= trials:
        return 1.0
    if hits > trials // 2:  # fewer terms to add
        return _edge(lambda rate: 1.0 - _at_most(trials, trials - hits - 1, 1.0 - rate) >= unlikely, 1.0)[1]
    return _edge(lambda rate: _at_most(trials, hits, rate) >= unlikely, 1.0)[1]


def _at_most(trials: int, hits: int, rate: float) -> float:
    """P[Binomial(trials, rate) <= hits]."""
    if hits < 0:
        return 0.0
    if not 0.0 < rate < 1.0:
        return float(rate <= 0.0)
    low, high = _window(trials, rate)
    return float(_chances(trials, math.log(rate), math.log1p(-rate), low, min(hits, high)).sum())


def _window(trials: int, rate: float) -> tuple[int, int]:
    """The hits beyond which all the others together have no probability that a float could tell from zero."""
    mean, room = trials * rate, 40.0 * math.sqrt(trials * rate * (1.0 - rate)) + 40.0
    return max(0, math.floor(mean - room)), min(trials, math.ceil(mean + room))


def _chances(trials: int, log_hit: float, log_miss: float, low: int, high: int) -> NDArray[np.float64]:
    """The binomial probabilities of ``low`` to ``high`` hits."""
    hits = np.arange(low, high + 1)
    factorial = _log_factorials(1 << trials.bit_length())
    ways = factorial[trials] - factorial[hits] - factorial[trials - hits]
    return np.asarray(np.exp(ways + hits * log_hit + (trials - hits) * log_miss))


@lru_cache(maxsize=1)
def _log_factorials(size: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size + 1)))])


def _edge(holds: Callable[[float], bool], high: float) -> tuple[float, float]:
    """Just below and just above the end of the interval from 0 in which ``holds`` is true."""
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _check(canaries: int, guesses: int, correct: int) -> None:
    if not 0 <= correct <= guesses <= canaries:
        raise ConfigError(
            f"{correct} right of {guesses} guesses about {canaries} canaries cannot be; expected at most as many right "
            "as guesses, and at most as many guesses as canaries."
        )
