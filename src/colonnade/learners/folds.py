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


def cross_fit(learner: Learner, x: Tensor, y: Tensor, task: Task, folds: int, seed: int) -> CrossFit:
    """Fit one learner per fold, to all rows of the other folds."""
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
        outputs[inside] = learner.outputs(fitted, x[inside])
        state |= {f"{number}/{name}": value for name, value in fitted.items()}
    return CrossFit(state, outputs)


def mean_outputs(learner: Learner, state: State, x: Tensor) -> Tensor:
    """The outputs of new rows: the mean over the folds' learners, none of which has seen them."""
    folds = sorted({name.partition("/")[0] for name in state})
    return torch.stack([learner.outputs(under(state, number), x) for number in folds]).mean(0)
