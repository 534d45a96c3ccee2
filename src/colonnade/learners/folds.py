"""Cross-fitting: every row's outputs come from a learner that has not seen the row's label.

Without it a learner's outputs on its own training rows know the labels better than they will ever know those of new
rows, and whoever trains on these outputs trusts them too much.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from colonnade.core.state import under
from colonnade.core.task import Task
from colonnade.errors import ConfigError
from colonnade.learners.learner import Learner, State

SURE = 0.9


def folds_of(rows: int, folds: int) -> Tensor:
    """The fold of every row. The rows must come in random order: neighbours in a file are often alike.

    >>> folds_of(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return torch.arange(rows) % folds


class CrossFit(NamedTuple):
    """One learner per fold, and each row's outputs by the one that has not seen it."""

    state: State
    outputs: Tensor


def cross_fit(
    learner: Learner, x: Tensor, y: Tensor, task: Task, folds: int, seed: int, more: Tensor | None = None
) -> CrossFit:
    """Fit one learner per fold, to all rows of the other folds.

    With ``more`` rows, whose class nobody knows, each is fitted again, with those whose class it is sure of: a guess of
    all folds' learners would carry a row's label into the learner that must not have seen it.
    """
    if len(x) < 2 * folds:
        raise ConfigError(
            f"{len(x)} rows came for {folds} folds; cross-fitting needs at least two rows in each, so give more rows "
            "or fewer folds."
        )
    fold, outputs = folds_of(len(x), folds), torch.empty(len(x), task.outputs)
    state: State = {}
    for number in range(folds):
        inside = fold == number
        fitted = learner.fit(x[~inside], y[~inside], task, seed)
        if more is not None:
            own, guessed = sure_rows(learner, fitted, more, task)
            fitted = learner.fit(torch.cat([x[~inside], own]), torch.cat([y[~inside], guessed]), task, seed)
        outputs[inside] = learner.outputs(fitted, x[inside])
        state |= {f"{number}/{name}": value for name, value in fitted.items()}
    return CrossFit(state, outputs)


def sure_rows(learner: Learner, state: State, rows: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Those rows whose class the learner is sure of, and these classes."""
    p = task.probabilities(learner.outputs(state, rows)).max(1)
    sure = p.values >= SURE
    return rows[sure], p.indices[sure]


def mean_outputs(learner: Learner, state: State, x: Tensor) -> Tensor:
    """The outputs of new rows: the mean over the folds' learners, none of which has seen them."""
    folds = sorted({name.partition("/")[0] for name in state})
    return torch.stack([learner.outputs(under(state, number), x) for number in folds]).mean(0)
