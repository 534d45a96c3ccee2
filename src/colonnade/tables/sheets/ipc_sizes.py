"""What the batches of an Arrow file unpack into, by its headers alone: pyarrow unpacks whole batches at once.

A file is a row of messages: a length, metadata as a flatbuffer, and a body. The metadata of a batch say where its
buffers are in the body and whether they are compressed; a compressed one begins with its unpacked length, 8 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from colonnade.errors import TableError

FILE_MAGIC = b"ARROW1"
FIRST = 8  # bytes before the first message of Arrow's form for files; a stream has none
_FREE, _EACH = 32 << 20, 256  # bytes of an unpacked batch; beyond those for every packed byte
_MOST_METADATA = 64 << 20
_CONTINUES = b"\xff\xff\xff\xff"
_DICTIONARY, _BATCH = 2, 3  # kinds of messages


class BatchSize(NamedTuple):
    """Bytes of a batch or a dictionary in the file, and unpacked."""

    packed: int
    unpacked: int


def check_unpacked(path: Path) -> None:
    """Refuse a file with a batch that unpacks into much more than it is."""
    for one in batch_sizes(path):
        if one.unpacked > max(_FREE, _EACH * one.packed):
            raise TableError(
                f"{path} has a batch that unpacks from {one.packed:,} bytes into {one.unpacked >> 20:,} MB; "
                f"{_FREE >> 20} MB, or {_EACH} times the packed bytes, is the most; get the file anew, or leave out "
                "columns that say nothing."
            )


def batch_sizes(path: Path) -> Iterator[BatchSize]:
    """The sizes of all batches and dictionaries of a file, as a reader of streams comes to them."""
    with path.open("rb") as file:
        file.seek(FIRST if file.read(len(FILE_MAGIC)) == FILE_MAGIC else 0)
        try:
            while (metadata := _metadata(file)) is not None:
                message = _Table.root(metadata)
                at, length = file.tell(), message.number(3, "<q", 0)
                if not 0 <= length <= path.stat().st_size - at:
                    raise ValueError("a body beyond the file")
                batch = _batch_in(message)
                if batch is not None:
                    yield BatchSize(length, max(length, _unpacked(file, batch, at, length)))
                file.seek(at + length)
        except (struct.error, ValueError, OverflowError) as error:
            raise TableError(f"{path} is no Arrow file, or a damaged one ({error}); get it anew.") from error


def _metadata(file: BufferedReader) -> bytes | None:
    """The metadata of the next message; None at the end."""
    first = file.read(4)
    raw = file.read(4) if first == _CONTINUES else first
    if len(raw) < 4 or raw == bytes(4):
        return None
    (length,) = struct.unpack("<i", raw)
    if not 0 < length <= _MOST_METADATA:
        raise ValueError(f"metadata of {length} bytes")
    return file.read(length)


def _batch_in(message: _Table) -> _Table | None:
    kind = message.number(1, "<B", 0)
    header = message.table(2) if kind in (_DICTIONARY, _BATCH) else None
    return header.table(1) if header is not None and kind == _DICTIONARY else header


def _unpacked(file: BufferedReader, batch: _Table, body: int, size: int) -> int:
    """Bytes of all buffers of a batch, as they are after unpacking."""
    if batch.table(3) is None:  # no compression
        return 0
    total = 0
    for offset, length in batch.pairs(2):
        if length < 0 or not 0 <= offset <= size - length:
            raise ValueError("a buffer beyond the body")
        if length:
            file.seek(body + offset)
            (unpacked,) = struct.unpack("<q", file.read(8))
            total += length if unpacked < 0 else unpacked
    return total


class _Table(NamedTuple):
    """A table of a flatbuffer: fields by number, each where the table's own list of offsets says."""

    raw: bytes
    at: int

    @staticmethod
    def root(raw: bytes) -> _Table:
        return _Table(raw, _read(raw, "<I", 0))

    def _place(self, field: int) -> int:
        """Where a field is; 0 if it is not there."""
        offsets = self.at - _read(self.raw, "<i", self.at)
        entry = 4 + 2 * field
        if entry + 2 > _read(self.raw, "<H", offsets):
            return 0
        offset = _read(self.raw, "<H", offsets + entry)
        return self.at + offset if offset else 0

    def number(self, field: int, form: str, default: int) -> int:
        place = self._place(field)
        return _read(self.raw, form, place) if place else default

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return _Table(self.raw, place + _read(self.raw, "<I", place)) if place else None

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A list of pairs of 64-bit numbers."""
        place = self._place(field)
        if place:
            first = place + _read(self.raw, "<I", place)
            count = _read(self.raw, "<I", first)
            if first + 4 + 16 * count > len(self.raw):
                raise ValueError("a list beyond the metadata")
            yield from struct.iter_unpack("<qq", self.raw[first + 4 : first + 4 + 16 * count])


def _read(raw: bytes, form: str, at: int) -> int:
    if at < 0:
        raise ValueError("an offset before the metadata")
    (number,) = struct.unpack_from(form, raw, at)
    return int(number)
