"""Files of tensors (safetensors): the sizes in a header are compared with the file before it is hashed or loaded."""

from __future__ import annotations

import json
import os
from io import BufferedReader
from pathlib import Path
from typing import Any

from colonnade.disk.small_files import opened

_LONGEST = 64 << 20  # bytes of a header; each tensor takes about a hundred
_LENGTH = 8  # bytes before the header that say how long it is


def read_tensors(path: Path) -> bytes:
    """All bytes of a safetensors file, if it is as long as its header says."""
    with opened(path) as file:
        check_length(file)
        file.seek(0)
        return file.read()


def check_length(file: BufferedReader) -> None:
    """Raise a ``ValueError`` unless the file is exactly as long as its header says."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(_LENGTH), "little")
    if size < _LENGTH or length > min(_LONGEST, size - _LENGTH):
        raise ValueError(f"has {size:,} bytes and speaks of a header of {length:,}")
    claimed = _LENGTH + length + _end(file.read(length))
    if claimed != size:
        raise ValueError(f"has {size:,} bytes and its header speaks of {claimed:,}")


def _end(header: bytes) -> int:
    """Where the last tensor ends, counted from the end of the header."""
    try:
        entries = json.loads(header)
        return max((_offset(entry) for name, entry in entries.items() if name != "__metadata__"), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise ValueError("has a header that is none of a safetensors file") from None


def _offset(entry: dict[str, Any]) -> int:
    end = entry["data_offsets"][1]
    if not isinstance(end, int) or end < 0:
        raise ValueError
    return end
