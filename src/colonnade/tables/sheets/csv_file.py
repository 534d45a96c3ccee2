"""A CSV file, plain or gzip, as a stream of Arrow batches in which every value is a text."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from colonnade.errors import ConfigError, TableError
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.limits import check_cells, check_text
from colonnade.tables.sheets.names import check_names

_BLOCK = 8 << 20  # bytes of text that are parsed at a time
_FIRST_LINES = 10_000  # the column names are among them
_OFFSET = 4  # bytes that Arrow needs for a text beside the text itself
_DELIMITERS = {";": "';'", "\t": "a tab ('\\t')", "|": "'|'", ",": "','"}


class CsvFile:
    """One CSV file; it is read from the beginning whenever some of its columns are needed."""

    typed = False

    def __init__(self, path: Path, delimiter: str | None, encoding: str) -> None:
        self.path, self.encoding = path, encoding
        self.delimiter = delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        self.names, self._header_lines = self._header()
        self.types: dict[str, Any] = dict.fromkeys(self.names, arrow().string())
        self.rows = 0  # not known before the file was read once

    def batches(self, names: Sequence[str], wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, Any]]:
        """Batches of these columns, each with the number of its first row."""
        pa, start, text, last = arrow(), 0, 0, ""
        try:
            for batch in self._open(names):
                text += batch.nbytes - _OFFSET * batch.num_rows * batch.num_columns
                check_text(self.path, text)
                check_cells(self.path, start + batch.num_rows, len(self.names))
                yield start, batch
                start += batch.num_rows
                if batch.num_rows and self.names[-1] in names:
                    last = batch.column(self.names[-1])[-1].as_py()
            self._check_closed(last, start)
        except pa.ArrowInvalid as error:
            raise self._wrong(str(error)) from error
        except UnicodeDecodeError as error:
            raise self._wrong_encoding() from error
        except OSError as error:
            raise TableError(f"{self.path} cannot be read ({error}); get the file anew.") from error

    def _check_closed(self, last: str, row: int) -> None:
        """Refuse a quote in the last column that is never closed: all rows below it would become part of its value."""
        if "\n" not in last and "\r" not in last:
            return
        with self._text() as text:
            quotes = sum(part.count('"') for part in iter(lambda: text.read(_BLOCK), ""))
        if quotes % 2:
            raise TableError(f"a quote in row {row} of {self.path} is never closed, up to the file's end; correct it.")

    def _open(self, names: Sequence[str]) -> Any:
        pc = arrow("pyarrow.csv")
        return pc.open_csv(
            str(self.path),
            read_options=pc.ReadOptions(
                block_size=_BLOCK, column_names=list(self.names), skip_rows=self._header_lines, encoding=self.encoding
            ),
            parse_options=pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pc.ConvertOptions(
                column_types=self.types, include_columns=list(names), strings_can_be_null=False
            ),
        )

    def _header(self) -> tuple[tuple[str, ...], int]:
        try:
            with self._text() as text:
                reader = csv.reader(islice(_lines(text), _FIRST_LINES), delimiter=self.delimiter)
                first = next((row for row in reader if row), None)
                lines = reader.line_num
        except (UnicodeDecodeError, UnicodeError) as error:
            raise self._wrong_encoding() from error
        except LookupError:
            raise ConfigError(f"encoding='{self.encoding}' is unknown; give 'utf-8' or 'latin-1'.") from None
        except (OSError, EOFError, zlib.error, csv.Error) as error:
            raise TableError(f"{self.path} cannot be read ({error}); get the file anew.") from error
        if first is None:
            where = "is empty" if lines < _FIRST_LINES else f"has {lines:,} empty lines on top"
            raise TableError(f"{self.path} {where}; it needs a line of column names and a line per row.")
        names = tuple(name.strip() or f"column {k + 1}" for k, name in enumerate(first))
        self._check_names(names)
        return names, lines

    @property
    def _cut(self) -> str:
        return _DELIMITERS.get(self.delimiter, repr(self.delimiter))

    def _check_names(self, names: tuple[str, ...]) -> None:
        for sign, called in _DELIMITERS.items():
            if len(names) == 1 and sign in names[0]:
                raise TableError(
                    f"{self.path} has a single column {names[0]!r:.60} when cut at {self._cut}; "
                    f"its delimiter seems to be {called}: give delimiter={sign!r}."
                )
        check_names(self.path, names)

    def _text(self) -> io.TextIOBase:
        encoding = "utf-8-sig" if self.encoding.lower() in ("utf-8", "utf8") else self.encoding
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rt", encoding=encoding, newline="")
        return self.path.open("r", encoding=encoding, newline="")

    def _wrong(self, reason: str) -> TableError:
        if "UTF8" in reason:
            return self._wrong_encoding()
        if "skip initial" in reason:
            return TableError(f"{self.path} has no rows; it needs at least one below its column names.")
        if "straddl" in reason:
            return TableError(
                f"{self.path} has a row of more than {_BLOCK >> 20} MB, or a quote that is never closed; correct it, "
                "or leave out the column that takes so much."
            )
        ragged = self._ragged()
        if ragged is not None:
            line, fields = ragged
            return TableError(
                f"line {line} of {self.path} has {fields} fields, but the header has {len(self.names)}; "
                "correct that line, or give the delimiter."
            )
        return TableError(f"{self.path} is no CSV that can be read ({' '.join(reason.split())[:160]}); correct it.")

    def _ragged(self) -> tuple[int, int] | None:
        """The first line with another number of fields than the header, and that number, if Python's csv finds one."""
        with self._text() as text:
            reader = csv.reader(_lines(text), delimiter=self.delimiter)
            try:
                wrong = next((row for row in reader if row and len(row) != len(self.names)), None)
            except (OSError, EOFError, zlib.error, csv.Error, UnicodeError):
                return None
            return None if wrong is None else (reader.line_num, len(wrong))

    def _wrong_encoding(self) -> TableError:
        other = "utf-16" if self._first_bytes() in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        return TableError(
            f"{self.path} is not text in {self.encoding}; give its encoding, for instance encoding='{other}'."
        )

    def _first_bytes(self) -> bytes:
        open_it: Callable[..., Any] = gzip.open if self.path.suffix == ".gz" else open
        with open_it(self.path, "rb") as file:
            return bytes(file.read(2))


def _lines(text: io.TextIOBase) -> Iterator[str]:
    """The lines of a text; a line that could fill the memory is refused."""
    while line := text.readline(_BLOCK):
        if len(line) >= _BLOCK:
            raise csv.Error(f"a line of it has more than {_BLOCK >> 20} MB")
        yield line
