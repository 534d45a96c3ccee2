"""Files that are written whole or not at all, on a disk that may be full, by a process that may be killed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from colonnade.disk.whole_files import append_synced, make_folder, open_private, write_bytes, write_text
from colonnade.errors import FolderError


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond this size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_and_nothing_else_is_left(durable: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text(path, "old", durable=durable)
    write_text(path, "nöw", durable=durable)
    assert path.read_text(encoding="utf-8") == "nöw" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("durable", [False, True])
def test_without_room_the_old_file_stays(durable: bool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_bytes(path, b"old", durable=durable)
    with room_for(1000), pytest.raises(FolderError, match=r"a cannot be written: File too large; make room"):
        write_bytes(path, b"x" * 5000, durable=durable)
    assert path.read_bytes() == b"old"
    write_bytes(path, b"new", durable=durable)  # the draft that is left is no obstacle
    assert path.read_bytes() == b"new" and [*tmp_path.iterdir()] == [path]


def test_a_line_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "sums.log"
    append_synced(path, b"one\n")
    with room_for(10), pytest.raises(OSError, match="File too large"):
        append_synced(path, b"a line that is too long\n")
    append_synced(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_process_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_bytes(path, b"0" * 100_000)
    code = (
        "import sys; from pathlib import Path; from colonnade.disk.whole_files import write_bytes\n"
        "print(flush=True)\n"
        "for k in range(10**6): write_bytes(Path(sys.argv[1]), b'%d' % (k % 10) * 100_000)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        for _ in range(200):
            raw = path.read_bytes()
            assert len(raw) == 100_000 and raw.count(raw[:1]) == 100_000
        process.kill()
    raw = path.read_bytes()
    assert len(raw) == 100_000 and raw.count(raw[:1]) == 100_000


def test_what_is_durable_or_private_is_nobody_elses(tmp_path: Path) -> None:
    with umask(0):
        write_bytes(tmp_path / "plain", b"")
        write_bytes(tmp_path / "durable", b"", durable=True)
        write_text(tmp_path / "private", "", private=True)
        append_synced(tmp_path / "log", b"one\n")
        open_private(tmp_path / "opened", "xb").close()
    assert mode(tmp_path / "plain") == 0o666
    assert {mode(tmp_path / name) for name in ("durable", "private", "log", "opened")} == {0o600}


def test_a_file_that_others_could_read_becomes_private(tmp_path: Path) -> None:
    """Also if a process of the version before left a draft."""
    with umask(0):
        for name in ("a", ".a.draft"):
            (tmp_path / name).write_bytes(b"old")
    write_bytes(tmp_path / "a", b"new", durable=True)
    assert mode(tmp_path / "a") == 0o600


def test_a_link_in_the_drafts_place_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "else").write_bytes(b"untouched")
    (tmp_path / ".a.draft").symlink_to("else")
    write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "else").read_bytes() == b"untouched" and not (tmp_path / "a").is_symlink()


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "else").write_bytes(b"untouched")
    (tmp_path / "a").symlink_to("else")
    write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "else").read_bytes() == b"untouched" and (tmp_path / "a").read_bytes() == b"new"


def test_a_folder_is_made_and_tried(tmp_path: Path) -> None:
    made = make_folder(tmp_path / "a" / "b")
    assert made.is_dir() and not [*made.iterdir()]
    assert make_folder(str(made)) == made


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "a\0b", Path("/proc/nowhere")):
        with pytest.raises(FolderError, match=r"cannot be written: .*; choose another"):
            make_folder(place)
    for place in (tmp_path / "nowhere" / "a", tmp_path / "file" / "a"):
        with pytest.raises(FolderError, match="cannot be written"):
            write_bytes(place, b"")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FolderError, match="Permission denied"):
        make_folder(tmp_path)
