"""Tables that stand in for those that a run was trained on: a run that only predicts needs their shapes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import CheckpointError
from colonnade.table import Table


def stand_ins(description: dict[str, Any]) -> list[Table]:
    """A federation of the described names, shapes and rows. It takes next to no memory, and nothing true is in it."""
    if "outputs" not in description:
        raise CheckpointError("the run was saved by an older version; pass its tables to resume again.")
    tables = [_table(name, rows, tuple(shape)) for name, rows, shape in description["tables"]]
    owner = tables[0]
    labels = _labels(description["settings"]["task"], owner.rows, description["outputs"])
    return [Table(owner.ids, owner.columns, labels, owner.name, classes=tuple(description["names"])), *tables[1:]]


def _table(name: str, rows: int, shape: tuple[int, ...]) -> Table:
    nothing = torch.zeros(1, dtype=torch.uint8).expand(rows, *shape) if shape else None
    return Table(np.arange(rows), nothing, name=name)


def _labels(task: str, rows: int, outputs: int) -> Tensor:
    """Labels of the right kind, of which every class, label or value occurs."""
    numbers = torch.arange(rows)
    if task == "classes":
        return numbers % outputs
    bits = numbers % 2 if outputs == 1 else (numbers % 2).unsqueeze(-1).expand(rows, outputs)
    return bits + 0.5 if task == "values" else bits
