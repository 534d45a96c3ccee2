"""A party's states in its own folder, so that its process can be restarted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import final

from colonnade.core.state import Packed
from colonnade.disk.whole_files import make_folder
from colonnade.runtime.remote.state_store import StateStore
from colonnade.store import checkpoint


@final
class StateFolder(StateStore):
    """States by number, each a checkpoint of one side that is either complete or absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_folder(folder)
        super().__init__(sorted(int(path.name) for path in self.folder.iterdir() if _is_whole(path)))

    def write(self, number: int, state: Packed) -> None:
        """Write a state as a checkpoint."""
        checkpoint.write(self.folder / f"{number:08d}", number, {"party": state}, {})

    def read(self, number: int) -> Packed:
        """Read a state, after its hash was checked."""
        states, _ = checkpoint.read(checkpoint.newest(self.folder / f"{number:08d}"))
        return states["party"]

    def remove(self, number: int) -> None:
        """Delete a state."""
        shutil.rmtree(self.folder / f"{number:08d}", ignore_errors=True)


def _is_whole(path: Path) -> bool:
    """Whether it has a complete checkpoint; one that was still being written is only a draft."""
    return path.name.isdigit() and any(path.glob("[0-9]*"))
