"""The outcome of a job, which the owner writes for the user that submitted it: a small file among FLARE's results."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from colonnade.disk.small_files import read_json
from colonnade.disk.whole_files import write_text
from colonnade.errors import AwayError, Broken, ColonnadeError, FolderError, again, name_of, printable

NAME = "colonnade.json"
RESULTS = ("config.json", "history.csv", "ledger.csv", "report.html")  # no rows, keys or states: those stay at home


@dataclass(frozen=True)
class Outcome:
    """How a job went: ``running`` (FLARE ended it before it could say more), ``finished``, ``away`` or ``stopped``."""

    state: str
    round: int = 0
    """From which round it went on."""
    error: str = ""
    kind: str = ""
    party: str | None = None
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def can_go_on(self) -> bool:
        """Whether the same job, started again, would go on from its checkpoints."""
        return self.state in ("running", "away")

    def failure(self) -> ColonnadeError:
        """The error that ended it."""
        return AwayError(self.error, self.party) if self.state == "away" else again(self.kind, self.error)

    def write(self, folder: Path) -> None:
        """Leave it in FLARE's folder of the job."""
        write_text(folder / NAME, json.dumps(asdict(self), indent=2))


def stopped_by(error: ColonnadeError, since: int) -> Outcome:
    """The outcome of an error."""
    if isinstance(error, AwayError | Broken):
        return Outcome("away", since, printable(error), "AwayError", error.party)
    return Outcome("stopped", since, printable(error), name_of(error))


def read_outcome(folder: Path) -> Outcome | None:
    """What the owner left in a folder; None if it never began."""
    place = folder / NAME
    if not place.is_file():
        return None
    try:
        return Outcome(**read_json(place))
    except (OSError, ValueError, TypeError):
        raise FolderError(f"{place} does not say how a job went; get the job's results again.") from None


def copy_results(source: Path, target: Path) -> None:
    """Copy the results that the user may have to the outcome's folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:
        if (source / name).is_file():
            shutil.copy(source / name, target / name)
