"""Read small files that others may have written or damaged, without blocking or filling the process.

Only regular files are read, never a device, a pipe or a folder, and never more bytes than a limit. A problem is raised
as an ``OSError`` whose ``strerror`` describes it, or as a ``ValueError``; the caller adds its own sentence.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from colonnade.errors import CheckpointError

LARGEST = 16 << 20  # bytes
DEEPEST = 60  # levels of nesting; Colonnade writes no deeper file, and Python's recursion has a limit anyway

_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"""(?<![\w"'-])(?:{_KEY}){{{DEEPEST}}}""")


@contextmanager
def opened(path: str | Path) -> Iterator[BufferedReader]:
    """Open a file to read its bytes; a device, pipe or folder is refused before reading it could block."""
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
    """The value in a small JSON file."""
    return _parsed(json.loads, read_small(path, most))


def read_kept(path: Path, kind: type, otherwise: str) -> Any:
    """The JSON value that this side wrote into a file, None before it did; a damaged file is not taken for none.

    ``otherwise`` ends the sentence that says so.
    """
    try:
        value = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        value = None
    if not isinstance(value, kind):
        raise CheckpointError(f"{path} is damaged{otherwise}.")
    return value


def read_toml(path: str | Path, most: int = LARGEST) -> dict[str, Any]:
    """The table in a small TOML file."""
    text = read_small(path, most).decode("utf-8")
    if _DOTTED.search(text):  # checked first: the parser's time grows with the square of such a key's length
        raise ValueError("it is nested too deep")
    document: dict[str, Any] = _parsed(tomllib.loads, text)
    return document


def _parsed(parse: Callable[[Any], Any], source: bytes | str) -> Any:
    try:
        value = parse(source)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Refuse lists or tables that are nested too deep: a recursive function would fail on them.

    >>> check_depth([[{}]])
    """
    level = [value]
    for _ in range(DEEPEST):
        nodes = (node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list))
        level = [child for node in nodes for child in node if isinstance(child, dict | list)]
        if not level:
            return
    raise ValueError("it is nested too deep")


def _size(most: int) -> str:
    return f"{most >> 20} MB" if most >= 1 << 20 else f"{most >> 10} kB"
