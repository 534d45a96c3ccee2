"""The settings of a run, as plain data that is kept in the run folder."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Self


@dataclass(frozen=True)
class TrainOptions:
    """What a training can be asked for beside tables, method, networks and seals. None leaves the usual choice.

    This is the one declaration: :func:`colonnade.train`, job files, sweeps and the federation's plan read these fields.
    """

    epochs: int | None = None
    rounds: int | None = None
    batch: int | None = None
    seed: int = 0
    runtime: Any = None
    valid: float | None = None
    shuffle: str | None = None
    evaluate_every: int | None = None
    stop_drop: float | None = None
    watch: str | None = None
    threads: int | None = None
    missing: str | None = None
    when_absent: str | None = None
    task: str | None = None
    weights: Any = None
    device: Any = None
    precision: str | None = None
    move_tables: bool | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that were asked for."""
        values = {field.name: getattr(self, field.name) for field in fields(TrainOptions)}
        return {name: value for name, value in values.items() if value is not None}

    def filled(self) -> Self:
        """With the usual values where nothing was asked for."""
        return replace(self, **{**USUAL, **self.given})


USUAL: dict[str, Any] = {
    "runtime": "fused",
    "valid": 0.0,
    "shuffle": "epoch",
    "threads": 1,
    "missing": "refuse",
    "when_absent": "wait",
    "device": "cpu",
    "precision": "float32",
    "move_tables": False,
}
"""The options that have a usual value; the others follow from the tables, or are left out."""
BATCH = 256
"""How many rows a batch has if nobody says; all, if there are fewer."""
EPOCHS = 10
"""How many there are if neither epochs nor rounds are given."""
TABLE_ROUNDS = 200
"""The fewest rounds on tables then: a few hundred rows are few batches, and ten epochs of those teach little."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run's numbers, as plain data."""

    rounds: int
    batch: int
    seed: int
    runtime: str
    valid: float
    shuffle: str
    evaluate_every: int
    stop_drop: float | None
    threads: int
    # Settings of later versions have a default, so that runs of older versions can be resumed.
    missing: str = "refuse"
    when_away: str = "wait"  # when_absent: folders and signed plans have the old name
    task: str = "classes"
    weights: list[float] | str | None = None
    watch: str | None = None  # what stop_drop watches; None is the task's score, as it always was before
    cluster: dict[str, Any] | None = None  # changes no result, but a resumed run needs it to run in the same place


def complete(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings in a run folder, with defaults for those that its version did not have."""
    return {field.name: field.default for field in fields(Settings) if field.default is not MISSING} | settings
