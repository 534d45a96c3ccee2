"""What decides a run, as plain data that is kept in its folder."""

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
    # What came later has a default, so that older folders can be resumed.
    missing: str = "refuse"
    when_away: str = "wait"
    task: str = "classes"
    weights: list[float] | str | None = None
    cluster: dict[str, Any] | None = None  # where, which changes no number; a resumed run must know it all the same


def complete(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a folder, with the defaults of what came after it was written."""
    return {field.name: field.default for field in fields(Settings) if field.default is not MISSING} | settings
