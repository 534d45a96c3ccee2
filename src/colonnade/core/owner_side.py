"""The owner's side as a method sees it: labels, and whatever the method keeps there."""

from __future__ import annotations

import typing
from typing import Any, Protocol

import torch
from torch import Tensor

from colonnade.core.randomness import Randomness
from colonnade.core.schedule import Turn
from colonnade.core.task import Task


class LabelProtection(Protocol):
    """A seal that replaces labels by soft targets that hide each of them."""

    def protect(self, labels: Tensor, classes: int, key: bytes) -> Tensor:
        """The soft targets [rows, classes], drawn from the key."""


class Owner:
    """The owner's side: labels, and whatever the method keeps there.

    Modules, parameters, optimisers and tensors that a method assigns in :meth:`Method.start` are the
    owner's state: they are saved and loaded by name. The fields set here are not.
    """

    def __init__(self, labels: Tensor, task: Task, parties: int, randomness: Randomness) -> None:
        self.tables = {"train": labels}
        self.task = task
        self.parties = parties
        self.randomness = randomness
        self.soft: Tensor | None = None  # what training sees instead of the labels: protected, or a teacher's
        self.owners: Any = None  # Owners, this one first, for methods that know several
        self.held_out = torch.arange(0)  # training-table rows that are never trained on, if some are
        self._given = set(vars(self)) | {"_given"}

    if typing.TYPE_CHECKING:  # a method may put anything at the owner

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the method has put nothing called '{name}' at the owner")

    @property
    def outputs(self) -> int:
        """How many numbers the model gives for a row: classes, values or labels."""
        return self.task.outputs

    @property
    def rows(self) -> int:
        """How many rows the training table has."""
        return len(self.tables["train"])

    def labels(self, turn: Turn) -> Tensor:
        """The labels of the turn's rows as training sees them: class numbers, or one number per output."""
        if self.soft is not None and turn.training:
            return self.soft.index_select(0, turn.rows)
        return self.task.inside(self.tables[turn.table].index_select(0, turn.rows))

    def loss(self, o: Tensor, turn: Turn) -> Tensor:
        """The mean loss of the turn's rows."""
        return self.task.loss(o, self.labels(turn))

    def protect(self, labels: LabelProtection) -> Tensor:
        """Let training see noisy labels only, drawn once: whatever follows from them leaks no more than they do."""
        self.soft = labels.protect(self.tables["train"], self.outputs, self.randomness.key("labels"))
        return self.soft

    def kept(self) -> dict[str, Any]:
        """What the method keeps at the owner, by name."""
        return {name: value for name, value in vars(self).items() if name not in self._given}
