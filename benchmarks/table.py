"""Prints tables: Markdown, so that a result can be pasted into the docs as it is."""

from __future__ import annotations

from collections.abc import Sequence


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print one table with its title."""
    texts = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in texts]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    print("\n".join(["", f"**{title}**", "", lines[0], rule, *lines[1:]]), flush=True)
