"""Cross-fitting: every row's outputs come from a learner that has not seen the row's label.

Without it a learner's outputs on its own training rows know the labels better than they will ever know those of new
rows, and whoever trains on these outputs trusts them too much.
"""

from __future__ import annotations

import torch
from torch import Tensor

from colonnade.core.task import Task
from colonnade.errors import ConfigError
from colonnade.learners.learner import Learner


def folds_of(rows: int, folds: int) -> Tensor:
    """The fold of every row. The rows must come in random order: neighbours in a file are often alike.

    >>> folds_of(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return torch.arange(rows) % folds


def out_of_fold(learner: Learner, x: Tensor, y: Tensor, task: Task, folds: int, seed: int) -> Tensor:
    """Outputs [rows, outputs], each of the learner that was fitted to all other folds."""
    if len(x) < 2 * folds:
        raise ConfigError(
            f"{len(x)} rows came for {folds} folds; cross-fitting needs at least two rows in each, so give more rows "
            "or fewer folds."
        )
    fold, outputs = folds_of(len(x), folds), torch.empty(len(x), task.outputs)
    for number in range(folds):
        inside = fold == number
        outputs[inside] = learner.outputs(learner.fit(x[~inside], y[~inside], task, seed), x[inside])
    return outputs
