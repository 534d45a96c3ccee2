"""The run folder: which run it belongs to, and the text of its history file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.core.settings import complete
from colonnade.disk.csv_text import csv_text
from colonnade.disk.small_files import read_json
from colonnade.errors import FolderError


def history_csv(history: Sequence[dict[str, float]]) -> str:
    """The history as CSV text."""
    names = list(dict.fromkeys(name for row in history for name in row)) or ["round"]
    return csv_text(names, ([row.get(name, "") for name in names] for row in history))


def same_run(first: Any, second: Any) -> bool:
    """Whether two descriptions are of the same run, whoever records it and wherever it computes.

    The number of rounds may differ: a run can be prolonged.
    """
    try:
        plain = [
            {
                **json.loads(json.dumps(d)),
                "settings": {**complete(d["settings"]), "rounds": 0},
                "record": "",
                "devices": "",
            }
            for d in (first, second)
        ]
    except (TypeError, KeyError, ValueError):
        return False
    return plain[0] == plain[1] and "rounds" in first["settings"] and "rounds" in second["settings"]


def run_name(description: dict[str, Any]) -> str:
    """A text by which a file beside a run is known to be this run's: of its tables' ids, its method and its seals."""
    parts = {name: description.get(name) for name in ("method", "seal", "tables", "ids")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def check_vacant(folder: Path, description: dict[str, Any] | None = None) -> None:
    """Refuse a folder that holds another run than the one described."""
    try:
        present = read_json(folder / "config.json")
    except (OSError, ValueError):
        if not (folder / "config.json").exists():
            return
        present = None
    if description is None or not same_run(present, description):
        raise FolderError(f"the folder {folder} holds a run already; resume that one or choose another folder.")
