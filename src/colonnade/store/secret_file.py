"""A side's secret on its own disk, drawn once: what its randomness follows from, see ``randomness.py``."""

from __future__ import annotations

import os
from pathlib import Path

from colonnade.core.randomness import SECRET_BYTES
from colonnade.disk.small_files import read_small
from colonnade.errors import CheckpointError, FolderError


def fresh_secret() -> bytes:
    """A secret that nobody had before."""
    return os.urandom(SECRET_BYTES)


def secret_in(folder: Path) -> bytes:
    """The secret that a side keeps in this folder; drawn at the first time, and whole or not there at all."""
    place = folder / "secret.key"
    try:
        if not place.exists():
            _draw(place)
        raw = read_small(place, 1024)
    except OSError as error:
        raise FolderError(f"{place} cannot be written or read: {error.strerror}; free some space.") from None
    if len(raw) != SECRET_BYTES:
        raise CheckpointError(f"{place} is damaged; without it this job cannot go on: start anew.")
    return raw


def _draw(place: Path) -> None:
    beside = place.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(fresh_secret())
        file.flush()
        os.fsync(file.fileno())
    beside.rename(place)
