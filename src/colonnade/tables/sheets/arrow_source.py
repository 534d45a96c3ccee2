"""Arrow data: IPC and Feather files as streams of batches, and tables, frames or streams that a program holds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import TableError
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.frames import table_of
from colonnade.tables.sheets.id_rules import is_text
from colonnade.tables.sheets.ipc_sizes import FILE_MAGIC, FIRST, check_unpacked
from colonnade.tables.sheets.limits import LONGEST_VALUE, check_cells
from colonnade.tables.sheets.names import check_names

_ROWS = 1 << 16  # of a batch
_TEXTS = 32 << 20  # bytes of all texts of a batch, if each is as long as the longest
_OLD_FEATHER = b"FEA1"


class ArrowFile:
    """One file in Arrow's IPC form, the one for files (Feather 2) or the one for streams."""

    typed = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as reader:  # an old or damaged file is named as such
            schema = reader.schema
        self.names: tuple[str, ...] = tuple(schema.names)
        self.types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        self.rows = 0  # not known before the file was read once
        check_names(path, self.names)
        check_unpacked(path)

    def batches(self, names: Sequence[str], wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, Any]]:
        """Batches of these columns, each with the number of its first row."""
        start = 0
        with self._opened(names) as reader:
            for whole in self._each(reader):
                check_cells(self.path, start + whole.num_rows, len(self.names))
                rows = self._rows_at_a_time(whole)
                for at in range(0, whole.num_rows, rows):
                    yield start + at, whole.slice(at, rows)
                start += whole.num_rows

    def _each(self, reader: Any) -> Iterator[Any]:
        """All batches, checked: Arrow itself trusts the offsets in a file."""
        pa = arrow()
        try:
            for batch in reader:
                batch.validate(full=True)
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _rows_at_a_time(self, batch: Any) -> int:
        """How many rows become texts at once: any row may have the longest text of a dictionary or of a view."""
        longest = [longest_text(column) for column in batch.columns]
        for name, length in zip(batch.schema.names, longest, strict=True):
            if length > LONGEST_VALUE:
                raise TableError(
                    f"{self.path} has a value of {length >> 20:,} MB or more in column '{name}'; {LONGEST_VALUE >> 20} "
                    "MB is the most for one value; shorten it, or leave the column out of the file."
                )
        return max(1, min(_ROWS, _TEXTS // max(sum(longest), 1)))

    @contextmanager
    def _opened(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        pa, ipc = arrow(), arrow("pyarrow.ipc")
        fields = None if names is None else sorted(self.names.index(name) for name in names)
        options = ipc.IpcReadOptions(included_fields=fields)
        with pa.OSFile(str(self.path)) as file:
            first = bytes(file.read(len(FILE_MAGIC)))
            file.seek(FIRST if first == FILE_MAGIC else 0)
            try:  # a file holds a stream; its list of batches at the end may name others than were looked at
                reader = ipc.open_stream(file, options=options)
            except (pa.ArrowException, OSError) as error:
                raise self._damaged(error) from error
            yield reader

    def _damaged(self, error: Exception) -> TableError:
        with self.path.open("rb") as file:
            if file.read(4) == _OLD_FEATHER:
                return TableError(
                    f"{self.path} is a Feather file of version 1; write it anew, as version 2 or Parquet."
                )
        reason = " ".join(str(error).split())[:160]
        return TableError(f"{self.path} is no Arrow file, or a damaged one ({reason}); get it anew.")


def longest_text(column: Any) -> int:
    """Bytes of the longest text that a row of a column may have; 0 of numbers."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if pa.types.is_dictionary(column.type):
        return longest_text(column.dictionary)
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        views = np.frombuffer(column.buffers()[1], "<i4")[::4]  # each of 16 bytes, and its length first
        return int(views[column.offset : column.offset + len(column)].max(initial=0))
    if is_text(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return int(pc.max(pc.binary_length(column)).as_py() or 0)
    return 0


class ArrowData:
    """A table, a frame or a stream of batches that a program gave; a stream is read once, into memory."""

    typed = True

    def __init__(self, data: Any) -> None:
        self.path = Path("table")
        self.table = table_of(data)
        self.names: tuple[str, ...] = tuple(self.table.column_names)
        self.types: dict[str, Any] = dict(zip(self.names, self.table.schema.types, strict=True))
        self.rows: int = self.table.num_rows
        check_names(self.path, self.names)

    def batches(self, names: Sequence[str], wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, Any]]:
        """Batches of these columns, each with the number of its first row, where any row is wanted."""
        start = 0
        for batch in self.table.select(list(names)).to_batches(max_chunksize=_ROWS):
            if wanted(start, start + batch.num_rows):
                yield start, batch
            start += batch.num_rows

    def digest(self) -> bytes:
        """SHA-256 over all values in their order."""
        total = hashlib.sha256()
        total.update(self.table.schema.remove_metadata().serialize().to_pybytes())
        whole = self.table.replace_schema_metadata().combine_chunks()  # the cut into chunks does not matter
        for batch in whole.to_batches():
            total.update(memoryview(batch.serialize()))
        return total.digest()
