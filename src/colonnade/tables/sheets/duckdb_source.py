"""A table or a query of a DuckDB database as a stream of Arrow batches: ``duckdb:PATH?table=NAME`` or ``?query=SQL``.

Everything behind ``?table=`` or ``?query=`` is taken as it stands. Without a path a query reads files by itself, such
as ``duckdb:?query=SELECT * FROM 'part-*.parquet'``. Rows come in the order of their ids: a sheet is read several times,
and the order of a query's rows is otherwise nobody's promise. A database is opened for reading only, and nothing but it
is read: it may be somebody else's, and a view in it could read any file of the one who opens it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from colonnade.errors import ConfigError, TableError
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.names import check_names

SCHEME = "duckdb:"
_ROWS = 1 << 16  # of a batch
_MEMORY, _DISK = "2GB", "64GB"  # that DuckDB takes to sort and join, in memory and then on the disk


class DuckAddress(NamedTuple):
    """The parts of a source's text: a path, and a table or a query."""

    path: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.path}?{self.kind}={self.what}"


def duck_address(text: str) -> DuckAddress:
    """The parts of a text such as ``duckdb:shop.duckdb?table=customers``.

    >>> duck_address("duckdb:a.db?query=SELECT 1 = 1 AS x")
    DuckAddress(path='a.db', kind='query', what='SELECT 1 = 1 AS x')
    """
    path, _, rest = text.removeprefix(SCHEME).partition("?")
    kind, sign, what = rest.partition("=")
    if kind not in ("table", "query") or not sign or not what.strip() or (kind == "table" and not path):
        raise ConfigError(
            f"{text!r:.120} names no table or query of a DuckDB database; write duckdb:shop.duckdb?table=customers, or "
            "duckdb:shop.duckdb?query=SELECT ..."
        )
    return DuckAddress(path, kind, what.strip().rstrip(";"))


class DuckSource:
    """One table or query; it is run again whenever some of its columns are needed."""

    typed = True

    def __init__(self, text: str, id: str) -> None:
        self.address, self.id = duck_address(text), id
        self.path = Path(self.address.path or "duckdb")
        if self.address.path and not self.path.is_file():
            raise TableError(f"there is no DuckDB database {self.path}; check the path, which ends at the first '?'.")
        with self._reader("*", "LIMIT 0") as reader:
            schema = reader.schema
        self.names: tuple[str, ...] = tuple(schema.names)
        self.types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        self.rows = 0  # not known before the query was run once
        check_names(self.path, self.names)

    def batches(self, names: Sequence[str], wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, Any]]:
        """Batches of these columns in the order of the ids, each with the number of its first row."""
        order = f"ORDER BY {_quoted(self.id)}" if self.id in self.names else ""
        with self._reader(", ".join(map(_quoted, names)), order) as reader:
            start = 0
            for batch in self._each(reader):
                yield start, batch
                start += batch.num_rows

    def digest(self) -> bytes:
        """A digest of all rows, whatever their order; rows have ids, so no two are alike and cancel out."""
        whole = "count(*) AS rows, bit_xor(md5_number(all_of::VARCHAR))::VARCHAR AS mixed"
        with self._reader(whole, "AS all_of") as reader:
            (line,) = reader.read_all().to_pylist()
        return hashlib.sha256(
            repr((self.names, [*map(str, self.types.values())], sorted(line.items()))).encode()
        ).digest()

    def _each(self, reader: Any) -> Iterator[Any]:
        try:
            yield from reader
        except (arrow().ArrowException, OSError) as error:
            raise self._failed(error) from error

    @contextmanager
    def _reader(self, columns: str, rest: str) -> Iterator[Any]:
        """A reader of some columns, closed at the end: DuckDB 2.0 opens no database again while a reader is open."""
        duckdb = _duckdb()
        what = self.address.what
        source = f"({what}\n)" if self.address.kind == "query" else ".".join(map(_quoted, what.split(".")))
        with self._connected(duckdb) as connection:
            query = f"SELECT {columns} FROM {source} {rest}"
            with self._made(duckdb, lambda: connection.sql(query).to_arrow_reader(_ROWS)) as reader:
                yield reader

    @contextmanager
    def _connected(self, duckdb: Any) -> Iterator[Any]:
        """A connection that sorts in little memory, and else in a folder that only this user may read."""
        where = str(self.path) if self.address.path else ":memory:"
        with TemporaryDirectory(prefix="colonnade-duckdb-") as spill:
            how = {"memory_limit": _MEMORY, "temp_directory": spill, "max_temp_directory_size": _DISK}
            read_only = bool(self.address.path)
            with self._made(duckdb, lambda: duckdb.connect(where, read_only=read_only, config=how)) as connection:
                if read_only:
                    connection.execute("SET enable_external_access = false")
                yield connection

    def _made(self, duckdb: Any, make: Callable[[], Any]) -> closing[Any]:
        """What DuckDB makes, closed at the end; an error of DuckDB in making it is told as one of ours."""
        try:
            return closing(make())
        except duckdb.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> TableError:
        reason = " ".join(str(error).split("LINE 1")[0].split())[:200].rstrip(".")
        return TableError(f"{str(self.address)!r:.120} cannot be read ({reason}); correct the path, table or query.")


def placed(file: str, folder: Path) -> str:
    """A path of a job file, from the folder of that file; of a DuckDB source only the path is changed.

    >>> placed("a.csv", Path("jobs")), placed("duckdb:a.db?query=SELECT '$HOME'", Path("jobs"))
    ('jobs/a.csv', "duckdb:jobs/a.db?query=SELECT '$HOME'")
    """
    if not file.startswith(SCHEME):
        return str(folder / os.path.expandvars(os.path.expanduser(file)))
    address = duck_address(file)
    return str(address._replace(path=placed(address.path, folder))) if address.path else file


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _duckdb() -> Any:
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise ConfigError(
            "reading a DuckDB database needs duckdb, which is not installed; pip install 'colonnade[duckdb]'."
        ) from error
