"""Arrow data: IPC and Feather files as streams of batches, and tables or streams that a program holds in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.errors import TableError
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.limits import check_cells
from colonnade.tables.sheets.names import check_names

_ROWS = 1 << 16  # of a batch
_OLD_FEATHER = b"FEA1"


class ArrowFile:
    """One file in Arrow's IPC form, the one for files (Feather 2) or the one for streams."""

    typed = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as reader:
            schema = reader.schema
        self.names: tuple[str, ...] = tuple(schema.names)
        self.types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        self.rows = 0  # not known before the file was read once
        check_names(path, self.names)

    def batches(self, names: Sequence[str], wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, Any]]:
        """Batches of these columns, each with the number of its first row."""
        start = 0
        with self._opened(names) as reader:
            for whole in self._each(reader):
                check_cells(self.path, start + whole.num_rows, len(self.names))
                for at in range(0, whole.num_rows, _ROWS):
                    yield start + at, whole.slice(at, _ROWS)
                start += whole.num_rows

    def _each(self, reader: Any) -> Iterator[Any]:
        """All batches, checked: Arrow itself trusts the offsets in a file."""
        pa = arrow()
        many = getattr(reader, "num_record_batches", None)
        try:
            for batch in reader if many is None else map(reader.get_batch, range(many)):
                batch.validate(full=True)
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    @contextmanager
    def _opened(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        pa, ipc = arrow(), arrow("pyarrow.ipc")
        fields = None if names is None else sorted(self.names.index(name) for name in names)
        options = ipc.IpcReadOptions(included_fields=fields)
        with pa.OSFile(str(self.path)) as file:
            first = file.read(6)
            file.seek(0)
            try:
                is_file = bytes(first) == b"ARROW1"
                reader = (ipc.open_file if is_file else ipc.open_stream)(file, options=options)
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


class ArrowData:
    """A table, a batch or a stream of batches that a program gave; a stream is read once, into memory."""

    typed = True

    def __init__(self, data: Any) -> None:
        pa = arrow()
        self.path = Path("table")
        try:
            self.table = _as_table(pa, data)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"the Arrow stream cannot be read ({' '.join(str(error).split())[:160]}).") from error
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


def is_arrow_data(data: Any) -> bool:
    """Whether it is Arrow data in memory: a table, a batch or a reader, without importing pyarrow for a path."""
    module = type(data).__module__
    return module.partition(".")[0] == "pyarrow" and not hasattr(data, "__fspath__")


def _as_table(pa: Any, data: Any) -> Any:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    raise TableError(f"a {type(data).__name__} came as files; give paths, a pyarrow.Table or a RecordBatchReader.")
