"""The run folder: whose it is, and its small text files beside the checkpoints."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import FolderError
from colonnade.settings import complete


def history_csv(history: Sequence[dict[str, float]]) -> str:
    """The history as CSV text."""
    out = io.StringIO()
    names = dict.fromkeys(name for row in history for name in row) or {"round": None}
    writer = csv.DictWriter(out, list(names), lineterminator="\n")  # rows without a metric leave it empty
    writer.writeheader()
    writer.writerows(history)
    return out.getvalue()


def same_run(one: Any, other: Any) -> bool:
    """Whether two descriptions are of one run; a run that was prolonged has more rounds than before."""
    try:
        plain = [
            {**json.loads(json.dumps(d)), "settings": {**complete(d["settings"]), "rounds": 0}} for d in (one, other)
        ]
    except (TypeError, KeyError):
        return False
    return plain[0] == plain[1] and "rounds" in one["settings"] and "rounds" in other["settings"]


def check_vacant(folder: Path, description: dict[str, Any] | None = None) -> None:
    """Refuse a folder that holds another run than the one described."""
    try:
        held = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        if not (folder / "config.json").exists():
            return
        held = None
    if description is None or not same_run(held, description):
        raise FolderError(f"the folder {folder} holds a run already; resume that one or choose another folder.")


def make_folder(path: str | Path) -> Path:
    """A folder that exists and can be written, or one clear sentence."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise FolderError(f"the folder {folder} cannot be written: {error.strerror}; choose another.") from error
    return folder


def write_text(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or as it was."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, raw: bytes) -> None:
    """Write a small file so that it is there whole or as it was."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_bytes(raw)
        draft.replace(path)
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written: {error.strerror}; make room, or choose another folder."
        ) from error
