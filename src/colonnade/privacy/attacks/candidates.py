"""Choosing among guesses by the rows ``chosen_on``, so that the rows that are judged decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from colonnade.core.metrics import auc
from colonnade.privacy.material import Array, Material


def choose(material: Material, guesses: Iterable[Array]) -> Array:
    """The guess, of those for all rows, that is best on the rows ``chosen_on``: its values for the rows ``scored``."""
    best, most = None, -np.inf
    for guess in guesses:
        found = quality(material, guess)
        if best is None or found > most:
            best, most = guess, found
    assert best is not None, "an attack always has a guess"
    return np.asarray(best[material.scored])


def quality(material: Material, guess: Array) -> float:
    """On the rows ``chosen_on``: the area under the curve, the share of right classes, or the mean R2 of columns."""
    rows = material.chosen_on
    truth, guessed = material.truth[rows], guess[rows]
    if not len(rows) or not np.isfinite(guessed).all():
        return -1.0
    if material.classes == 2:
        both = len(np.unique(truth)) == 2
        return auc(torch.from_numpy(guessed), torch.from_numpy(truth)) if both else 0.5
    if material.classes:
        return float((guessed == truth).mean())
    return _r2(truth.reshape(len(rows), -1), guessed.reshape(len(rows), -1))


def _r2(truth: Array, guessed: Array) -> float:
    spread = np.square(truth - truth.mean(0)).sum(0)
    real = spread > 0
    missed = np.square(truth - guessed).sum(0)
    return float((1 - missed[real] / spread[real]).mean()) if real.any() else 0.0


def blind_guess(material: Material) -> Array:
    """Who knows nothing of any row: no score, the commonest class, or the mean; by the rows ``chosen_on``."""
    truth = material.truth[material.chosen_on]
    if material.classes == 2 or not len(truth):
        shape = material.truth.shape
        return np.zeros(shape if material.classes else (shape[0], width_of(material)))
    if material.classes:
        return np.full(len(material.truth), np.bincount(truth, minlength=material.classes).argmax())
    return np.tile(truth.reshape(len(truth), -1).mean(0), (len(material.truth), 1))


def width_of(material: Material) -> int:
    """How many numbers a row's secret has as the outputs of a model: classes, or values."""
    return material.classes or (1 if material.truth.ndim == 1 else material.truth.shape[1])
