"""CSV, plain or gzip, as a stream of Arrow batches in which every value is a text."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import ConfigError, TableError
from colonnade.sheets.arrow import arrow

_BLOCK = 8 << 20  # bytes of text that are parsed at a time
_DELIMITERS = {";": "';'", "\t": "a tab ('\\t')", "|": "'|'", ",": "','"}


class CsvFile:
    """One CSV file; it is read from its beginning whenever columns of it are wanted."""

    typed = False

    def __init__(self, path: Path, delimiter: str | None, encoding: str) -> None:
        self.path, self.encoding = path, encoding
        self.delimiter = delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        self.names, self._header_lines = self._header()
        self.types: dict[str, Any] = dict.fromkeys(self.names, arrow().string())
        self.rows = 0  # not known before somebody has read it

    def batches(self, names: Sequence[str], wanted: Callable[[int, int], bool]) -> Iterator[tuple[int, Any]]:
        """Batches of these columns, each with the number of its first row."""
        pa, start = arrow(), 0
        try:
            for batch in self._open(names):
                yield start, batch
                start += batch.num_rows
        except pa.ArrowInvalid as error:
            raise self._wrong(str(error)) from error
        except UnicodeDecodeError as error:
            raise self._wrong_encoding() from error
        except OSError as error:
            raise TableError(f"{self.path} cannot be read ({error}); get the file anew.") from error

    def _open(self, names: Sequence[str]) -> Any:
        pc = arrow("pyarrow.csv")
        return pc.open_csv(
            str(self.path),
            read_options=pc.ReadOptions(
                block_size=_BLOCK,
                column_names=list(self.names),
                skip_rows=self._header_lines,
                encoding=self.encoding,
            ),
            parse_options=pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pc.ConvertOptions(
                column_types=self.types, include_columns=list(names), strings_can_be_null=False
            ),
        )

    def _header(self) -> tuple[tuple[str, ...], int]:
        try:
            with self._text() as text:
                reader = csv.reader(text, delimiter=self.delimiter)
                first = next((row for row in reader if row), None)
                lines = reader.line_num
        except (UnicodeDecodeError, UnicodeError) as error:
            raise self._wrong_encoding() from error
        except LookupError:
            raise ConfigError(f"encoding='{self.encoding}' is unknown; give 'utf-8' or 'latin-1'.") from None
        except (OSError, EOFError, csv.Error) as error:
            raise TableError(f"{self.path} cannot be read ({error}); get the file anew.") from error
        if first is None:
            raise TableError(f"{self.path} is empty; it needs a line of column names and a line per row.")
        names = tuple(name.strip() or f"column {k + 1}" for k, name in enumerate(first))
        self._check_names(names)
        return names, lines

    def _check_names(self, names: tuple[str, ...]) -> None:
        for sign, called in _DELIMITERS.items():
            if len(names) == 1 and sign in names[0]:
                raise TableError(
                    f"{self.path} has a single column {names[0]!r:.60} when cut at {_DELIMITERS.get(self.delimiter)}; "
                    f"its delimiter seems to be {called}: give delimiter={sign!r}."
                )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise TableError(f"{self.path} has the column '{twice}' twice; give every column a name of its own.")

    def _text(self) -> io.TextIOBase:
        encoding = "utf-8-sig" if self.encoding.lower() in ("utf-8", "utf8") else self.encoding
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rt", encoding=encoding, newline="")
        return self.path.open("r", encoding=encoding, newline="")

    def _wrong(self, reason: str) -> TableError:
        if "UTF8" in reason:
            return self._wrong_encoding()
        with self._text() as text:
            reader = csv.reader(text, delimiter=self.delimiter)
            for row in reader:
                if row and len(row) != len(self.names):
                    return TableError(
                        f"line {reader.line_num} of {self.path} has {len(row)} fields, but the header has "
                        f"{len(self.names)}; correct that line, or give the delimiter."
                    )
        return TableError(f"{self.path} is no CSV that can be read ({' '.join(reason.split())[:160]}); correct it.")

    def _wrong_encoding(self) -> TableError:
        other = "utf-16" if self._first_bytes() in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        return TableError(
            f"{self.path} is not text in {self.encoding}; give its encoding, for instance encoding='{other}'."
        )

    def _first_bytes(self) -> bytes:
        open_it: Callable[..., Any] = gzip.open if self.path.suffix == ".gz" else open
        with open_it(self.path, "rb") as file:
            return bytes(file.read(2))
