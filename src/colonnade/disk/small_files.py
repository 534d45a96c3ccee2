"""Small files that others may have written or damaged, read so that none can hold up or fill a process.

Only files are read, never a device, a pipe or a folder, and never more of one than it may have. What is wrong comes as
an ``OSError`` whose ``strerror`` says it, or as a ``ValueError``, so that every reader adds its own sentence.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

LARGEST = 16 << 20  # bytes
DEEPEST = 60  # levels; whatever is deeper is nothing of ours, and recursion would end at some level anyway

_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"""(?<![\w"'-])(?:{_KEY}){{{DEEPEST}}}""")


@contextmanager
def opened(path: str | Path) -> Iterator[BufferedReader]:
    """A file to read bytes of; what is no file is refused before anything waits for it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a NUL byte, or half of a character
        raise OSError(errno.EINVAL, "its name holds a character that no name may have") from None
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, not a file")
        file = os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
    with file:
        yield file


def read_small(path: str | Path, most: int = LARGEST) -> bytes:
    """All bytes of a small file."""
    with opened(path) as file:
        raw = b"" if os.fstat(file.fileno()).st_size > most else file.read(most + 1)
        if len(raw) > most or (not raw and os.fstat(file.fileno()).st_size):
            raise OSError(errno.EINVAL, f"it is larger than {_size(most)}, which is the most here")
    return raw


def read_json(path: str | Path, most: int = LARGEST) -> Any:
    """What a small JSON file holds."""
    raw = read_small(path, most)
    try:
        found = json.loads(raw)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    check_depth(found)
    return found


def read_toml(path: str | Path, most: int = LARGEST) -> dict[str, Any]:
    """What a small TOML file holds."""
    text = read_small(path, most).decode("utf-8")
    if _DOTTED.search(text):  # first: the parser takes a time that grows with the square of such a key
        raise ValueError("it is nested too deep")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    check_depth(found)
    return found


def check_depth(value: Any) -> None:
    """Refuse lists in lists, or tables in tables, beyond all use: whatever looks through them would not come back.

    >>> check_depth([[{}]])
    """
    level = [value]
    for _ in range(DEEPEST):
        each = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [inner for one in each for inner in one if isinstance(inner, dict | list)]
        if not level:
            return
    raise ValueError("it is nested too deep")


def _size(most: int) -> str:
    return f"{most >> 20} MB" if most >= 1 << 20 else f"{most >> 10} kB"
