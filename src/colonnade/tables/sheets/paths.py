"""The files of a user's paths and globs, their name, and the SHA-256 that shows whether a file has changed."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from colonnade.errors import ConfigError, TableError
from colonnade.tables.sheets.csv_file import CsvFile
from colonnade.tables.sheets.parquet_file import ParquetFile

File = CsvFile | ParquetFile
_CHUNK = 1 << 20
_TEXT = (".csv", ".tsv", ".txt")
_PARQUET = (".parquet", ".pq")


def find_files(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files of a path, a glob such as ``part-*.parquet``, or a list of those; a glob's in order of their names."""
    asked = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not asked:
        raise ConfigError("no file came; give a path, a glob such as 'part-*.parquet', or a list of those.")
    every: list[Path] = []
    for pattern in [os.fspath(path) for path in asked]:
        is_glob = glob.has_magic(pattern) and not os.path.exists(pattern)
        paths = sorted(glob.glob(pattern)) if is_glob else [pattern]
        if not paths or not all(map(os.path.isfile, paths)):
            raise TableError(f"there is no file {pattern}; give a path, or a glob that finds some.")
        every += map(Path, paths)
    if len(set(every)) != len(every):
        raise ConfigError(f"a file came twice among {', '.join(map(str, every))}; give each once.")
    return every


def open_file(path: Path, delimiter: str | None, encoding: str) -> File:
    """The file as a stream, by its extension."""
    kind = _kind(path)
    if kind in _PARQUET:
        return ParquetFile(path)
    if kind in _TEXT:
        return CsvFile(path, delimiter, encoding)
    raise ConfigError(f"{path} is of no kind that is read here; give .csv, .tsv or .txt, plain or .gz, or .parquet.")


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


def digest_of(paths: Sequence[Path]) -> str:
    """SHA-256 over the bytes of all files, in order."""
    total = hashlib.sha256()
    for path in paths:
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError as error:
            raise TableError(f"{path} cannot be read: {error.strerror}.") from error
        total.update(digest.digest())
    return total.hexdigest()


def _kind(path: Path) -> str:
    suffixes = path.suffixes[:-1] if path.suffix == ".gz" else path.suffixes
    return suffixes[-1].lower() if suffixes else ""
