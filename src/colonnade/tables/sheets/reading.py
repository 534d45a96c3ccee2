"""``cn.read``: from files to a sheet. A CSV file is read once completely; of typed sources only the ids are read."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from colonnade.errors import ConfigError, TableError
from colonnade.tables.sheets.arrow import arrow
from colonnade.tables.sheets.duckdb_source import DuckSource
from colonnade.tables.sheets.id_rules import RULE, hashes, id_texts, is_text, make_rule, normalise, refuse_duplicates
from colonnade.tables.sheets.kinds import EMPTY, Guess, kind_of_type, listed_kinds
from colonnade.tables.sheets.limits import check_id_length, check_ids
from colonnade.tables.sheets.names import shown_names
from colonnade.tables.sheets.paths import File, digest_of, find_sources, name_of, open_source, size_of
from colonnade.tables.sheets.row_rules import RowRules, one_row_each, rows_with_id
from colonnade.tables.sheets.sheet import Sheet
from colonnade.tables.sheets.values import MISSING, Words

_HASH = 8  # bytes kept for an id beside its text
_ID_BYTES = 1 << 20  # of ids that are hashed at a time, which takes forty times as many
_SAMPLE = 1000  # rows of a typed text column that are checked for dates


def read(
    files: Any,
    *,
    id: str,
    label: str | Sequence[str] | None = None,
    name: str | None = None,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    missing: Sequence[str] = MISSING,
    normalise: str | Sequence[str] = RULE,
    duplicates: str = "refuse",
    no_id: str = "refuse",
) -> Sheet:
    r"""One organisation's files as a sheet: CSV (plain or ``.gz``), Parquet, Arrow, one or many with the same columns.

    A source may also be a table or a query of a DuckDB database (``"duckdb:shop.duckdb?table=customers"``,
    ``"duckdb:shop.duckdb?query=SELECT ..."``), or a table in memory: a DataFrame of pandas or
    Polars, a ``pyarrow.Table``, or whatever else has ``__arrow_c_stream__``.

    ``id`` is the column that identifies the person of a row; its values are compared as texts under the rule
    ``normalise``, which must be the same at all parties. ``label`` names the owner's label column, or several.
    Columns are numbers or categories by their values, unless ``numbers``, ``categories`` or ``leave_out`` list them.
    ``missing`` are the texts that mean that a value is missing. ``name`` is by default the file's.
    An id that occurs more than once is refused, unless ``duplicates`` says that its "first" or "last" row is kept; rows
    without an id are refused, unless ``no_id="drop"``.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "bank.csv"
    >>> _ = path.write_text("ID,age,job\nAnn,31,smith\nBob,?,cook\n")
    >>> sheet = read(path, id="ID")
    >>> sheet.name, sheet.ids.tolist(), sheet.kinds
    ('bank', ['ann', 'bob'], {'age': 'number', 'job': 'category'})
    """
    rule, found, row_rules = make_rule(normalise), find_sources(files), RowRules(duplicates, no_id)
    labels = (label,) if isinstance(label, str) else tuple(label or ())
    lists = [_names(numbers, "numbers"), _names(categories, "categories"), _names(leave_out, "leave_out")]
    words = Words(tuple(missing), _one_sign(decimal, "decimal"))
    if delimiter:
        _one_sign(delimiter, "delimiter")
    sources = tuple(open_source(one, delimiter, encoding, id) for one in found)  # first: it finds most problems
    _check_order(sources, duplicates)
    digest = row_rules.digest(digest_of(sources))
    sheet_name = name_of([source.path for source in sources]) if name is None else name
    _check_columns(sources, sheet_name, id, labels, [column for columns in lists for column in columns])
    stated = listed_kinds(*lists)
    features = [column for column in sources[0].names if column != id and column not in labels]
    reading = _Reading(sheet_name, id, rule, words, features)
    for source in sources:
        reading.read(source)
    texts, kept = reading.finished_ids(row_rules)
    return Sheet(
        name=sheet_name,
        id=id,
        label=label if isinstance(label, str) or label is None else labels,
        kinds={column: stated.get(column) or reading.kind(sources, column) for column in features},
        rule=rule,
        digest=digest,
        rows=len(texts),
        words=words,
        sources=sources,
        id_texts=texts,
        row_rules=row_rules,
        kept=kept,
    )


class _Reading:
    """The one pass over the files, which keeps the ids and finds the kinds of text columns."""

    def __init__(self, name: str, id: str, rule: tuple[str, ...], words: Words, features: list[str]) -> None:
        self.name, self.id, self.rule, self.words, self.features = name, id, rule, words, features
        self.guesses: dict[str, Guess] = {}
        self.ids: list[Any] = []
        self.sieve: list[np.ndarray] = []
        self.missing = self.size = self.taken = 0

    def read(self, source: File) -> None:
        """Read one file: all of a CSV, the ids of a Parquet file."""
        watched = [column for column in self.features if is_text(source.types[column])]
        if source.typed and watched:
            _, first = next(source.batches(watched, lambda *_: True), (0, None))
            self._watch(watched, first and first.slice(0, _SAMPLE), typed=True)
        rows, self.size = 0, self.size + size_of(source)
        for _, batch in source.batches([self.id] if source.typed else source.names, lambda *_: True):
            rows += batch.num_rows
            for part in _parts(id_texts(batch.column(self.id), self.name, self.id)):
                self._keep_ids(part)
            if not source.typed:
                self._watch(watched, batch, typed=False)
        source.rows = rows
        if not rows:
            raise TableError(f"{source.path} has no rows; it needs at least one below its column names.")

    def kind(self, sources: Sequence[File], column: str) -> str:
        """The kind of a column by its contents; a file in which all values are missing may have no type for it."""
        if column in self.guesses:
            return self.guesses[column].kind
        kinds = [kind_of_type(source.types[column]) for source in sources]
        return next((kind for kind in kinds if kind != EMPTY), EMPTY)

    def finished_ids(self, rules: RowRules) -> tuple[Any, np.ndarray | None]:
        """All ids as one Arrow array, none missing and none twice; and which rows have them, if not all."""
        if self.missing and rules.no_id == "refuse":
            raise TableError(
                f"{self.missing} rows of '{self.name}' have no id in column '{self.id}'; fill or drop those rows, or "
                "write no_id = 'drop'."
            )
        texts = arrow().chunked_array(self.ids, arrow().string())
        sieve, self.sieve = np.concatenate(self.sieve), []  # drop the parts: ten million hashes are 80 MB
        rows, kept = len(texts), np.arange(0)
        if self.missing:
            kept = rows_with_id(texts, self.name, self.id)
            texts, sieve = texts.take(arrow().array(kept)), sieve[kept]
        if rules.duplicates == "refuse":
            refuse_duplicates(texts, sieve, self.name, self.id)
        else:
            once = one_row_each(texts, rules.duplicates, self.name)
            texts, kept = texts.take(arrow().array(once)), kept[once] if self.missing else once
        return texts, None if len(texts) == rows else kept

    def _keep_ids(self, raw: Any) -> None:
        pc = arrow("pyarrow.compute")
        check_id_length(self.name, self.id, pc.max(pc.binary_length(raw)).as_py() or 0)
        texts = pc.fill_null(normalise(raw, self.rule), "")
        self.taken += texts.nbytes + len(texts) * _HASH
        check_ids(self.name, self.id, self.size, self.taken)
        self.missing += int(pc.sum(pc.equal(pc.utf8_trim_whitespace(texts), ""), min_count=0).as_py())
        if pc.any(pc.match_substring(texts, "\0"), min_count=0).as_py():
            raise TableError(f"the ids of '{self.name}' in column '{self.id}' hold a NUL byte; they are no texts.")
        self.ids.append(texts)
        self.sieve.append(hashes(texts))

    def _watch(self, columns: list[str], batch: Any, typed: bool) -> None:
        for column in columns if batch is not None else ():
            self.guesses.setdefault(column, Guess(self.words, text=typed)).watch(batch.column(column))


def _check_order(sources: Sequence[File], duplicates: str) -> None:
    if duplicates != "refuse" and any(isinstance(source, DuckSource) for source in sources):
        raise ConfigError(
            f"duplicates = '{duplicates}' came for a DuckDB source, whose rows of one id have no order; let its query "
            "keep one row of each id."
        )


def _parts(texts: Any) -> Iterator[Any]:
    """A column of ids in parts of about a megabyte."""
    rows = max(1, len(texts) * _ID_BYTES // max(texts.nbytes, _ID_BYTES))
    return (texts.slice(start, rows) for start in range(0, len(texts), rows))


def _check_columns(sources: Sequence[File], name: str, id: str, labels: tuple[str, ...], listed: list[str]) -> None:
    first = sources[0]
    for source in sources[1:]:
        differing = sorted(set(first.names) ^ set(source.names))
        if differing:
            raise TableError(
                f"{source.path} and {first.path} differ in the columns {', '.join(map(repr, differing[:5]))}; "
                "the files of one sheet must have the same."
            )
    known = set(first.names)
    for column, what in (
        (id, "id"),
        *((label, "label") for label in labels),
        *((column, "listed") for column in listed),
    ):
        if column not in known:
            near = difflib.get_close_matches(str(column), first.names, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'? Its" if near else "its"
            raise TableError(f"'{name}' has no {what} column '{column}'; {hint} columns: {shown_names(first.names)}.")
    uses = [id, *labels, *listed]
    clash = next((column for column, times in Counter(uses).items() if times > 1), None)
    if clash is not None:
        raise ConfigError(f"column '{clash}' of '{name}' came for two uses; it can be id, label or listed once.")


def _names(columns: Sequence[str], what: str) -> list[str]:
    if isinstance(columns, str):
        raise ConfigError(f"{what}={columns!r} is one text; give a list of column names, such as [{columns!r}].")
    return list(columns)


def _one_sign(sign: str, what: str) -> str:
    if not isinstance(sign, str) or len(sign) != 1:
        raise ConfigError(f"{what}={sign!r} is not one character; give ',', for instance.")
    return sign
