"""A Parquet file as a stream of Arrow batches; only wanted columns of row groups with wanted rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import TableError
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.limits import check_cells
from colonnade.tables.sheets.names import check_names
from colonnade.tables.sheets.parquet_limits import rows_at_a_time

_BUFFER = 1 << 20  # bytes of a column that are read from the disk at a time


class ParquetFile:
    """One Parquet file; it is read again whenever some of its columns are needed."""

    typed = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as file:
            schema, about = file.schema_arrow, file.metadata
        self._groups = [about.row_group(k).num_rows for k in range(about.num_row_groups)]
        self.names: tuple[str, ...] = tuple(schema.names)
        self.types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        self.rows = sum(self._groups)
        check_names(path, self.names)
        check_cells(path, self.rows, len(self.names))

    def batches(self, names: Sequence[str], wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, Any]]:
        """Batches of these columns, each with the number of its first row, where any row is wanted."""
        pa, start = arrow(), 0
        with self._opened() as file:
            for group, rows in enumerate(self._groups):
                if wanted(start, start + rows):
                    at = start
                    try:
                        rows_each = rows_at_a_time(self.path, file, group, names)
                        for batch in file.iter_batches(rows_each, row_groups=[group], columns=list(names)):
                            yield at, batch
                            at += batch.num_rows
                    except TableError:
                        raise
                    except (pa.ArrowException, OSError, ValueError) as error:
                        raise self._damaged(error) from error
                start += rows

    def _opened(self) -> Any:
        pa, pq = arrow(), arrow("pyarrow.parquet")
        try:
            return pq.ParquetFile(str(self.path), buffer_size=_BUFFER, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> TableError:
        if not self.path.stat().st_size:
            return TableError(f"{self.path} is empty; get the file anew.")
        with self.path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return TableError(
                    f"{self.path} is not a Parquet file despite its name; rename it if it is a CSV, or get it anew."
                )
        reason = " ".join(str(error).split())[:160]
        return TableError(f"{self.path} is a damaged Parquet file ({reason}); get it anew.")
