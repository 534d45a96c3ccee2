"""The run folder: whose it is, and its small text files beside the checkpoints."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.core.settings import complete
from colonnade.disk.small_files import read_json
from colonnade.errors import FolderError


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
    except (TypeError, KeyError, ValueError):
        return False
    return plain[0] == plain[1] and "rounds" in one["settings"] and "rounds" in other["settings"]


def check_vacant(folder: Path, description: dict[str, Any] | None = None) -> None:
    """Refuse a folder that holds another run than the one described."""
    try:
        held = read_json(folder / "config.json")
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
    except (OSError, ValueError) as error:  # a ValueError is about a NUL byte in the name
        why = error.strerror if isinstance(error, OSError) else "its name holds what no name may hold"
        raise FolderError(f"the folder {folder} cannot be written: {why}; choose another.") from error
    return folder


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a small file so that it is there whole or as it was."""
    write_bytes(path, text.encode("utf-8"), durable=durable)


def write_bytes(path: Path, raw: bytes, *, durable: bool = False) -> None:
    """Write a small file so that it is there whole or as it was.

    ``durable`` waits until a disk holds it, so that a power cut loses no count of what was spent.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("wb") as file:
            file.write(raw)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written: {error.strerror}; make room, or choose another folder."
        ) from error


def sync_folder(folder: Path) -> None:
    """Wait until a disk holds the names in a folder; without that a renamed file may be gone after a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
