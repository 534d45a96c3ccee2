"""What notebooks and logs show of a table: shapes and names, and never a value."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade.core.table import Table

_SHOWN = 10  # names of columns
_LONGEST = 40  # characters of one


def outline(table: Table) -> list[tuple[str, str]]:
    """What a table has, as pairs of a thing and what is said of it."""
    said = [("name", str(table.name)), ("rows", f"{table.rows:,}")]
    if table.columns is not None:
        said.append(("columns", " x ".join(map(str, table.shape)) + _names(table.source_names)))
    if table.known is not None:
        said.append(("known rows", f"{int(table.known.sum()):,}"))
    if table.unaligned is not None:
        said.append(("unaligned rows", f"{len(table.unaligned):,}"))
    if table.labels is not None:
        several = f"{table.labels.shape[1]} a row" if table.labels.ndim == 2 else "one a row"
        said.append(("labels", f"{several}, {len(table.classes)} classes" if table.classes else several))
    return said


def html_of_outline(title: str, said: Sequence[tuple[str, str]]) -> str:
    """The same for a notebook."""
    rows = "".join(f"<tr><th style='text-align:left'>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in said)
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _names(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f" ({', '.join(f'{name:.{_LONGEST}}' for name in map(str, names[:_SHOWN]))}{more})"
