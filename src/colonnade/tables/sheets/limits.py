"""What a file may become in memory: some bytes for any file, and beyond those a multiple of the file's own size.

A few kilobytes can be written so that they unpack into gigabytes, by accident or on purpose. Real tables do not: the
multiples here are several times those of sparse tables under the best compression.
"""

from __future__ import annotations

from pathlib import Path

from colonnade.errors import TableError

LONGEST_VALUE = 1 << 20  # bytes of one text
LONGEST_ID = 4 << 10  # bytes
_FREE_CELLS, _CELLS_EACH = 1 << 22, 256  # cells of any file, and beyond those for every byte of it
_FREE_TEXT, _TEXT_EACH = 64 << 20, 256  # bytes of a CSV's values
DUCK_SIZE = 128 << 20  # bytes of files that a DuckDB source counts as: its ids may take 8 GB
_FREE_IDS, _IDS_EACH = 24 << 20, 64  # bytes that the ids of a sheet take in memory


def check_cells(path: Path, rows: int, columns: int) -> None:
    """Refuse a file of many more cells than its bytes can mean."""
    size = path.stat().st_size
    if rows * columns > _FREE_CELLS + _CELLS_EACH * size:
        raise TableError(
            f"{path} has {size:,} bytes and at least {rows:,} rows of {columns:,} columns; {_FREE_CELLS:,} cells and "
            f"{_CELLS_EACH} more a byte is the most here; get the file anew, or leave out columns that say nothing."
        )


def check_text(path: Path, text: int) -> None:
    """Refuse a CSV that unpacks into much more than it is."""
    size = path.stat().st_size
    if text > _FREE_TEXT + _TEXT_EACH * size:
        raise TableError(
            f"{path} has {size:,} bytes and unpacks into more than {text >> 20:,} MB; {_FREE_TEXT >> 20} MB and "
            f"{_TEXT_EACH} times its bytes is the most here; get the file anew, or unpack it and look what it holds."
        )


def check_id_length(sheet: str, column: str, longest: int) -> None:
    """Refuse an id that is longer than any name or number of a person."""
    if longest > LONGEST_ID:
        raise TableError(
            f"an id of '{sheet}' in column '{column}' has {longest:,} bytes, and {LONGEST_ID:,} is the most; choose "
            "another column with id=, or shorten it."
        )


def check_ids(sheet: str, column: str, size: int, taken: int) -> None:
    """Refuse ids that take much more memory than files of ``size`` bytes can fill with ids that differ."""
    if taken > _FREE_IDS + _IDS_EACH * size:
        raise TableError(
            f"the ids of '{sheet}' in column '{column}' take more than {taken >> 20:,} MB, and its files have, or "
            f"count as, {size:,} bytes; {_FREE_IDS >> 20} MB and {_IDS_EACH} times those is the most here; ids must be "
            "unique: look for ids that repeat, or get the files anew."
        )
