"""From logits and labels to metrics, in plain functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from colonnade.errors import TableError


def metrics(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy and loss; with two classes also the area under the ROC curve.

    >>> metrics(torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0]]), torch.tensor([0, 1, 1]))["auc"]
    1.0
    """
    classes = logits.shape[-1]
    check_labels(labels, classes)
    found = {
        "accuracy": float((logits.argmax(-1) == labels).float().mean()),
        "loss": float(F.cross_entropy(logits.double(), labels)),
    }
    if classes == 2 and len(torch.unique(labels)) == 2:
        found["auc"] = auc(logits[:, 1] - logits[:, 0], labels)
    return found


def check_labels(labels: Tensor, classes: int) -> None:
    """Refuse labels that the model cannot give."""
    if int(labels.max()) >= classes:
        raise TableError(f"the labels hold class {int(labels.max())}, but the model was trained on {classes} classes.")


def check_targets(targets: object, rows: int, classes: int) -> Tensor:
    """Soft targets as float32, if they are one distribution over the classes for every row.

    >>> check_targets(torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64), rows=2, classes=2).dtype
    torch.float32
    """
    if not isinstance(targets, Tensor) or tuple(targets.shape) != (rows, classes):
        came = f"of shape {tuple(targets.shape)}" if isinstance(targets, Tensor) else f"as a {type(targets).__name__}"
        raise TableError(
            f"soft targets {came} came for {rows} rows and {classes} classes; "
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
