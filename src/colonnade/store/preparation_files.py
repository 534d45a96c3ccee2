"""Every party's preparation in a run folder: one JSON and one safetensors file per party."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from colonnade.disk.small_files import read_json
from colonnade.disk.tensor_files import read_tensors
from colonnade.disk.whole_files import make_folder, write_bytes, write_text
from colonnade.errors import CheckpointError
from colonnade.tables.prepare.preparation import Preparation

PLACE = "preparation"


def write_preparations(folder: Path, preparations: Mapping[str, Preparation]) -> None:
    """Write the preparations whose files do not exist yet; those of a run never change."""
    if not preparations:
        return
    inside = make_folder(folder / PLACE)
    for number, (name, preparation) in enumerate(preparations.items()):
        place = inside / f"{number:03d}.json"
        if not place.exists():
            facts, arrays = preparation.state()
            raw = save_arrays(arrays)
            write_bytes(place.with_suffix(".safetensors"), raw, private=True)
            written = {"name": name, "preparation": facts, "digest": _digest(name, facts, raw)}
            write_text(
                place, json.dumps(written), private=True
            )  # written last: its existence means that both files are complete


def read_preparations(folder: Path) -> dict[str, Preparation]:
    """The preparations in a run folder by party name, the owner's first; empty if it has none."""
    return dict(_read(place) for place in sorted((folder / PLACE).glob("*.json")))


def _read(place: Path) -> tuple[str, Preparation]:
    try:
        written = read_json(place)
        raw = read_tensors(place.with_suffix(".safetensors"))
        name, facts = str(written["name"]), written["preparation"]
        if written.get("digest") not in (None, _digest(name, facts, raw)):  # folders of older versions have no digest
            raise ValueError
        arrays = load_arrays(raw)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError):
        raise CheckpointError(
            f"the preparation {place.with_suffix('')}, a .json and a .safetensors file, is damaged or foreign; bring "
            "both back from a copy, or train again."
        ) from None
    return name, Preparation.from_state(facts, arrays)


def _digest(name: str, facts: dict[str, Any], raw: bytes) -> str:
    return hashlib.sha256(json.dumps([name, facts], sort_keys=True).encode() + raw).hexdigest()
