"""Scores of a prediction in the owner's folder; they are written before any party is told that the prediction is over.

A party serves an ended prediction no more, so an owner that dies before it has handed the scores on must have them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from colonnade.disk.whole_files import write_bytes
from colonnade.errors import CheckpointError


@dataclass(frozen=True)
class ScoreFile:
    """Values by row of the owner's file, with what they are called."""

    rows: np.ndarray
    values: Tensor
    names: tuple[str, ...]
    task: str

    def write(self, path: Path) -> None:
        """Write the scores."""
        tensors = {"rows": torch.from_numpy(self.rows).contiguous(), "values": self.values.contiguous()}
        about = {"names": json.dumps(self.names), "task": self.task}
        write_bytes(path, save(tensors, metadata=about), durable=True)

    @classmethod
    def read(cls, path: Path) -> ScoreFile:
        """Read the scores."""
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata()
                rows, values = file.get_tensor("rows").numpy(), file.get_tensor("values")
            return cls(rows, values, tuple(json.loads(about["names"])), about["task"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"{path} is missing or damaged, and the parties serve its prediction no more; predict again."
            ) from None
