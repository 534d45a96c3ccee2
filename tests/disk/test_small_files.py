"""Small files that others may have written: only regular ones are read, up to a limit, and never too deep."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from colonnade.disk.small_files import DEEPEST, check_depth, opened, read_json, read_small, read_toml


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for size in (0, 1, 2048):
        path.write_bytes(b"x" * size)
        assert read_small(path, 2048) == b"x" * size
    path.write_bytes(b"x" * 2049)
    with pytest.raises(OSError, match="larger than 2 kB, which is the most here"):
        read_small(path, 2048)


def test_a_file_of_any_size_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a file with a hole, which takes no room on the disk
    with pytest.raises(OSError, match="larger than 16 MB"):
        read_small(path)


def test_a_file_that_says_it_is_empty_is_read_to_its_limit() -> None:
    """Files of /proc have no size, and endless ones no end."""
    assert read_small("/proc/self/stat")
    with pytest.raises(OSError, match="larger than 0 kB"):
        read_small("/proc/self/stat", 10)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    place = socket.socket(socket.AF_UNIX)
    place.bind(str(tmp_path / "socket"))
    place.close()
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/null"):
        with pytest.raises(OSError, match="it is a device, a pipe or a socket"):
            read_small(path)
    with pytest.raises(OSError, match="No such device or address"):
        read_small(tmp_path / "socket")
    with pytest.raises(IsADirectoryError):
        read_small(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "nowhere")
    with pytest.raises(OSError, match="a character that no name may have"):
        read_small("a\0b")


def test_links_are_followed_to_files_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"here")
    (tmp_path / "to a").symlink_to("a")
    (tmp_path / "to zero").symlink_to("/dev/zero")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "nowhere").symlink_to("gone")
    assert read_small(tmp_path / "to a") == b"here"
    for name, told in {"to zero": "a device", "round": "symbolic links", "nowhere": "No such file"}.items():
        with pytest.raises(OSError, match=told):
            read_small(tmp_path / name)


def test_no_file_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"here")
    before = os.listdir("/proc/self/fd")
    with opened(tmp_path / "a") as file:
        assert file.read() == b"here"
    for wrong in (tmp_path, "/dev/null"):
        with pytest.raises(OSError, match=r"directory|device"):
            read_small(wrong)
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"here")
    (tmp_path / "a").chmod(0)
    with pytest.raises(PermissionError):
        read_small(tmp_path / "a")


def test_json_and_toml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"rounds": [1, 2]}')
    (tmp_path / "a.toml").write_text("[train]\nrounds = 2\n")
    assert read_json(tmp_path / "a.json") == {"rounds": [1, 2]}
    assert read_toml(tmp_path / "a.toml") == {"train": {"rounds": 2}}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, "[" * 61 + "1" + "]" * 61])
def test_json_that_is_nested_too_deep(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="nested too deep"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    "text", ["a" + ".a" * 100_000 + " = 1", "a = " + "[" * 5000, "[" + "a." * 70 + "a]", "'a'" + '."b"' * 70 + " = 1"]
)
def test_toml_that_is_nested_too_deep(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ValueError, match="nested too deep"):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"a": 1}{'])
def test_damaged_json(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(raw)
    with pytest.raises(ValueError, match=r"Expecting|Extra data|decode"):
        read_json(tmp_path / "a.json")


def test_the_deepest_that_is_taken() -> None:
    nested: object = 1
    for _ in range(DEEPEST):
        nested = [nested]
    check_depth(nested)
    with pytest.raises(ValueError, match="nested too deep"):
        check_depth([nested])
