"""Files that are written whole or not at all, and folders that they can be written to.

A file is written under another name first and then renamed, so a crash leaves the old file or the new one. A *durable*
write also waits for the disk, so that a power cut cannot undo it. What must not be lost is also nobody else's business:
a durable file, and one that is said to be *private*, can be read by its owner alone, whatever the umask says.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, cast

from colonnade.errors import FolderError


def make_folder(path: str | Path) -> Path:
    """Create a folder if it does not exist, and check that files can be written to it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except (OSError, ValueError) as error:  # a ValueError is about a NUL byte in the name
        why = error.strerror if isinstance(error, OSError) else "its name holds what no name may hold"
        raise FolderError(f"the folder {folder} cannot be written: {why}; choose another.") from error
    return folder


def write_text(path: Path, text: str, *, durable: bool = False, private: bool = False) -> None:
    """Write a small text file whole or not at all, see :func:`write_bytes`."""
    write_bytes(path, text.encode("utf-8"), durable=durable, private=private)


def write_bytes(path: Path, raw: bytes, *, durable: bool = False, private: bool = False) -> None:
    """Write a small file whole; if that fails, the file that was there before stays as it was.

    ``durable`` waits until the disk has the file, for instance so that a power cut loses no part of a privacy budget.
    ``private`` lets nobody else read it; a durable file is private anyway.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        # The draft of a process that was killed would keep its mode, and lead on if it is a link.
        draft.unlink(missing_ok=True)
        with open_private(draft, "wb") if durable or private else draft.open("wb") as file:
            file.write(raw)
            if durable:
                _sync(file)
        draft.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written: {error.strerror}; make room, or choose another folder."
        ) from error


def open_private(path: Path, mode: str) -> BinaryIO:
    """Open a file to write bytes; if it is new, only its owner may read it."""
    return cast(BinaryIO, open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600)))


def write_synced(file: BinaryIO, raw: bytes) -> None:
    """Write bytes to an open file and wait until the disk has them."""
    file.write(raw)
    _sync(file)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def append_synced(path: Path, line: bytes) -> None:
    """Append a line to a file and wait until the disk has it; if that fails, the file keeps its old length."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(handle).st_size
        try:
            _write_all(handle, line)
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, size)  # part of a line would make the lines after it unreadable
            raise
    finally:
        os.close(handle)


def _write_all(handle: int, raw: bytes) -> None:
    """Write without a buffer: one that could not be emptied would be written later, when the file is closed."""
    while raw:
        raw = raw[os.write(handle, raw) :]


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder; otherwise a power cut can undo the renaming of a file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
