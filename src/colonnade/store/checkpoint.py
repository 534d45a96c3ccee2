"""Saved states: safetensors files, one per side, and a JSON manifest with their hashes.

A checkpoint is written to a draft folder that is then renamed, so a checkpoint is either complete or absent.
Reading checks every hash. An incomplete or altered checkpoint is refused, and the error names the file.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from colonnade.core.state import Packed
from colonnade.disk.small_files import opened, read_json
from colonnade.disk.tensor_files import check_length
from colonnade.disk.whole_files import open_private, write_synced
from colonnade.errors import CheckpointError, FolderError, TrainingError

FORMAT = "colonnade-checkpoint-1"
KEEP = 2
LARGEST_MANIFEST = 64 << 20  # bytes; the history of 100,000 evaluations is about 20 MB
_NAME = re.compile(r"\d{8}(-\d{6})?")


def write(folder: Path, round: int, states: Mapping[str, Packed], facts: dict[str, Any]) -> Path:
    """Write the checkpoint of a round and remove all but the newest two."""
    draft = folder / f".{round:08d}.draft"
    place = _free_place(folder, round)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        files = {}
        for name, state in states.items():
            raw = save_tensors(state)
            _write_file(draft / f"{name}.safetensors", raw)
            files[name] = hashlib.sha256(raw).hexdigest()
        manifest = {"format": FORMAT, "round": round, "files": files, "facts": facts}
        _write_file(draft / "manifest.json", json.dumps({**manifest, "digest": _digest(manifest)}).encode())
        draft.rename(place)
        for old in [other for other in _rounds(folder) if other != place][: -(KEEP - 1)]:
            shutil.rmtree(old)
    except OSError as error:
        raise FolderError(
            f"the checkpoint {place} cannot be written: {error.strerror or error}; make room, or choose another folder."
        ) from error
    return place


def is_there(folder: Path) -> bool:
    """Whether a folder has a complete checkpoint."""
    return bool(_rounds(folder))


def newest(folder: Path) -> Path:
    """The newest checkpoint in a folder."""
    checkpoints = _rounds(folder)
    if not checkpoints:
        raise CheckpointError(f"there is no checkpoint in {folder}; train with folder= to write some.")
    return checkpoints[-1]


def read_facts(place: Path) -> dict[str, Any]:
    """The facts of one checkpoint, without its states."""
    return dict(_read_manifest(place)["facts"])


def read(place: Path) -> tuple[dict[str, Packed], dict[str, Any]]:
    """The states and facts of one checkpoint, after every file's hash was checked."""
    manifest = _read_manifest(place)
    states = {}
    for name, expected in manifest["files"].items():
        path = place / f"{name}.safetensors"
        with _opened_file(place, path) as file:
            _check_file(place, path.name, file, expected)
            file.seek(0)
            raw = file.read()
        try:
            states[name] = load_tensors(raw)
        except SafetensorError:
            raise _damaged(place, f"{path.name} is not a safetensors file") from None
    return states, manifest["facts"]


def check(place: Path) -> None:
    """Refuse a checkpoint with a file that is missing or altered, without loading any file into memory."""
    for name, expected in _read_manifest(place)["files"].items():
        path = place / f"{name}.safetensors"
        with _opened_file(place, path) as file:
            _check_file(place, path.name, file, expected)


@contextmanager
def _opened_file(place: Path, path: Path) -> Iterator[BufferedReader]:
    try:
        with opened(path) as file:
            yield file
    except FileNotFoundError:
        raise _damaged(place, f"{path.name} is missing") from None
    except OSError as error:
        raise _damaged(place, f"{path.name} cannot be read: {error.strerror}") from None


def _check_file(place: Path, name: str, file: BufferedReader, expected: str) -> None:
    try:
        check_length(file)  # checked first: a header may claim more bytes than fit into memory
    except ValueError as error:
        raise _damaged(place, f"{name} {error}") from None
    file.seek(0)
    if hashlib.file_digest(file, "sha256").hexdigest() != expected:
        raise _damaged(place, f"{name} does not match its hash")


def read_before(folder: Path) -> dict[str, Packed]:
    """The states of the newest checkpoint but one; empty if there is none, or if it is damaged."""
    try:
        return read(_rounds(folder)[-2])[0]
    except (IndexError, CheckpointError):
        return {}


def _read_manifest(place: Path) -> dict[str, Any]:
    try:
        manifest = read_json(place / "manifest.json", LARGEST_MANIFEST)
    except OSError:
        raise CheckpointError(f"{place} is not a checkpoint: it has no manifest.json that can be read.") from None
    except ValueError:
        raise _damaged(place, "manifest.json is not JSON, or nested too deep") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _foreign(place, manifest.get("format") if isinstance(manifest, dict) else None)
    if manifest.pop("digest", None) != _digest(manifest):
        raise _damaged(place, "manifest.json does not match its digest")
    if not all(isinstance(manifest.get(part), dict) for part in ("files", "facts")):
        raise _damaged(place, "manifest.json lacks a part")
    if any(not re.fullmatch(r"[\w-]+", name) for name in manifest["files"]):
        raise _damaged(place, "manifest.json names files outside its folder")
    if not all(isinstance(expected, str) for expected in manifest["files"].values()):
        raise _damaged(place, "manifest.json has a hash that is no text")
    return manifest


def _foreign(place: Path, format: object) -> CheckpointError:
    number = re.fullmatch(r"colonnade-checkpoint-(\d{1,9})", format) if isinstance(format, str) else None
    if number and int(number[1]) > int(FORMAT.rpartition("-")[2]):
        return CheckpointError(
            f"{place} was written by a newer Colonnade ({format}), and this one reads {FORMAT}; install the newer one."
        )
    return CheckpointError(f"{place} is not a checkpoint of this version ({FORMAT}); it is foreign.")


def _damaged(place: Path, why: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint {place} is damaged: {why}; delete it to resume from the one before.")


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _rounds(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[0-9]*") if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def _free_place(folder: Path, round: int) -> Path:
    # A round that is written again gets a folder of its own, so the old one stays until the new one is complete.
    first = f"{round:08d}"
    before = [path.name for path in _rounds(folder) if path.name.startswith(first)]
    if not before:
        return folder / first
    again = int(before[-1].partition("-")[2] or 0) + 1
    return folder / f"{first}-{again:06d}"


def _write_file(path: Path, raw: bytes) -> None:
    with open_private(path, "wb") as file:
        write_synced(file, raw)


def check_finite(states: Mapping[str, Packed], names: Mapping[str, str], after: int) -> None:
    """Refuse to save a state with NaN or infinite values, so that the last good checkpoint stays the newest."""
    for side, state in states.items():
        for name, value in state.items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise TrainingError(
                    f"after round {after}, {names.get(side, side)} holds values that are not finite in '{name}'; "
                    "lower the learning rate (the last good checkpoint is kept)."
                )
