"""The settings of a run, as plain data that is kept in the run folder."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any


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
    when_away: str = "wait"
    task: str = "classes"
    weights: list[float] | str | None = None
    cluster: dict[str, Any] | None = None  # changes no result, but a resumed run needs it to run in the same place


def complete(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings in a run folder, with defaults for those that its version did not have."""
    return {field.name: field.default for field in fields(Settings) if field.default is not MISSING} | settings
