"""A party's states in its own folder, so that its process can die and come back."""

from __future__ import annotations

import shutil
from pathlib import Path

from colonnade.core.state import Packed
from colonnade.runtime.remote.state_store import StateStore
from colonnade.store import checkpoint
from colonnade.store.run_folder import make_folder


class StateFolder(StateStore):
    """States by number, each a checkpoint of one side: there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = make_folder(folder)
        self.numbers = sorted(int(path.name) for path in self.folder.iterdir() if _is_whole(path))

    def write(self, number: int, state: Packed) -> None:
        """Write a state beside its place and rename it into it."""
        checkpoint.write(self.folder / f"{number:08d}", number, {"party": state}, {})

    def read(self, number: int) -> Packed:
        """A state, every byte checked."""
        states, _ = checkpoint.read(checkpoint.newest(self.folder / f"{number:08d}"))
        return states["party"]

    def remove(self, number: int) -> None:
        """Delete a state."""
        shutil.rmtree(self.folder / f"{number:08d}", ignore_errors=True)


def _is_whole(path: Path) -> bool:
    """A folder whose checkpoint was still being written has only a draft in it."""
    return path.name.isdigit() and any(path.glob("[0-9]*"))
