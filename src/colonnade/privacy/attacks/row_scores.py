"""Scores of class 1 for rows of numbers, made without a label. What is assumed is which class is rarer, in a job known.

Of two classes, gradients of a row lie on one of two sides of the origin, so the rarer class is the smaller side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from colonnade.privacy.attacks.candidates import blind_guess
from colonnade.privacy.attacks.row_features import presence, standardised, unit, windows_of
from colonnade.privacy.material import Array, Material

LEAST_ROWS = 64
"""Rounds are taken together until they have so many rows of the sample: a direction needs more than a few."""


def scores_of_rows(x: Array) -> dict[str, Array]:
    """Scores [m] by three rules of rows [m, width]; the side that is taken for the rarer class is positive."""
    length = np.linalg.norm(x, axis=1)
    centred = x - x.mean(0)
    return {
        "norm": _scaled(np.log(np.maximum(length, np.finfo(np.float32).tiny))),
        "direction": _fewer_above(unit(x) @ _leading(unit(x))),
        "spectral": _tail_above(centred @ _leading(centred)),
    }


def blind_guesses(material: Material) -> Iterator[Array]:
    """Guesses of the labels of all rows from the adversary's own columns, without a label and without a message."""
    yield blind_guess(material)
    if material.classes == 2 and material.own is not None and len(material.own) > 1:
        for score in scores_of_rows(standardised(material.own)).values():
            yield for_class_1(material, score)


def both_ways(scores: Iterable[Array]) -> Iterator[Array]:
    """Every score, and the same the other way round; which is taken is chosen as everything else is."""
    for score in scores:
        yield score
        yield -score


def guesses_from(material: Material, values: Array) -> Iterator[Array]:
    """Guesses of the labels of all rows from one stream's values [rounds, n, width], by rule and window."""
    for scores in scores_by_round(values).values():
        for window in windows_of(scores[..., None]).values():
            yield for_class_1(material, window[:, 0])
    for window in windows_of(values).values():
        there = np.isfinite(window).all(1)
        if there.sum() > 1:
            for score in scores_of_rows(window[there]).values():
                whole = np.zeros(len(window))
                whole[there] = score
                yield for_class_1(material, whole)


def scores_by_round(values: Array) -> dict[str, Array]:
    """Scores [rounds, n] by rule, each round's among the rows that appear about then; NaN where a row does not."""
    there = presence(values)
    found = {rule: np.full(there.shape, np.nan) for rule in ("norm", "direction", "spectral")}
    for rounds in _enough_rows(there):
        here = there[rounds]
        if here.sum() > 1:
            for rule, score in scores_of_rows(values[rounds][here].astype(np.float64)).items():
                found[rule][rounds][here] = score
    return found


def for_class_1(material: Material, score: Array) -> Array:
    """A score of the rarer class as one of class 1; rows without one get the mean score."""
    rarer = material.truth[material.chosen_on].mean() <= 0.5 if len(material.chosen_on) else True
    return np.asarray(np.nan_to_num(score if rarer else -score))


def _enough_rows(there: Array) -> Iterator[slice]:
    start, rows = 0, 0
    for stop, count in enumerate(there.sum(1), start=1):
        rows += int(count)
        if rows >= LEAST_ROWS or stop == len(there):
            yield slice(start, stop)
            start, rows = stop, 0


def _leading(x: Array) -> Array:
    """The direction [width] along which the rows are largest."""
    if x.shape[1] <= x.shape[0]:
        return np.asarray(np.linalg.eigh(x.T @ x)[1][:, -1])
    along = x.T @ np.linalg.eigh(x @ x.T)[1][:, -1]
    return np.asarray(along / max(np.linalg.norm(along), np.finfo(np.float64).tiny))


def _fewer_above(score: Array) -> Array:
    """The score with the sign that has fewer rows above 0."""
    return _scaled(score if (score > 0).sum() <= (score < 0).sum() else -score, centre=False)


def _tail_above(score: Array) -> Array:
    """The score with the sign that has its longer tail above 0."""
    return _scaled(score if (score**3).sum() >= 0 else -score)


def _scaled(score: Array, *, centre: bool = True) -> Array:
    around = score - score.mean() if centre else score
    return np.asarray(around / max(np.sqrt(np.square(around).mean()), np.finfo(np.float64).tiny))
