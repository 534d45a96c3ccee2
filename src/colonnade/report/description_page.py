"""A page about columns: which tell most about the labels, their bins, and what was told to whom."""

from __future__ import annotations

from html import escape

from colonnade.description.column_figures import ColumnFigures
from colonnade.description.description_result import Description
from colonnade.report.html_table import Cell, table
from colonnade.report.page import document
from colonnade.report.words import size

_FOOT = (
    "IV: information value; above 0.02 a column tells a little, above 0.1 something, above 0.3 much. WoE: weight of "
    "evidence, above 0 where the target is more frequent than elsewhere. Stability: population stability index, below "
    "0.1 little has changed, above 0.25 much. This page is the owner's: it is made of its labels."
)


def description_page(found: Description, title: str = "Columns") -> str:
    """One self-contained HTML page."""
    lead = (
        f'<p class="lead">{len(found.columns):,} columns about {found.rows:,} rows; {size(found.bytes)} were sent.</p>'
    )
    told = "".join(f"<p>{escape(sentence)}</p>" for sentence in (*found.notes, *found.opened))
    parts = [
        ("Which columns tell most", _columns(found)),
        ("Their bins", "".join(map(_bins, found.strongest))),
        ("Who learnt what", told),
    ]
    body = "".join(f"<section><h2>{name}</h2>{content}</section>\n" for name, content in parts)
    return document(title, lead, f"{body}<footer>{escape(_FOOT)}</footer>\n")


def _columns(found: Description) -> str:
    head, *lines = found.lines()
    first = len(head) - 4
    rows: list[list[Cell]] = [[*line[:first], *((text, _order(text)) for text in line[first:])] for line in lines]
    return table(head, rows, numbers=range(first, len(head)), sortable=True)


def _order(text: str) -> float:
    digits = text.removeprefix("< ").removesuffix(" %")
    return float(digits) if digits != "-" else -1.0


def _bins(column: ColumnFigures) -> str:
    values = column.iv is None and column.bins[0].positives is None
    head = ["Bin", "Rows", "Mean"] if values else ["Bin", "Rows", "Positives", "Share", "WoE"]
    rows: list[list[Cell]] = []
    for one in column.bins:
        shown = (
            [f"{one.mean:.4g}"]
            if values
            else [f"{one.positives:,}", f"{100 * (one.positives or 0) / one.rows:.1f} %", _woe(one.woe)]
        )
        rows.append([one.title, f"{one.rows:,}", *shown])
    title = f"{column.column} of {column.party} against {column.target}"
    return f"<h3>{escape(title)}</h3>{table(head, rows, numbers=range(1, len(head)))}"


def _woe(woe: float | None) -> str:
    return "-" if woe is None else f"{woe:+.3f}"
