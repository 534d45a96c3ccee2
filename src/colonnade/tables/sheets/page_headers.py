"""The headers of a Parquet file's pages: how large a page is in the file, and how large once it is decompressed.

pyarrow decompresses a page into as many bytes as its header says, and shows headers to nobody. So they are read here,
before pyarrow reads the page. A header is a struct in Thrift's compact protocol, of which only numbers are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import Any, NamedTuple

DICTIONARY_PAGE = 2
PLAIN_DICTIONARY, DELTA_BYTE_ARRAY, DICTIONARY_CODES = 2, 7, 8  # encodings, as Parquet numbers them
_KIND, _SIZE, _PACKED = 1, 2, 3  # fields of every page header
_DETAILS = {5: 2, 7: 2, 8: 4}  # fields about a data page, a dictionary and a newer data page, each with its encoding's
_VALUES = 1  # the field of all three that counts values
_TRUE, _FALSE, _INTEGERS, _STRUCT = 1, 2, (4, 5, 6), 12  # kinds of a field
_SKIPPED = {3: 1, 7: 8, 8: 0}  # bytes of a byte, of a float, and of a text, before which its length stands
_DEEPEST = 4  # structs inside each other; a page's header has two


class Page(NamedTuple):
    """What a page's header says of it."""

    kind: int
    size: int  # bytes once it is decompressed
    packed: int  # bytes in the file
    values: int
    encoding: int
    at: int = 0  # where its bytes begin in the file

    @property
    def is_coded(self) -> bool:
        """Whether its values are numbers of entries in the dictionary page."""
        return self.encoding in (PLAIN_DICTIONARY, DICTIONARY_CODES) and self.kind != DICTIONARY_PAGE


def pages(file: BufferedReader, start: int, length: int) -> Iterator[Page]:
    """The headers of the pages in this part of a file; a ``ValueError`` if there is something else."""
    at = start
    while at < start + length:
        file.seek(at)
        page = _page(_struct(file, _DEEPEST))._replace(at=file.tell())
        at = page.at + page.packed
        yield page


def _page(fields: dict[int, Any]) -> Page:
    details, encoding = next(((fields[k], at) for k, at in _DETAILS.items() if k in fields), ({}, 0))
    if not isinstance(details, dict):
        raise ValueError("a page has no header of its own")
    counts = [fields.get(key) for key in (_KIND, _SIZE, _PACKED)] + [details.get(key, 0) for key in (_VALUES, encoding)]
    kind, size, packed, values, coding = (count if type(count) is int else -1 for count in counts)
    if min(kind, size, packed, values, coding) < 0:
        raise ValueError("a page has no header of its own")
    return Page(kind, size, packed, values, coding)


def _struct(file: BufferedReader, deepest: int) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    number = 0
    while head := _byte(file):
        number = number + (head >> 4) if head >> 4 else _integer(file)
        fields[number] = _value(file, head & 15, deepest)
    return fields


def _value(file: BufferedReader, kind: int, deepest: int) -> Any:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE
    if kind in _INTEGERS:
        return _integer(file)
    if kind == _STRUCT and deepest:
        return _struct(file, deepest - 1)
    if kind not in _SKIPPED:
        raise ValueError("a page has no header of its own")
    file.seek(_SKIPPED[kind] or _varint(file), 1)
    return None


def _integer(file: BufferedReader) -> int:
    """A signed number: its lowest bit is the sign."""
    raw = _varint(file)
    return (raw >> 1) ^ -(raw & 1)


def _varint(file: BufferedReader) -> int:
    total = 0
    for shift in range(0, 70, 7):
        byte = _byte(file)
        total |= (byte & 127) << shift
        if byte < 128:
            return total
    raise ValueError("a number in a page's header has no end")


def _byte(file: BufferedReader) -> int:
    byte = file.read(1)
    if not byte:
        raise ValueError("a page is cut off")
    return byte[0]
