"""A side's secret on its own disk, drawn once. All of its randomness follows from it, see ``core/randomness.py``."""

from __future__ import annotations

import os
from pathlib import Path

from colonnade.core.randomness import SECRET_BYTES
from colonnade.disk.small_files import read_small
from colonnade.disk.whole_files import open_private, write_synced
from colonnade.errors import CheckpointError, FolderError


def fresh_secret() -> bytes:
    """A new secret from the operating system's random numbers."""
    return os.urandom(SECRET_BYTES)


def secret_in(folder: Path) -> bytes:
    """The secret that a side keeps in this folder; it is drawn and written at the first call."""
    place = folder / "secret.key"
    try:
        if not place.exists():
            _write(place, fresh_secret())
        raw = read_small(place, 1024)
    except OSError as error:
        raise FolderError(f"{place} cannot be written or read: {error.strerror}; free some space.") from None
    if len(raw) != SECRET_BYTES:
        raise CheckpointError(f"{place} is damaged; without it this job cannot go on: start over.")
    return raw


def hand_on_secret(folder: Path, secret: bytes) -> None:
    """Keep another folder's secret in this one, unless it has one: what follows from it is to be the same here."""
    place = folder / "secret.key"
    try:
        if not place.exists():
            _write(place, secret)
    except OSError as error:
        raise FolderError(f"{place} cannot be written: {error.strerror}; free some space.") from None


def _write(place: Path, secret: bytes) -> None:
    draft = place.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with open_private(draft, "xb") as file:
        write_synced(file, secret)
    draft.rename(place)
