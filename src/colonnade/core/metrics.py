"""Metrics of outputs and labels, as plain functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from colonnade.errors import TableError

BINS = 15  # of equal width, for calibration


class Bin(NamedTuple):
    """Rows of similar predicted probability: its mean, the share of rows of class 1, and the number of rows."""

    predicted: float
    observed: float
    rows: int


def watched_in(history: Sequence[Mapping[str, float]], watch: str | None, score: str) -> str:
    """What early stopping compares in a history: the metric to watch on held-out rows, or the score where it is none.

    >>> watched_in([{"valid_accuracy": 0.5}], "auc", "accuracy")  # of three classes
    'valid_accuracy'
    """
    name = f"valid_{watch}"
    return name if any(name in row for row in history) else f"valid_{score}"


def metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy and loss; with two classes also the ranking and the calibration of the second one.

    Of two classes: ``auc``, ``average_precision``, ``ks`` (largest distance of true and false positive rate), ``brier``
    (mean squared error of the probability) and ``ece`` (expected calibration error, 15 bins of equal width).

    >>> metrics(torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0]]), torch.tensor([0, 1, 1]))["auc"]
    1.0
    """
    classes = logits.shape[-1]
    check_labels(labels, classes)
    values = {
        "accuracy": float((logits.argmax(-1) == labels).float().mean()),
        "loss": float(F.cross_entropy(logits.double(), labels)),
    }
    if classes == 2 and len(torch.unique(labels)) == 2:
        values |= binary_metrics(logits, labels)
    return values


def binary_metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """The metrics of two classes beyond accuracy; the second class is the positive one."""
    scores, bins = logits[:, 1] - logits[:, 0], calibration(logits, labels)
    return {
        "auc": auc(scores, labels),
        "average_precision": average_precision(scores, labels),
        "ks": kolmogorov_smirnov(scores, labels),
        "brier": float((_second(logits) - labels).square().mean()),
        "ece": sum(part.rows * abs(part.predicted - part.observed) for part in bins) / len(labels),
    }


def value_metrics(predicted: Tensor, labels: Tensor) -> dict[str, float]:
    """``r2``, ``rmse`` and ``mae``; with several values per row their means. There is no r2 if all labels are equal.

    >>> value_metrics(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))["mae"]
    1.0
    """
    exact = labels.double().reshape(len(labels), -1)
    gap = predicted.double().reshape(exact.shape) - exact
    values = {"rmse": float(gap.square().mean(0).sqrt().mean()), "mae": float(gap.abs().mean())}
    spread = (exact - exact.mean(0)).square().sum(0)
    if bool((spread > 0).all()):
        values["r2"] = float((1 - gap.square().sum(0) / spread).mean())
    return values


def label_metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Of several labels: ``accuracy`` over all rows and labels, ``micro_f1``, ``micro_auc``, ``macro_auc``.

    The micro ones take all rows and labels together; ``macro_auc`` is the mean over labels that have both values.
    """
    guessed, right = logits > 0, labels == 1
    hits = int((guessed & right).sum())
    values = {
        "accuracy": float((guessed == right).double().mean()),
        "micro_f1": 2 * hits / max(int(guessed.sum()) + int(right.sum()), 1),
    }
    both = [k for k in range(labels.shape[1]) if len(torch.unique(labels[:, k])) == 2]
    if len(torch.unique(labels)) == 2:
        values["micro_auc"] = auc(logits.flatten(), labels.flatten())
    if both:
        values["macro_auc"] = sum(auc(logits[:, k], labels[:, k]) for k in both) / len(both)
    return values


def check_labels(labels: Tensor, classes: int) -> None:
    """Refuse class numbers that the model has no output for."""
    if int(labels.max()) >= classes:
        raise TableError(f"the labels hold class {int(labels.max())}, but the model was trained on {classes} classes.")
    if int(labels.min()) < 0:
        raise TableError(f"the labels hold {int(labels.min())}; class numbers start at 0.")


def check_targets(targets: object, rows: int, classes: int) -> Tensor:
    """Soft targets as float32, if they are one distribution over the classes for every row.

    >>> check_targets(torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64), rows=2, classes=2).dtype
    torch.float32
    """
    if not isinstance(targets, Tensor) or tuple(targets.shape) != (rows, classes):
        given = f"of shape {tuple(targets.shape)}" if isinstance(targets, Tensor) else f"as a {type(targets).__name__}"
        raise TableError(
            f"soft targets {given} came for {rows} rows and {classes} classes; "
            "give a tensor with one distribution per row."
        )
    exact = targets.to(torch.float32)
    if not bool((exact >= 0).all() & ((exact.sum(1) - 1).abs() < 1e-3).all()):
        raise TableError("some soft targets are no distributions; give every row numbers from 0 that add up to 1.")
    return exact


def auc(scores: Tensor, labels: Tensor) -> float:
    """The chance that a row of class 1 scores above one of class 0, ties counting half."""
    _, place, count = torch.unique(scores, return_inverse=True, return_counts=True)
    last = count.cumsum(0).double()
    ranks = (last - (count.double() - 1) / 2)[place]  # the mean rank of equal scores
    positives = labels == 1
    many, few = int(positives.sum()), int((~positives).sum())
    return float((ranks[positives].sum() - many * (many + 1) / 2) / (many * few))


def average_precision(scores: Tensor, labels: Tensor) -> float:
    """The precision at every threshold, weighted by the recall that it adds."""
    true, false = above(scores, labels)
    gained = torch.diff(true, prepend=true.new_zeros(1)) / true[-1]
    return float((gained * true / (true + false)).sum())


def kolmogorov_smirnov(scores: Tensor, labels: Tensor) -> float:
    """The largest distance between the scores' distributions of the two classes: max |TPR - FPR|."""
    true, false = above(scores, labels)
    return float((true / true[-1] - false / false[-1]).abs().max())


def calibration(logits: Tensor, labels: Tensor, bins: int = BINS) -> list[Bin]:
    """The reliability curve of two classes: bins of equal width by the second class's probability, without empty ones.

    >>> calibration(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    [Bin(predicted=0.5, observed=0.5, rows=2)]
    """
    probability = _second(logits)
    place = (probability * bins).long().clamp(max=bins - 1)
    curve = []
    for number in torch.unique(place):
        rows = place == number
        predicted, observed = probability[rows].mean(), (labels[rows] == 1).double().mean()
        curve.append(Bin(float(predicted), float(observed), int(rows.sum())))
    return curve


def _second(logits: Tensor) -> Tensor:
    return torch.softmax(logits.double(), dim=-1)[:, 1]


def above(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """For every score from the highest down: how many rows of class 1, and of class 0, have at least that score."""
    _, place, count = torch.unique(scores, return_inverse=True, return_counts=True)
    true = torch.zeros(len(count), dtype=torch.float64).index_add_(0, place, (labels == 1).double())
    return true.flip(0).cumsum(0), (count - true).flip(0).cumsum(0)
