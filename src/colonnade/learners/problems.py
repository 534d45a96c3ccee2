"""A task as problems that any estimator can fit: one of classes, or one number or yes-or-no answer per output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.core.task import Task

Array = NDArray[Any]
NEVER = -20.0
"""The logit of a class that no row had when a learner was fitted."""


@dataclass(frozen=True)
class Problem:
    """What one estimator fits: labels, weights of rows, and the outputs that its own outputs are."""

    y: Array
    weights: Array | None
    columns: tuple[int, ...]
    """The task's output for each output of the estimator; of two classes an estimator gives one logit, the second's."""
    classifies: bool
    copies: int = 1
    """How many times the rows are repeated: soft targets are one copy for each class, with its weight."""

    def rows_of(self, x: Array) -> Array:
        """The inputs, repeated as the labels are."""
        return x if self.copies == 1 else np.tile(x, (self.copies, 1))

    @property
    def constant(self) -> bool:
        """Whether all labels are alike, so that there is nothing to fit."""
        return len(np.unique(self.y)) < 2


def problems_of(y: Tensor, task: Task) -> list[Problem]:
    """The problems of a task with labels in the form of :meth:`Task.inside`."""
    if task.name == "classes":
        return [_classes(y, task)]
    factors = task.factors(y)
    weights = None if factors is None else factors.double().numpy()
    return [_one(y[:, k], None if weights is None else weights[:, k], k, task) for k in range(task.outputs)]


def _one(y: Tensor, weights: Array | None, output: int, task: Task) -> Problem:
    """A value, or a label; a soft label is a row without it and a row with it, each with its weight."""
    exact, several = y.double().numpy(), task.name == "several"
    if not several or np.isin(exact, (0.0, 1.0)).all():
        return Problem(exact, weights, (output,), several)
    each = np.concatenate([1 - exact, exact]) * (1.0 if weights is None else np.tile(weights, 2))
    return Problem(np.repeat([0.0, 1.0], len(exact)), each, (output,), True, copies=2)


def base_of(problems: list[Problem], outputs: int) -> Array:
    """What every row's outputs start from: nothing, and the least logit for classes and labels that no row had."""
    base = np.zeros(outputs)
    if len(problems) == 1 and outputs > 1 and problems[0].classifies:
        base = np.full(outputs, NEVER)
        base[np.unique(problems[0].y)] = 0.0
        return base
    for problem in problems:
        if problem.constant:
            base[list(problem.columns)] = problem.y[0] if not problem.classifies else -NEVER if problem.y[0] else NEVER
    return base


def _classes(y: Tensor, task: Task) -> Problem:
    factors = task.factors(task.targets(y).float())
    weights = None if factors is None else factors[:, 0].double().numpy()
    if not y.is_floating_point():
        return _of_classes(y.numpy(), weights, 1)
    soft = y.double().numpy().clip(min=0)  # "unbiased" protected labels may be negative
    each = (soft if weights is None else soft * weights[:, None]).T
    labels = np.repeat(np.arange(task.outputs), len(soft))
    return _of_classes(labels, each.reshape(-1), task.outputs)


def _of_classes(y: Array, weights: Array | None, copies: int) -> Problem:
    present = tuple(int(label) for label in np.unique(y))
    return Problem(y, weights, present if len(present) > 2 else present[-1:], True, copies)
