"""What parties receive in training about some rows, and how well labels are read from it.

The attacks see one party's gradients, after seals, as that party read them: an array [epochs, rows, width], and of
every epoch the round that a row was in. A score is an AUC on rows whose labels the adversary does not know.

==================  =====================================================================================
attack              what the adversary has
==================  =====================================================================================
unsupervised        no label; norms, projections on the main directions, cosines with the batch's mean, over
                    the first epoch, the last, and all; the best of them, chosen on half of the scored rows
few labels          ten labels of each class, and the gradients of its rows
shadow              the same training with the same seals on half of the rows, whose labels it knows, and a
                    classifier from messages to labels learnt there; scored on the other half
half known          the labels of half of the rows of this very training, and its gradients
==================  =====================================================================================

Unsupervised scores have no sign, so 1 - AUC counts as AUC: an adversary knows which class is rarer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from colonnade.core.schedule import Turn
from colonnade.wire.party_half import PartyHalf

Array = np.ndarray
FEW = 10


class Received:
    """All gradients of some training rows, by party: one [epochs, rows, width], and the rounds [epochs, rows]."""

    def __init__(self, rows: Array, table_rows: int) -> None:
        self.rows = rows
        self._place = torch.full((table_rows,), -1)
        self._place[torch.from_numpy(rows)] = torch.arange(len(rows))
        self._parts: dict[str, list[tuple[int, Tensor, Tensor]]] = {}

    def note(self, party: str, message: Any, turn: Turn) -> None:
        """Keep the gradients of the watched rows, if this is a message of training."""
        slope = getattr(message, "slope", None)
        if turn.training and slope is not None:
            place = self._place[turn.rows]
            kept = slope.detach().flatten(1)[place >= 0].clone()
            self._parts.setdefault(party, []).append((turn.round, place[place >= 0], kept))

    def by_party(self) -> dict[str, tuple[Array, Array]]:
        """The gradients [epochs, rows, width] and their rounds [epochs, rows] of every party."""
        return {party: self._stacked(parts) for party, parts in self._parts.items()}

    def _stacked(self, parts: list[tuple[int, Tensor, Tensor]]) -> tuple[Array, Array]:
        place, values = torch.cat([p for _, p, _ in parts]), torch.cat([v for _, _, v in parts])
        rounds = torch.cat([torch.full((len(p),), number) for number, p, _ in parts])
        order = torch.sort(place, stable=True).indices  # every row once an epoch, in the order of rounds
        each = len(place) // len(self.rows)
        gradients = values[order].reshape(len(self.rows), each, -1).transpose(0, 1)
        return gradients.numpy(), rounds[order].reshape(len(self.rows), each).T.numpy()


@contextmanager
def receiving(rows: Array, table_rows: int) -> Iterator[Received]:
    """Notes every gradient about these rows as a party reads it."""
    received, hear = Received(rows, table_rows), PartyHalf.hear

    def noted(half: PartyHalf, wire: Any, kind: Any, form: Any, step: str, turn: Turn, check: Any = None) -> Any:
        message = hear(half, wire, kind, form, step, turn, check)
        received.note(half.name, message, turn)
        return message

    with patch.object(PartyHalf, "hear", noted):
        yield received


def auc(labels: Array, scores: Array) -> float:
    """The area, with a score that may point either way."""
    area = float(roc_auc_score(labels, scores))
    return max(area, 1.0 - area)


def evened(gradients: Array, rounds: Array) -> Array:
    """Gradients divided by the root mean square length of the watched rows of their round."""
    even = np.empty_like(gradients)
    for epoch, (values, numbers) in enumerate(zip(gradients, rounds, strict=True)):
        place = np.unique(numbers, return_inverse=True)[1]
        squares = np.bincount(place, np.square(values).sum(1)) / np.bincount(place)
        even[epoch] = values / np.sqrt(squares + 1e-30)[place][:, None]
    return even


def shapes(gradients: Array, rounds: Array, directions: int = 3) -> Array:
    """What can be compared between trainings [rows, epochs, features]: no feature depends on the network's own axes.

    The length, the projections on the main directions, each with the sign that gives the longer tail above, and their
    magnitudes; all as ranks among the rows, from 0 to 1.
    """
    even = evened(gradients, rounds)
    found = [np.linalg.norm(even, axis=2)]
    basis = [np.linalg.svd(values, full_matrices=False)[2][:directions] for values in even]
    for k in range(directions):
        along = np.stack([values @ axes[k] for values, axes in zip(even, basis, strict=True)])
        tail = np.where((along**3).mean(1, keepdims=True) < 0, -1.0, 1.0)
        found += [along * tail, np.abs(along)]
    return ranked(np.stack(found, 2).transpose(1, 0, 2))


def ranked(values: Array) -> Array:
    """Every feature's place among the rows [rows, ...], from 0 to 1."""
    return np.asarray(values.argsort(0).argsort(0) / len(values), dtype=np.float32)


def unsupervised(features: Array, gradients: Array, labels: Array) -> float:
    """The best of all scores, chosen on the first half of the rows and measured on the second."""
    windows = [features[:, 0], features[:, -1], features.mean(1)]
    scores = np.concatenate(windows, 1)
    whole = gradients.transpose(1, 0, 2).reshape(gradients.shape[1], -1)
    mean = gradients.mean(0)
    scores = np.concatenate([scores, PCA(3, random_state=0).fit_transform(whole)], 1)
    scores = np.concatenate([scores, PCA(3, random_state=0).fit_transform(mean)], 1)
    half = len(labels) // 2
    best = max(range(scores.shape[1]), key=lambda k: auc(labels[:half], scores[:half, k]))
    return auc(labels[half:], scores[half:, best])


def few_labels(gradients: Array, labels: Array, seed: int) -> float:
    """Ten labels a class and a line on the main components of all gradients."""
    parts = PCA(5, whiten=True, random_state=0).fit_transform(gradients.mean(0))
    return few_known(parts, labels, seed)


def few_known(values: Array, labels: Array, seed: int) -> float:
    """A line fitted on ten labels of each class, scored on all other rows."""
    order = np.random.default_rng(seed).permutation(len(labels))
    known = np.concatenate([order[labels[order] == c][:FEW] for c in (0, 1)])
    rest = np.setdiff1d(order, known)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(values[known], labels[known])
    return float(roc_auc_score(labels[rest], model.decision_function(values[rest])))


def learnt(values: Array, labels: Array, others: Array, seed: int) -> Array:
    """Scores of other rows by a classifier of trees and a line, whichever does better on a quarter of the rows."""
    cut = len(labels) * 3 // 4
    makers: list[Any] = [
        lambda: HistGradientBoostingClassifier(
            learning_rate=0.05, max_iter=150, max_leaf_nodes=8, l2_regularization=1.0, random_state=seed
        ),
        lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500)),
    ]
    tried = [make().fit(values[:cut], labels[:cut]).predict_proba(values[cut:])[:, 1] for make in makers]
    best = int(np.argmax([roc_auc_score(labels[cut:], score) for score in tried]))
    return np.asarray(makers[best]().fit(values, labels).predict_proba(others)[:, 1])


def flat(features: Array) -> Array:
    """Features of every epoch and their means over epochs, side by side."""
    return np.concatenate([features.reshape(len(features), -1), features.mean(1)], 1)
