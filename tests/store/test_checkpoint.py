"""Checkpoints: there whole or not at all, the newest two kept, every damaged byte found and named."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from colonnade.errors import CheckpointError, FolderError
from colonnade.store import checkpoint

STATES = {
    "owner": {"top/weight": torch.arange(6.0).reshape(2, 3), "steps/value": torch.tensor(3)},
    "party-000": {
        "net/mask": torch.tensor([1, 2], dtype=torch.uint8),
        "net/x": torch.tensor([1.5], dtype=torch.float64),
    },
    "party-001": {},
}
FACTS: dict[str, Any] = {"history": [{"loss": 0.1 + 0.2}], "description": {"name": "Käse"}, "none": None}
FILES = ["manifest.json", "owner.safetensors", "party-000.safetensors", "party-001.safetensors"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return checkpoint.write(tmp_path / "checkpoints", 12, STATES, FACTS)


def forge(place: Path, **changes: Any) -> None:
    """Alter the manifest and make its digest fit."""
    manifest = json.loads((place / "manifest.json").read_text())
    manifest.pop("digest")
    manifest = {key: value for key, value in (manifest | changes).items() if value is not None}
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (place / "manifest.json").write_text(json.dumps({**manifest, "digest": digest}))


def test_what_is_written_is_read(place: Path) -> None:
    states, facts = checkpoint.read(place)
    assert facts == FACTS
    assert states.keys() == STATES.keys()
    for name, expected in STATES.items():
        assert states[name].keys() == expected.keys()
        for key, value in expected.items():
            assert states[name][key].dtype == value.dtype
            assert torch.equal(states[name][key], value)
    assert sorted(path.name for path in place.iterdir()) == FILES


def test_values_that_are_not_finite_are_kept_bit_for_bit(tmp_path: Path) -> None:
    strange = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    states, _ = checkpoint.read(checkpoint.write(tmp_path, 0, {"owner": {"x": strange}}, {}))
    assert torch.equal(states["owner"]["x"].view(torch.int32), strange.view(torch.int32))


# Whole or not at all


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for number in (0, 2, 9, 10, 100):
        checkpoint.write(tmp_path, number, STATES, {"round": number})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000010", "00000100"]
    assert checkpoint.read(checkpoint.newest(tmp_path))[1] == {"round": 100}


def test_the_same_round_again_replaces_it(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, 1, STATES, {"try": 1})
    place = checkpoint.write(tmp_path, 1, {"owner": {}}, {"try": 2})
    assert checkpoint.read(place) == ({"owner": {}}, {"try": 2})
    assert sorted(path.name for path in place.iterdir()) == ["manifest.json", "owner.safetensors"]


def test_the_newest_is_what_was_written_last(tmp_path: Path) -> None:
    for number in range(6):
        place = checkpoint.write(tmp_path, 1, STATES, {"try": number})
        assert checkpoint.newest(tmp_path) == place
        assert checkpoint.read_facts(place) == {"try": number}


def test_a_draft_left_behind_is_ignored_and_then_overwritten(tmp_path: Path) -> None:
    good = checkpoint.write(tmp_path, 1, STATES, FACTS)
    draft = tmp_path / ".00000002.draft"
    draft.mkdir()
    (draft / "left.safetensors").write_bytes(b"torn")
    assert checkpoint.newest(tmp_path) == good
    place = checkpoint.write(tmp_path, 2, STATES, FACTS)
    assert checkpoint.newest(tmp_path) == place and not draft.exists()
    assert sorted(path.name for path in place.iterdir()) == FILES


@pytest.mark.parametrize("call", range(4))
def test_a_failure_while_writing_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    good = checkpoint.write(tmp_path, 1, STATES, FACTS)
    write_file, calls = checkpoint._write_file, []

    def failing(path: Path, raw: bytes) -> None:
        if len(calls) == call:
            write_file(path, raw[: len(raw) // 2])
            raise OSError(28, "No space left on device")
        calls.append(path)
        write_file(path, raw)

    monkeypatch.setattr(checkpoint, "_write_file", failing)
    with pytest.raises(FolderError, match=r"00000002 cannot be written: No space left on device; make room"):
        checkpoint.write(tmp_path, 2, STATES, FACTS)
    assert checkpoint.newest(tmp_path) == good
    checkpoint.read(good)


def test_a_write_that_dies_before_the_rename_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path, 1, STATES, FACTS)

    def die(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, 2, STATES, FACTS)
    monkeypatch.undo()
    assert checkpoint.read(checkpoint.newest(tmp_path))[1] == FACTS


def test_writing_a_round_again_dies_without_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path, 1, STATES, FACTS)

    def die(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", die)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, 1, STATES, FACTS)
    monkeypatch.undo()
    assert checkpoint.read(checkpoint.newest(tmp_path))[1] == FACTS


def test_what_was_just_written_is_never_deleted(tmp_path: Path) -> None:
    for number in (7, 8):
        checkpoint.write(tmp_path, number, STATES, FACTS)
    assert checkpoint.write(tmp_path, 3, STATES, FACTS).exists()


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="no checkpoint in"):
            checkpoint.newest(folder)


# Damage


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(place: Path, name: str) -> None:
    (place / name).unlink()
    with pytest.raises(CheckpointError, match=name) as error:
        checkpoint.read(place)
    assert str(place) in str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_is_named(place: Path, name: str) -> None:
    raw = (place / name).read_bytes()
    for end in (0, 1, len(raw) // 2, len(raw) - 1):
        (place / name).write_bytes(raw[:end])
        with pytest.raises(CheckpointError, match=f"damaged: {name}"):
            checkpoint.read(place)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_found(place: Path, name: str) -> None:
    raw, missed = (place / name).read_bytes(), 0
    for at in range(len(raw)):
        (place / name).write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        try:
            _, facts = checkpoint.read(place)
        except CheckpointError as error:
            told = str(error)
        else:
            assert facts == FACTS  # another way to write the same number
            missed += 1
            continue
        assert str(place) in told and (name in told or "foreign" in told)
    assert missed <= (name == "manifest.json")


def test_longer_files_are_found(place: Path) -> None:
    with (place / "owner.safetensors").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(CheckpointError, match=r"owner\.safetensors has 1?[0-9,]+ bytes and its header speaks of"):
        checkpoint.read(place)


def test_files_swapped_between_parties_are_found(place: Path) -> None:
    shutil.copy(place / "party-000.safetensors", place / "party-001.safetensors")
    with pytest.raises(CheckpointError, match=r"party-001\.safetensors"):
        checkpoint.read(place)


def test_a_file_with_the_right_hash_that_holds_no_tensors(place: Path) -> None:
    (place / "owner.safetensors").write_bytes(b"hello")
    forge(place, files={"owner": hashlib.sha256(b"hello").hexdigest()})
    with pytest.raises(CheckpointError, match=r"owner\.safetensors has 5 bytes and speaks of a header"):
        checkpoint.read(place)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '"x"', "{}", '{"format": "other-1"}', "\xff\xfe"])
def test_a_foreign_manifest(place: Path, text: str) -> None:
    (place / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointError, match=r"damaged: manifest\.json is not JSON|it is foreign"):
        checkpoint.read(place)


def test_a_newer_version_is_named(place: Path) -> None:
    forge(place, format="colonnade-checkpoint-99")
    with pytest.raises(CheckpointError, match=r"newer Colonnade \(colonnade-checkpoint-99\)"):
        checkpoint.read(place)


@pytest.mark.parametrize("name", ["another-1", "colonnade-checkpoint-0", "colonnade-checkpoint-x", 7, None])
def test_another_format_is_foreign(place: Path, name: object) -> None:
    forge(place, format=name)
    with pytest.raises(CheckpointError, match="foreign"):
        checkpoint.read(place)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", ".", "", "a\0b", "a.b"])
def test_names_outside_the_folder_are_refused(place: Path, name: str) -> None:
    (place.parent / "secret.safetensors").write_bytes((place / "owner.safetensors").read_bytes())
    files = {name: hashlib.sha256((place / "owner.safetensors").read_bytes()).hexdigest()}
    forge(place, files=files)
    with pytest.raises(CheckpointError, match="names files outside its folder"):
        checkpoint.read(place)


@pytest.mark.parametrize("changes", [{"files": None}, {"facts": None}, {"files": 5}, {"files": ["owner"]}], ids=str)
def test_a_manifest_without_its_parts(place: Path, changes: dict[str, Any]) -> None:
    forge(place, **changes)  # None leaves the entry out
    with pytest.raises(CheckpointError):
        checkpoint.read(place)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")  # root may write anywhere, but not below a file
    with pytest.raises(FolderError, match=r"00000001 cannot be written: Not a directory"):
        checkpoint.write(tmp_path / "file" / "checkpoints", 1, STATES, FACTS)
