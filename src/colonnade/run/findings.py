"""What a report shows of an evaluation beyond its metrics: small enough to be kept with every checkpoint.

All of it is made of the owner's labels, so it belongs to the owner, like the report itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.core.method import Method, Owner, Parties, Turn
from colonnade.core.metrics import above, calibration
from colonnade.core.task import Classes, Several, Task, Values
from colonnade.errors import ConfigError, TableError

R = TypeVar("R")
MOST_POINTS = 200  # of a curve
MOST_PLACES = 300  # of a map
MOST_CLASSES = 200  # beyond that nobody reads a confusion matrix, and it would fill the checkpoint
MOST_VALUES = 12  # histograms, one per value of a row
BARS = 31  # of a histogram, odd so that one lies around zero


def find(task: Task, outputs: Tensor, labels: Tensor) -> dict[str, Any]:
    """What the outputs for some rows show, as plain data.

    Of classes ``confusion`` (rows by true and by predicted class), of two also ``roc``, ``pr`` and ``calibration``;
    of values ``residuals`` (histograms of predicted less true); of several labels ``labels`` (hits and misses of each).

    >>> find(Classes(3), torch.eye(3), torch.tensor([0, 1, 1]))["confusion"]
    [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    """
    findings: dict[str, Any] = {"rows": len(labels)}
    if not bool(torch.isfinite(outputs).all()):
        return findings
    if isinstance(task, Classes):
        return findings | _of_classes(outputs, labels)
    if isinstance(task, Several):
        return findings | {"labels": _hits(outputs > 0, labels == 1)}
    if isinstance(task, Values):
        return findings | {"residuals": _residuals(task.predictions(outputs), labels)}
    return findings


def known_importance(method: Method, owner: Owner, names: Sequence[str], round: int) -> dict[str, float]:
    """How much each party matters, where the owner knows it by itself: a report must not cost a message."""
    turn = Turn(round, torch.arange(0), purpose="explain")
    try:
        with torch.no_grad():
            numbers = method.importance(owner, _Nobody(names), turn)
    except ConfigError:
        return {}
    return dict(zip(names, numbers.tolist(), strict=True))


def map_findings(maps: Any) -> dict[str, Any]:
    """Points in the plane of every party and the rows' classes, evenly thinned, as plain data.

    ``maps`` has ``points``, one [rows, 2] per party's name, and ``labels`` [rows], as ``embedding_map`` gives them.
    """
    labels = torch.as_tensor(maps.labels)
    if labels.ndim != 1:
        raise TableError("a map is coloured by one class per row, but its labels are a matrix.")
    kept = torch.arange(0, len(labels), max(1, -(-len(labels) // MOST_PLACES)))
    points = {name: torch.as_tensor(places)[kept].tolist() for name, places in maps.points.items()}
    return {"maps": points, "classes": labels[kept].tolist()}


class _Nobody(Parties):
    """Parties that are not asked."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def ask(self, step: Callable[..., R], turn: Turn, **_: Any) -> list[R]:
        """Refuse."""
        raise ConfigError("only the parties know it, and nobody is asked for a report.")

    def sum(self, step: Callable[..., R], turn: Turn, **_: Any) -> R:
        """Refuse."""
        raise ConfigError("only the parties know it, and nobody is asked for a report.")


def _of_classes(outputs: Tensor, labels: Tensor) -> dict[str, Any]:
    classes = outputs.shape[-1]
    findings: dict[str, Any] = {}
    if classes <= MOST_CLASSES:
        pairs = torch.bincount(labels * classes + outputs.argmax(-1), minlength=classes * classes)
        findings["confusion"] = pairs.reshape(classes, classes).tolist()
    if classes == 2 and len(torch.unique(labels)) == 2:
        true, false = above(outputs[:, 1] - outputs[:, 0], labels)
        findings["roc"] = _thin(_from_zero(false / false[-1]), _from_zero(true / true[-1]))
        findings["pr"] = _thin(true / true[-1], true / (true + false))
        findings["calibration"] = [list(interval) for interval in calibration(outputs, labels)]
    return findings


def _from_zero(shares: Tensor) -> Tensor:
    return torch.cat([shares.new_zeros(1), shares])


def _thin(across: Tensor, up: Tensor) -> list[list[float]]:
    """Points of a curve, evenly thinned, with its two ends."""
    kept = torch.linspace(0, len(across) - 1, min(len(across), MOST_POINTS)).round().long()
    return [[round(value, 5) for value in point] for point in torch.stack([across, up], 1)[kept].tolist()]


def _hits(guessed: Tensor, right: Tensor) -> list[list[int]]:
    """Of each label: said and so, said but not so, not said but so, neither."""
    cells = (guessed & right, guessed & ~right, ~guessed & right, ~guessed & ~right)
    return torch.stack([cell.sum(0) for cell in cells], 1).tolist()


def _residuals(predicted: Tensor, labels: Tensor) -> list[dict[str, Any]]:
    """One histogram of predicted less true for each value of a row, in the labels' own units."""
    gaps = (predicted.double() - labels.double()).reshape(len(labels), -1)
    return [_histogram(gap) for gap in gaps.unbind(1)[:MOST_VALUES]]


def _histogram(gap: Tensor) -> dict[str, Any]:
    reach = float(gap.abs().max()) or 1.0
    counts = torch.histc(gap, BARS, -reach, reach)
    return {"reach": reach, "counts": [int(count) for count in counts]}


def numbers_in(nested: Any) -> Iterable[Any]:
    """Everything in nested lists and dictionaries that is neither."""
    if isinstance(nested, dict | list):
        for inner in nested.values() if isinstance(nested, dict) else nested:
            yield from numbers_in(inner)
    else:
        yield nested
