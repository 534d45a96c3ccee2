"""How many rows of a Parquet file can be decoded at a time; a column that unpacks into too much is refused before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import TableError
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.limits import LONGEST_VALUE
from colonnade.tables.sheets.page_headers import DELTA_BYTE_ARRAY, DICTIONARY_PAGE, Page, pages

ROWS = 1 << 16  # of a batch, at most
_TEXTS = 32 << 20  # bytes of all texts of a batch, at most, if each is as long as the longest may be
_PAGE, _PAGE_EACH = 16 << 20, 64  # bytes of an unpacked page; a larger one has at least a byte in the file for so many
_SHORT = 512  # bytes; a dictionary of texts that is no longer is not looked into
_NUMBER = 8  # bytes
_CODECS = ("snappy", "gzip", "zstd", "brotli")  # those that pyarrow unpacks by itself as it does in Parquet
_LENGTH = 4  # bytes before each text of a dictionary


def rows_at_a_time(path: Path, file: Any, group: int, names: Sequence[str]) -> int:
    """The number of rows of one row group that a batch of these columns may have."""
    asked, columns = set(names), range(file.metadata.num_columns)
    leaves = [leaf for leaf in columns if asked.intersection(_parents(file.schema.column(leaf).path))]
    with path.open("rb") as raw:
        a_row = sum(_Chunk(path, file, group, leaf).text_of_a_row(raw) for leaf in leaves)
    return max(1, min(ROWS, _TEXTS // max(a_row, 1)))


def _parents(path: str) -> Iterator[str]:
    """The columns that a path may belong to: ``a.list.element`` is of column ``a``, but names have dots too."""
    return accumulate(path.split("."), "{}.{}".format)


def longest_of(entries: bytes, count: int) -> int | None:
    r"""The length of the longest of texts with their lengths before them, or None if that is not seen at a glance.

    A length below 256 is one byte and three zeros, and texts have no zeros. Where that shows as many lengths as there
    are texts, and each leads to the next, they are the lengths. pyarrow finds out any case, five times as slowly.

    >>> longest_of(b"\3\0\0\0red\4\0\0\0blue", 2)
    4
    """
    raw = np.frombuffer(entries, np.uint8)
    zero = raw == 0
    at = np.flatnonzero(zero[1:-2] & zero[2:-1] & zero[3:])
    if not count or len(at) != count:
        return None
    ends = at + _LENGTH + raw[at]
    leads_on = at[0] == 0 and ends[-1] == len(raw) and np.array_equal(ends[:-1], at[1:])
    return int(raw[at].max()) if leads_on else None


class _Chunk:
    """One column of one row group."""

    def __init__(self, path: Path, file: Any, group: int, leaf: int) -> None:
        self.path, self.group = path, group
        self.about, self.form = file.metadata.row_group(group).column(leaf), file.schema.column(leaf)
        self.name = self.form.path

    def text_of_a_row(self, raw: BufferedReader) -> int:
        """How many bytes of text one row may have of this column, on the average of a batch; 0 of a number."""
        every = list(self._pages(raw))
        is_coded = any(page.is_coded for page in every) and self.about.physical_type == "BYTE_ARRAY"
        entries = [page for page in every if page.kind == DICTIONARY_PAGE and is_coded]
        longest = max((self._longest_of(page) for page in every), default=0)
        longest = max([longest, *(self._checked(self._longest_entry(raw, page)) for page in entries)])
        if self.form.max_repetition_level:
            self._check_lists(every, max(longest, _NUMBER))
            return 0
        return longest

    def _pages(self, raw: BufferedReader) -> Iterator[Page]:
        first = self.about.data_page_offset
        if self.about.has_dictionary_page and 0 < self.about.dictionary_page_offset < first:
            first = self.about.dictionary_page_offset
        for page in pages(raw, first, self.about.total_compressed_size):
            self._check_size("a page", page.size, page.packed)
            yield page

    def _longest_of(self, page: Page) -> int:
        """Bytes of a value of this page: of a plain page the mean, which is what a batch of them has."""
        kind = self.about.physical_type
        if kind == "FIXED_LEN_BYTE_ARRAY":
            return self._checked(self.form.length)
        if kind != "BYTE_ARRAY" or page.kind == DICTIONARY_PAGE or page.is_coded:
            return 0
        if page.encoding == DELTA_BYTE_ARRAY:  # a value repeats as much as it likes of the value before it
            return page.size
        return self._checked(page.size // max(page.values, 1))

    def _longest_entry(self, raw: BufferedReader, page: Page) -> int:
        """Bytes of the longest text in the dictionary, which any row may have."""
        if page.size <= _SHORT:
            return page.size
        raw.seek(page.at)
        entries, codec = raw.read(page.packed), self.about.compression.lower()
        if codec in _CODECS:
            entries = arrow().decompress(entries, page.size, codec, asbytes=True)
        return longest_of(entries, page.values) or self._longest_by_arrow() or page.size

    def _longest_by_arrow(self) -> int | None:
        pa, pc = arrow(), arrow("pyarrow.compute")
        file = arrow("pyarrow.parquet").ParquetFile(str(self.path), read_dictionary=[self.name], pre_buffer=False)
        first = next(file.iter_batches(1, row_groups=[self.group], columns=[self.name]), None)
        if first is None or not pa.types.is_dictionary(first.column(0).type):  # texts in lists
            return None
        longest: int | None = pc.max(pc.binary_length(first.column(0).dictionary)).as_py()
        return longest

    def _checked(self, length: int) -> int:
        if length > LONGEST_VALUE:
            raise TableError(
                f"{self.path} has a value of {length >> 20:,} MB or more in column '{self.name}'; "
                f"{LONGEST_VALUE >> 20} MB is the most for one value; shorten it, or leave the column out of the file."
            )
        return length

    def _check_lists(self, every: Sequence[Page], longest: int) -> None:
        """Any number of a list's values may be in one row, so that they are bounded all together."""
        size = longest * sum(page.values for page in every if page.kind != DICTIONARY_PAGE)
        self._check_size("lists", size, self.about.total_compressed_size)

    def _check_size(self, what: str, size: int, packed: int) -> None:
        if size > max(_PAGE, _PAGE_EACH * packed):
            raise TableError(
                f"{self.path} has {what} of {size >> 20:,} MB in column '{self.name}', packed into {packed:,} bytes; "
                f"{_PAGE >> 20} MB, or {_PAGE_EACH} times the packed bytes, is the most; get the file anew, or leave "
                "the column out of it."
            )
