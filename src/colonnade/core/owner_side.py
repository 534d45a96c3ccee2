"""The owner's side as a method sees it: the labels, and the method's own state."""

from __future__ import annotations

import typing
from typing import Any, Protocol

import torch
from torch import Tensor

from colonnade.core.device import HOST, Device, moved
from colonnade.core.randomness import Randomness
from colonnade.core.schedule import OWNER, Turn
from colonnade.core.state import Packed, unpack
from colonnade.core.task import Task


class LabelProtection(Protocol):
    """A seal that replaces labels by soft targets, so that no single label is known."""

    def protect(self, labels: Tensor, classes: int, key: bytes) -> Tensor:
        """The soft targets [rows, classes]; their randomness follows from the key."""


class Owner:
    """The owner's side: the labels, and the method's own state.

    Modules, parameters, optimisers and tensors that a method assigns in :meth:`Method.start` are the owner's state:
    they are saved and loaded by name, and live on the owner's ``device``. The attributes that the constructor sets are
    not part of it.
    """

    def __init__(
        self,
        labels: Tensor,
        task: Task,
        parties: int,
        randomness: Randomness,
        *,
        has_columns: bool = False,
        device: Device = HOST,
    ) -> None:
        self.tables = {"train": labels}
        self.task = task
        self.parties = parties
        self.has_columns = has_columns  # then it is also party 0
        self.randomness = randomness
        self.device = device
        self.soft: Tensor | None = None  # replaces the labels in training: protected ones, or a teacher's outputs
        self.protected = False  # whether those are protected ones
        self.masks: dict[str, Tensor] = {}  # by table: which rows each party has; none if all have all
        self.absent: frozenset[int] = frozenset()  # parties that do not answer for now
        self.owners: Any = None  # an Owners, this one first, for methods with several owners
        self.held_out = torch.arange(0)  # rows of the training table that are never trained on
        self._constructed = set(vars(self)) | {"_constructed"}

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
        """The labels of the turn's rows in the form that training uses: class numbers, or one number per output."""
        if self.soft is not None and turn.training:
            return self.device.bring(self.soft.index_select(0, turn.rows))
        return self._true_labels(turn)

    def own_labels(self, turn: Turn) -> Tensor:
        """The labels for work that no other side sees anything of: not the noisy ones that protect what is sent."""
        return self._true_labels(turn) if self.protected else self.labels(turn)

    def _true_labels(self, turn: Turn) -> Tensor:
        return self.device.bring(self.task.inside(self.tables[turn.table].index_select(0, turn.rows)))

    def places(self, turn: Turn) -> Tensor:
        """The turn's rows as an index of what the method keeps for every row."""
        return self.device.bring(turn.rows)

    def classes(self, turn: Turn) -> Tensor:
        """The class numbers of the turn's rows, for a seal that hides them; no method reads them."""
        return self.tables[turn.table].index_select(0, turn.rows)

    def known(self, turn: Turn) -> Tensor:
        """Which of the turn's rows each party has, bool [parties, rows]; one that is absent has none."""
        mask = self.masks.get(turn.table)
        shape = self.parties, len(turn.rows)
        known = torch.ones(shape, dtype=torch.bool) if mask is None else mask.index_select(1, turn.rows)
        known[sorted(self.absent)] = False
        return self.device.bring(known)

    def loss(self, o: Tensor, turn: Turn) -> Tensor:
        """The mean loss of the turn's rows."""
        return self.task.loss(o, self.labels(turn))

    def protect(self, labels: LabelProtection) -> Tensor:
        """Train on noisy labels, which are drawn once: nothing computed from them can leak more than they do."""
        self.protected = True
        self.soft = labels.protect(self.tables["train"], self.outputs, self.randomness.key("labels"))
        return self.soft

    def move(self) -> None:
        """Bring the method's state to the owner's device; what was drawn for it was drawn on the host."""
        if not self.device.is_host:
            vars(self).update(moved(self.kept(), self.device))

    def restore(self, packed: Packed) -> None:
        """Take the method's state back, on whatever device it was saved."""
        unpack(self.kept(), packed, OWNER)
        self.move()

    def kept(self) -> dict[str, Any]:
        """The method's state at the owner, by name."""
        return {name: value for name, value in vars(self).items() if name not in self._constructed}
