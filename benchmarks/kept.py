"""Keeps what a run found, one file each, so that an interrupted benchmark goes on where it was."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = dict[str, float]
Value = TypeVar("Value")  # of JSON


def slug(name: str) -> str:
    """A name as it stands in paths.

    >>> slug("mnist vimadmm, rho 0.5")
    'mnist-vimadmm-rho-0-5'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


class Kept:
    """What runs found, by name: read from ``folder`` if it is there, else found now, unless only shown."""

    def __init__(self, folder: Path, *, train: bool = True) -> None:
        self.folder, self.train = folder, train

    def __call__(self, name: str, find: Callable[[], dict[str, Value]]) -> dict[str, Value]:
        """What the run of this name found; nothing if it was not run and shall not be."""
        place = self.folder / f"{slug(name)}.json"
        if not place.exists() and self.train:
            found = find()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(found))
            print(f"{name}: {place.read_text()[:400]}", flush=True)
        return json.loads(place.read_text()) if place.exists() else {}
