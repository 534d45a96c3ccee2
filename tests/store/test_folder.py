"""Small files in a folder: whole or as they were, and, where a count must outlast a power cut, on the disk."""

import os
import stat
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.disk.whole_files import write_bytes, write_text
from colonnade.errors import FolderError


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reached the disk, in order."""
    seen: list[str] = []
    sync, replace = os.fsync, Path.replace

    def watched_sync(handle: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def watched_replace(self: Path, target: Path) -> Path:
        seen.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    return seen


def test_a_durable_file_is_on_the_disk_before_it_has_its_name_and_its_name_after(
    tmp_path: Path, order: list[str]
) -> None:
    write_text(tmp_path / "count", "3", durable=True)
    assert order == ["file", "rename", "folder"] and (tmp_path / "count").read_text() == "3"


def test_other_files_do_not_wait_for_the_disk(tmp_path: Path, order: list[str]) -> None:
    write_bytes(tmp_path / "page", b"3")
    assert order == ["rename"] and [path.name for path in tmp_path.iterdir()] == ["page"]


def test_a_disk_that_does_not_take_it_is_told_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "count", "3")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FolderError, match="count cannot be written: No space left"):
        write_text(tmp_path / "count", "4", durable=True)
    assert (tmp_path / "count").read_text() == "3"


def test_states_and_preparations_of_a_run_are_nobody_elses(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        train, _ = cn.load("digits", parties=2, rows=40)
        cn.train(train, "vimsgd", rounds=2, batch=10, seal=cn.Noise(epsilon=8.0, clip=1.0), folder=tmp_path)
    finally:
        os.umask(before)
    kept = [path for path in tmp_path.rglob("*") if path.suffix == ".safetensors" or path.name == "manifest.json"]
    assert len(kept) >= 4
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in kept} == {path.name: 0o600 for path in kept}
