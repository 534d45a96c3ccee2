"""Every party's preparation in a run's folder, each in files of its own: JSON and safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from colonnade.errors import CheckpointError
from colonnade.folder import make_folder, write_bytes, write_text
from colonnade.prepare.preparation import Preparation

PLACE = "preparation"


def write_preparations(folder: Path, preparations: Mapping[str, Preparation]) -> None:
    """Write what is not there yet; a run's preparations never change."""
    if not preparations:
        return
    inside = make_folder(folder / PLACE)
    for number, (name, preparation) in enumerate(preparations.items()):
        place = inside / f"{number:03d}.json"
        if not place.exists():
            facts, arrays = preparation.state()
            write_bytes(place.with_suffix(".safetensors"), save_arrays(arrays))
            write_text(place, json.dumps({"name": name, "preparation": facts}))  # last: it says that both are there


def read_preparations(folder: Path) -> dict[str, Preparation]:
    """Those of a folder by the names of their parties, the owner's first; none if there are none."""
    return dict(_read(place) for place in sorted((folder / PLACE).glob("*.json")))


def _read(place: Path) -> tuple[str, Preparation]:
    try:
        written = json.loads(place.read_bytes())
        arrays = load_arrays(place.with_suffix(".safetensors").read_bytes())
        name, facts = str(written["name"]), written["preparation"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        raise CheckpointError(f"the preparation {place} is damaged or foreign; train again.") from None
    return name, Preparation.from_state(facts, arrays)
