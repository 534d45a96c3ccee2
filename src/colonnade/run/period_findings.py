"""Scores and stability by period, of rows that an evaluation has at hand: nobody is asked anything for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.core.metrics import auc, value_metrics
from colonnade.core.periods import period_name, periods_of, unit_for
from colonnade.core.stability import stability
from colonnade.core.task import Classes, Task, Values
from colonnade.disk.json_form import COUNT, NUMBER, Form, Kind

_MAYBE = (NUMBER, None)
_NAME = Kind("a short name", lambda value: isinstance(value, str) and len(value) <= 20 and value.isprintable())
PERIODS: Form = {
    **dict.fromkeys(("unit", "score", "against"), _NAME),
    "lines": [
        {
            **dict.fromkeys(("period", "part"), _NAME),
            "rows": COUNT,
            **dict.fromkeys(("observed", "predicted", "score", "psi", "chance"), _MAYBE),
        }
    ],
}


class Judged(NamedTuple):
    """What a model said of the rows of one part, "valid" or "test", with their labels, and their dates if known."""

    part: str
    outputs: Tensor
    labels: Tensor
    dates: np.ndarray | None = None


def by_period(task: Task, judged: Sequence[Judged]) -> dict[str, Any]:
    """For each period and part: rows, observed and predicted mean, score, and the stability of the scores.

    Stability is against all rows of "valid", which are of the training period, if there are some beside those of
    "test"; else against the first period. The result is empty where no part has dates.
    """
    dated = [part for part in judged if part.dates is not None and bool(torch.isfinite(part.outputs).all())]
    if not dated:
        return {}
    unit = unit_for([_dates(part) for part in dated])
    periods = [period for part in dated for period in _periods(part, unit)]
    held_out = len({part.part for part in dated}) > 1
    first = dated[0] if held_out else periods[0][1]
    lines = [_line(task, name, part, first) for name, part in periods]
    if not held_out:
        lines[0] |= {"psi": None, "chance": None}  # it is what the others are compared with
    return {
        "periods": {"unit": unit, "score": _score_name(task), "against": first.part if held_out else "", "lines": lines}
    }


def _dates(part: Judged) -> np.ndarray:
    assert part.dates is not None, "only parts with dates are asked"
    return part.dates


def _periods(part: Judged, unit: str) -> Iterator[tuple[str, Judged]]:
    """The part's rows of each period, the earliest first."""
    numbers = periods_of(_dates(part), unit)
    for number in np.unique(numbers):
        rows = torch.from_numpy(np.flatnonzero(numbers == number))
        yield period_name(int(number), unit), Judged(part.part, part.outputs[rows], part.labels[rows])


def _line(task: Task, name: str, part: Judged, first: Judged) -> dict[str, Any]:
    classes = task.outputs if _has_many_classes(task) else 0
    found = stability(_levels(task, first.outputs), _levels(task, part.outputs), classes=classes)
    return {
        "period": name,
        "part": part.part,
        "rows": len(part.labels),
        "observed": None if classes else float(part.labels.double().mean()),
        "predicted": None if classes else float(_levels(task, part.outputs).double().mean()),
        "score": _score(task, part.outputs, part.labels),
        "psi": found.psi,
        "chance": found.chance,
    }


def _has_many_classes(task: Task) -> bool:
    return isinstance(task, Classes) and task.outputs > 2


def _levels(task: Task, outputs: Tensor) -> Tensor:
    """One number a row: of two classes the second's probability, of more the class, else the mean of what is said."""
    if _has_many_classes(task):
        return outputs.argmax(-1)
    said = task.predictions(outputs)
    return said[:, 1] if isinstance(task, Classes) else said.reshape(len(said), -1).mean(1)


def _score_name(task: Task) -> str:
    return "auc" if isinstance(task, Classes) and task.outputs == 2 else task.score


def _score(task: Task, outputs: Tensor, labels: Tensor) -> float | None:
    """The score, or None where the labels of so few rows have none."""
    if isinstance(task, Values):
        return value_metrics(task.predictions(outputs), labels).get("r2")
    if not isinstance(task, Classes):
        return float(((outputs > 0) == (labels == 1)).double().mean())
    if task.outputs > 2:
        return float((outputs.argmax(-1) == labels).double().mean())
    return auc(outputs[:, 1] - outputs[:, 0], labels) if len(torch.unique(labels)) == 2 else None
