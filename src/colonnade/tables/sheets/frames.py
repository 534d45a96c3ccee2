"""Tables that a program holds: of pandas, Polars, DuckDB or Arrow, as Arrow tables; none of those need be installed.

Whoever has ``__arrow_c_stream__`` (pandas from 2.2, Polars, DuckDB, Arrow) hands its columns over as they are; an older
pandas is read by Arrow itself.
"""

from __future__ import annotations

import re
from typing import Any

from colonnade.errors import TableError
from colonnade.tables.sheets.arrow import arrow

_INDEX = re.compile(r"__index_level_[0-9]+__")  # row numbers of pandas, which its user never named


def is_frame(data: Any) -> bool:
    """Whether it is a table in memory, by what it offers; a path or a list of paths offers nothing of it."""
    kind = type(data)
    old_pandas = kind.__module__.partition(".")[0] == "pandas" and hasattr(kind, "__dataframe__")
    return old_pandas or hasattr(kind, "__arrow_c_stream__") or _is_batch(kind)


def _is_batch(kind: type) -> bool:
    return hasattr(kind, "__arrow_c_array__") and hasattr(kind, "schema")  # an array of Arrow has no schema


def table_of(data: Any) -> Any:
    """The Arrow table of a frame, a batch or a stream; a named index of pandas is a column, an unnamed one is not."""
    pa = arrow()
    try:
        table = _as_table(pa, data)
    except (pa.ArrowException, OSError, ValueError, TypeError, NotImplementedError) as error:
        why = " ".join(str(error).split())[:160]
        raise TableError(
            f"the {type(data).__name__} cannot be read as a table ({why}); give named columns, each of one kind of "
            "values, as frame['column'].astype(str) makes them."
        ) from error
    return table.drop_columns([name for name in table.column_names if _INDEX.fullmatch(name)])


def _as_table(pa: Any, data: Any) -> Any:
    if _is_batch(type(data)):
        return pa.Table.from_batches([pa.record_batch(data)])
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    return pa.Table.from_pandas(data)
