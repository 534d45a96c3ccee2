"""Labels as whole numbers that can be encrypted and added up: one number a row for each *target*.

Two classes have one target, whether a row is of the second class. More classes have a target each: this class against
all others. Several yes-or-no labels are targets already. Values to predict are rounded to a 32nd of their deviation and
cut at 16 deviations from their mean, or at 3 if noise must cover them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from colonnade.core.table import Table, check_classes
from colonnade.core.task import task_of
from colonnade.errors import TableError

MOST_TARGETS = 20
STEPS = 32  # of one deviation of a value
WIDE, NARROW = 16, 3  # deviations at which values are cut; the narrow cut is for noise, which must cover the largest


@dataclass(frozen=True, eq=False)
class LabelTargets:
    """The owner's labels as whole numbers [rows, T], with a name for each target."""

    task: str
    names: tuple[str, ...]
    numbers: np.ndarray
    bound: int = 1
    """The largest absolute value of a number."""
    together: int = 1
    """How many numbers of one row may differ from nought."""
    means: np.ndarray | None = None
    units: np.ndarray | None = None
    """Of values: the value that 0 stands for, and the difference that 1 stands for."""


def label_targets(table: Table, task: str | None = None, *, noisy: bool = False) -> LabelTargets:
    """The targets of the owner's labels."""
    kind = task_of(table.labels, task)
    if kind == "classes":
        targets = _classes(table)
    else:
        labels = table.labels.reshape(table.rows, -1)
        targets = _several(table, labels) if kind == "several" else _values(table, labels, NARROW if noisy else WIDE)
    if len(targets.names) > MOST_TARGETS:
        raise TableError(
            f"the labels of table '{table.name}' are {len(targets.names)} classes, labels or values, and each is added "
            f"up by itself; {MOST_TARGETS} is the most: describe some of them at a time."
        )
    return targets


def _classes(table: Table) -> LabelTargets:
    count = check_classes(table.labels, table.name)
    names = [*table.classes, *map(str, range(len(table.classes), count))]
    seen = [int(number) for number in torch.unique(table.labels)]
    wanted = seen[1:] if len(seen) == 2 else seen
    numbers = np.stack([table.labels.numpy() == number for number in wanted], axis=1).astype(np.int64)
    return LabelTargets("classes", tuple(str(names[number]) for number in wanted), numbers)


def _several(table: Table, labels: torch.Tensor) -> LabelTargets:
    if not bool(((labels == 0) | (labels == 1)).all()):
        raise TableError(f"the labels of table '{table.name}' are not all 0 or 1; give task='values' for others.")
    names = table.classes or tuple(f"label {k + 1}" for k in range(labels.shape[1]))
    return LabelTargets("several", tuple(names), labels.numpy().astype(np.int64), together=labels.shape[1])


def _values(table: Table, labels: torch.Tensor, cut: int) -> LabelTargets:
    values = labels.numpy().astype(np.float64)
    means, deviations = values.mean(axis=0), values.std(axis=0)
    if not (deviations > 0).all():
        raise TableError(f"the labels of table '{table.name}' are the same in all rows; there is nothing to describe.")
    numbers = np.round(STEPS * np.clip((values - means) / deviations, -cut, cut)).astype(np.int64)
    names = ("label",) if values.shape[1] == 1 else tuple(f"label {k + 1}" for k in range(values.shape[1]))
    return LabelTargets("values", names, numbers, STEPS * cut, values.shape[1], means, deviations / STEPS)
