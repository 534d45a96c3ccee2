"""What the sides of a run agreed on: what an audit compares its findings with, and reads messages by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.core.disclosure import declared
from colonnade.core.method import Method
from colonnade.core.schedule import Schedule, SharedSchedule
from colonnade.core.task import Task
from colonnade.run.training import Run
from colonnade.seal import Seal, Seals, make_seals


@dataclass(frozen=True)
class Agreement:
    """The method, the seals, the task and the rows of every round, from a run's plan or from signed terms."""

    method: Method
    seals: Sequence[Seal]
    task: Task
    schedule: Schedule | SharedSchedule
    data: str
    """What was trained on, in a few words."""

    @property
    def placed_seals(self) -> Seals:
        """The seals, each in its place."""
        return make_seals(list(self.seals))

    def declared(self, secret: str, way: str) -> str:
        """The level that the method declares of a secret with these options, seals and classes."""
        classes = self.task.outputs if self.task.name == "classes" else 0
        return declared(self.method, secret, classes=classes, seals=[seal.kind for seal in self.seals], way=way)


def agreement_of(run: Run) -> Agreement:
    """What the sides of a run agreed on, by its plan."""
    data = str((run.description.get("data") or {}).get("load", "tables of one's own"))
    return Agreement(run.method, list(run.model.plan.seal), run.task, run.schedule, data)
