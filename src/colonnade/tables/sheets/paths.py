"""The sources of a user's paths and globs, their name, and the SHA-256 that shows whether one has changed."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from colonnade.errors import ConfigError, TableError
from colonnade.tables.sheets.arrow_source import ArrowData, ArrowFile
from colonnade.tables.sheets.csv_file import CsvFile
from colonnade.tables.sheets.duckdb_source import SCHEME, DuckSource
from colonnade.tables.sheets.frames import is_frame
from colonnade.tables.sheets.limits import DUCK_SIZE
from colonnade.tables.sheets.parquet_file import ParquetFile

File = CsvFile | ParquetFile | ArrowFile | ArrowData | DuckSource
_CHUNK = 1 << 20
_TEXT = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc", ".arrows")


def find_sources(files: Any) -> list[Any]:
    """The files of a path, a glob such as ``part-*.parquet``, or a list of those; a glob's in order of their names.

    Texts that name a DuckDB table or query, and tables in memory, stand for themselves.
    """
    one = isinstance(files, str | os.PathLike) or is_frame(files) or not isinstance(files, Iterable)
    asked = [files] if one else list(files)
    if not asked:
        raise ConfigError("no file came; give a path, a glob such as 'part-*.parquet', or a list of those.")
    found = [source for one in asked for source in ([one] if _is_no_file(one) else _found(_path(one)))]
    paths = [source for source in found if isinstance(source, Path)]
    if len(set(paths)) != len(paths):
        raise ConfigError(f"a file came twice among {', '.join(map(str, paths))}; give each once.")
    return found


def _is_no_file(one: Any) -> bool:
    return is_frame(one) or (isinstance(one, str) and one.startswith(SCHEME))


def _path(one: Any) -> str:
    if isinstance(one, str | os.PathLike):
        return os.fspath(one)
    raise TableError(
        f"a {type(one).__name__} came where files are expected; give paths, or a DataFrame or Arrow table, which has "
        "named columns and one of ids."
    )


def _found(pattern: str) -> list[Path]:
    is_glob = glob.has_magic(pattern) and not os.path.exists(pattern)
    paths = sorted(glob.glob(pattern)) if is_glob else [pattern]
    if not paths or not all(map(os.path.isfile, paths)):
        raise TableError(f"there is no file {pattern}; give a path, or a glob that finds some.")
    return [*map(Path, paths)]


def open_source(source: Any, delimiter: str | None, encoding: str, id: str) -> File:
    """A source as a stream: a file by its extension, a DuckDB table or query in the order of its ids, Arrow data."""
    if isinstance(source, str):
        return DuckSource(source, id)
    return open_file(source, delimiter, encoding) if isinstance(source, Path) else ArrowData(source)


def open_file(path: Path, delimiter: str | None, encoding: str) -> File:
    """The file as a stream, by its extension."""
    kind = _kind(path)
    if kind in _PARQUET:
        return ParquetFile(path)
    if kind in _TEXT:
        return CsvFile(path, delimiter, encoding)
    if kind in _ARROW:
        return ArrowFile(path)
    raise ConfigError(
        f"{path} is of no kind that is read here; give .csv, .tsv or .txt, plain or .gz, .parquet, .arrow or .feather."
    )


def name_of(paths: Sequence[Path]) -> str:
    """A name for the sheet: the common beginning of the file names.

    >>> name_of([Path("card-1.parquet"), Path("card-2.parquet")]), name_of([Path("a/bank.csv.gz")])
    ('card', 'bank')
    """
    stems = [path.name.removesuffix(".gz").removesuffix(_kind(path)) for path in paths]
    if len(stems) == 1:
        return stems[0]
    shared = "".join(
        letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*stems, strict=False))
    )
    return shared.rstrip("-_. 0123456789") or stems[0]


def digest_of(sources: Sequence[File]) -> str:
    """SHA-256 over all sources, in order: over the bytes of files, over the rows of others."""
    total = hashlib.sha256()
    for source in sources:
        total.update(source.digest() if isinstance(source, ArrowData | DuckSource) else _file_digest(source.path))
    return total.hexdigest()


def size_of(source: File) -> int:
    """The bytes that a source's ids are measured by. A DuckDB query may read anything, so it counts as much data."""
    if isinstance(source, DuckSource):
        return DUCK_SIZE
    return int(source.table.nbytes) if isinstance(source, ArrowData) else source.path.stat().st_size


def _file_digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}.") from error
    return digest.digest()


def _kind(path: Path) -> str:
    suffixes = path.suffixes[:-1] if path.suffix == ".gz" else path.suffixes
    return suffixes[-1].lower() if suffixes else ""
