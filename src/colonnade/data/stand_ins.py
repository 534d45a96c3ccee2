"""Tables that stand in for those that a run was trained on: a run that only predicts needs their shapes alone."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.core.table import Table
from colonnade.errors import CheckpointError


def stand_ins(description: dict[str, Any]) -> list[Table]:
    """A federation of the described names, shapes and rows. It takes next to no memory, and nothing true is in it."""
    if "outputs" not in description:
        raise CheckpointError("the run was saved by an older version; pass its tables to resume again.")
    task, outputs, classes = description["settings"]["task"], description["outputs"], tuple(description["names"])
    owners, tables, owned = owners_in(description), [], 0
    numbers = np.arange(max(rows for _, rows, _ in description["tables"]))  # one for all: there may be many tables
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
    """How many of the described tables have labels: the first, and those after it that have no columns."""
    shapes = [shape for _, _, shape in description["tables"][1:]]
    return 1 + len([*takewhile(lambda shape: not shape, shapes)])


def _labels(task: str, rows: int, outputs: int) -> Tensor:
    """Labels of the right kind, of which every class, label or value occurs."""
    numbers = torch.arange(rows)
    if task == "classes":
        return numbers % outputs
    bits = numbers % 2 if outputs == 1 else (numbers % 2).unsqueeze(-1).expand(rows, outputs)
    return bits + 0.5 if task == "values" else bits
