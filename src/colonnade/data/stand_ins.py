"""Empty tables in place of those that a run was trained on: a run that only predicts needs only their shapes."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.core.table import Table
from colonnade.errors import CheckpointError


def stand_ins(description: dict[str, Any]) -> list[Table]:
    """A federation with the described names, shapes and rows; it needs little memory and has no real data."""
    if "outputs" not in description:
        raise CheckpointError("the run was saved by an older version; pass its tables to resume again.")
    task, outputs, classes = description["settings"]["task"], description["outputs"], tuple(description["names"])
    owners, tables, owned = owners_in(description), [], 0
    numbers = np.arange(
        max(rows for _, rows, _ in description["tables"])
    )  # one array for all tables, of which there may be many
    for k, (name, rows, shape) in enumerate(description["tables"]):
        nothing = torch.zeros(1, dtype=torch.uint8).expand(rows, *shape) if shape else None
        if k < owners:
            labels = _labels(task, rows, outputs)
            tables.append(Table(np.arange(owned, owned + rows), nothing, labels, name, classes=classes))
            owned += rows  # the next owner has the rows after these
        else:
            tables.append(Table(numbers[:rows], nothing, name=name))
    return tables


def owners_in(description: dict[str, Any]) -> int:
    """How many of the described tables are owners': the first, and those after it that have no columns."""
    shapes = [shape for _, _, shape in description["tables"][1:]]
    return 1 + len([*takewhile(lambda shape: not shape, shapes)])


def _labels(task: str, rows: int, outputs: int) -> Tensor:
    """Labels of the task's kind, in which every class occurs and values differ."""
    numbers = torch.arange(rows)
    if task == "classes":
        return numbers % outputs
    bits = numbers % 2 if outputs == 1 else (numbers % 2).unsqueeze(-1).expand(rows, outputs)
    return bits + 0.5 if task == "values" else bits
