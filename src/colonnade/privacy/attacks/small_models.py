"""Models that an adversary fits to few known rows and applies to all rows. Every one takes standardised features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from colonnade.privacy.attacks.row_features import unit
from colonnade.privacy.material import Array, Material

PENALTIES = 10.0 ** np.arange(-2, 6)


def first_of_each_class(material: Material, each: int) -> Array:
    """The first known rows, as many of every class; of values and several labels twice as many in all."""
    if not material.classes:
        return material.known[: 2 * each]
    labels = material.truth[material.known]
    return np.concatenate([material.known[labels == label][:each] for label in range(material.classes)])


def lacks_known(material: Material, each: int) -> str:
    """Why there are too few known rows, as the end of a sentence; empty if there are enough."""
    rows = first_of_each_class(material, each)
    needed = each * material.classes if material.classes else 2 * each
    if len(rows) == needed:
        return ""
    what = f"{each} of every class" if material.classes else f"{needed} rows"
    return f"it needs {what} with known labels, and {len(rows)} of {needed} rows are there"


def label_guesses(material: Material, x: Array, rows: Array) -> Iterator[Array]:
    """Guesses of the labels of all rows, by the labels of a few: by the nearest class mean and by a line."""
    truth = material.truth[rows]
    if not material.classes:
        yield line(x, rows, truth.reshape(len(rows), -1))
        return
    yield as_guess(nearest_mean(x, rows, truth, material.classes))
    if len(rows) > material.classes:
        yield as_guess(logistic(x, rows, truth, material.classes))


def as_guess(scores: Array) -> Array:
    """Scores [n, classes] as a guess: a score of class 1 if there are two, class numbers if there are more."""
    return np.asarray(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores.argmax(1))


def nearest_mean(x: Array, rows: Array, labels: Array, classes: int) -> Array:
    """The cosine of every row with each class's mean [n, classes]."""
    means = np.stack([x[rows[labels == label]].mean(0) for label in range(classes)])
    return np.asarray(unit(x) @ unit(means).T)


def logistic(x: Array, rows: Array, labels: Array, classes: int) -> Array:
    """Log-probabilities by logistic regression [n, classes]; classes that no known row has get the least."""
    from sklearn.linear_model import LogisticRegression

    found = np.unique(labels)
    scores = np.full((len(x), classes), -1e3)
    if len(found) == 1:
        scores[:, found[0]] = 0.0
        return scores
    with _quiet():
        model = LogisticRegression(max_iter=200).fit(x[rows], labels)
    scores[:, found] = np.log(np.maximum(model.predict_proba(x), np.finfo(np.float32).tiny))
    return scores


def line(x: Array, rows: Array, targets: Array) -> Array:
    """Ridge regression to targets [rows, k], its penalty chosen on the known rows."""
    from sklearn.linear_model import RidgeCV

    return _in_units(targets, lambda scaled: RidgeCV(PENALTIES).fit(x[rows], scaled).predict(x))


def network(x: Array, rows: Array, targets: Array, rng: np.random.Generator) -> Array:
    """A network of one hidden layer to targets [rows, k]."""
    from sklearn.neural_network import MLPRegressor

    seed = int(rng.integers(2**31))
    model = MLPRegressor(hidden_layer_sizes=(64,), alpha=1.0, solver="lbfgs", max_iter=100, random_state=seed)
    with _quiet():
        return _in_units(targets, lambda scaled: model.fit(x[rows], scaled).predict(x))


def _in_units(targets: Array, fit: Any) -> Array:
    """Fit to standardised targets, and give what it predicts in their own units [n, k]."""
    mean, deviation = targets.mean(0), targets.std(0)
    scaled = (targets - mean) / np.where(deviation > 0, deviation, 1)
    told = fit(scaled[:, 0] if targets.shape[1] == 1 else scaled)
    return np.asarray(told.reshape(len(told), -1) * deviation + mean)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings that a fit has stopped early: few steps are enough for a guess."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
