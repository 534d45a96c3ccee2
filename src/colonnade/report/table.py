"""HTML tables, everything in them escaped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Collection[int] = (),
    foot: Sequence[str] = (),
    style: str = "",
) -> str:
    """A table whose first column names the rows; ``numbers`` are the columns to be set flush right."""

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(_cell(text, "th" if column == 0 else tag, column in numbers) for column, text in enumerate(row))

    top = f"<thead><tr>{cells(head, 'th')}</tr></thead>" if head else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    bottom = f"<tfoot><tr>{cells(foot, 'td')}</tr></tfoot>" if foot else ""
    kind = f' class="{style}"' if style else ""
    return f'<div class="wide"><table{kind}>{top}<tbody>{body}</tbody>{bottom}</table></div>'


def _cell(text: str, tag: str, is_number: bool) -> str:
    kind = ' class="number"' if is_number else ""
    return f"<{tag}{kind}>{escape(text).replace(' %', '&nbsp;%')}</{tag}>"
