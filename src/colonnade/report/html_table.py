"""HTML tables. All text in them is escaped; the head of a sortable table has buttons."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

Cell = str | tuple[str, float]
"""A text, or a text and the number that it is sorted by."""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    numbers: Collection[int] = (),
    foot: Sequence[str] = (),
    style: str = "",
    sortable: bool = False,
    stacks: bool = False,
) -> str:
    """A table whose first column names the rows; ``numbers`` are the columns to be set flush right.

    With ``stacks``, a phone shows the cells of a row below each other, each with its column's name.
    """

    def cells(row: Sequence[Cell], tag: str) -> str:
        names = head if stacks else [""] * len(row)
        return "".join(
            _cell(cell, "th" if column == 0 else tag, column in numbers, names[column])
            for column, cell in enumerate(row)
        )

    names = "".join(_heading(name, column in numbers, sortable) for column, name in enumerate(head))
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    bottom = f"<tfoot><tr>{cells(foot, 'td')}</tr></tfoot>" if foot else ""
    kinds = " ".join(filter(None, [style, "sortable" if sortable else "", "stacks" if stacks else ""]))
    kind = f' class="{kinds}"' if kinds else ""
    return f'<div class="wide" tabindex="0"><table{kind}>{top}<tbody>{body}</tbody>{bottom}</table></div>'


def whole(number: int) -> tuple[str, float]:
    """The cell of a whole number."""
    return f"{number:,}", number


def _heading(text: str, is_number: bool, sortable: bool) -> str:
    kind = ' class="number"' if is_number else ""
    name = _written(text)
    return f'<th scope="col"{kind}>{f"<button>{name}</button>" if sortable and text else name}</th>'


def _cell(cell: Cell, tag: str, is_number: bool, column: str) -> str:
    text, value = cell if isinstance(cell, tuple) else (cell, None)
    kind = ' class="number"' if is_number else ""
    order = "" if value is None else f' data-value="{value!r}"'
    name = f' data-name="{escape(column)}"' if column and text else ""
    return f"<{tag}{kind}{order}{name}>{_written(text)}</{tag}>"


def _written(text: str) -> str:
    return escape(text).replace(" %", "&nbsp;%")
