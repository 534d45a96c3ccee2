"""Write what messages show into the pages of methods: ``python docs/disclosures.py``.

A page has a table between the lines ``BEGINS`` and ``ENDS``, made of the method's declarations; the lists of methods
there and in the README have two columns of it. ``tests/docs/test_method_pages.py`` asks whether the pages are what
this writes.
"""

from __future__ import annotations

import re
from pathlib import Path

import colonnade as cn
from colonnade.core.disclosure import SECRETS, Disclosure, with_all_choices
from colonnade.runtime.disclosure_words import in_a_cell, values

METHODS = Path(__file__).parent / "methods"
README = Path(__file__).parents[1] / "README.md"
BEGINS = "<!-- made by docs/disclosures.py -->"
ENDS = "<!-- end -->"
HEAD = ("message", "step", "to", "shows of", "level", "given", "lowered by", "why")
Row = tuple[str, ...]


def table_of(cls: type[cn.Method]) -> str:
    """What every message of a method shows, as a table; the options behind a message are named if it needs some."""
    found: dict[Row, list[cn.Method]] = {}
    for method in with_all_choices(cls):
        for one in method.disclosures or ():
            found.setdefault(_row(method, one), []).append(method)
    if not found:
        return "No message."
    rows = [_with_options(cls, row, methods) for row, methods in found.items()]
    head, *lines = ("| " + " | ".join(cells) + " |" for cells in (HEAD, *rows))
    return "\n".join([head, "|" + "---|" * len(HEAD), *lines])


def _row(method: cn.Method, one: Disclosure) -> Row:
    to = "owner" if one.way == "up" else "parties"
    to = "other owners" if one.step in method.owner_steps() else to
    seals = ", ".join(f"`{kind}`" for kind in one.stopped_by) or "nothing"
    step = f"`{one.step}`"
    level = f"**{one.level}**" if one.level == "read" else one.level
    level += f", of two classes **{one.two_classes}**" if one.two_classes else ""
    return values(method, one), step, to, one.secret, level, one.given or "nothing", seals, one.note


def _with_options(cls: type[cn.Method], row: Row, methods: list[cn.Method]) -> Row:
    """The row, with the choices that its message needs beside the step."""
    taken = {name: list(dict.fromkeys(getattr(method, name) for method in methods)) for name in cls.choices}
    needs = [
        " or ".join(f"`{name}={word!r}`" for word in words)
        for name, words in taken.items()
        if len(words) < len(cls.choices[name])
    ]
    return (row[0], " with ".join([row[1], *needs]), *row[2:])


def with_table(page: str, cls: type[cn.Method]) -> str:
    """A method's page with the table as it must be."""
    return re.sub(f"(?s){BEGINS}.*?{ENDS}", f"{BEGINS}\n\n{table_of(cls)}\n\n{ENDS}", page)


def index_row(method: type[cn.Method]) -> str:
    """A method's row in the list of methods."""
    shows = f"{in_a_cell(method, 'labels')} | {in_a_cell(method, 'columns')} | {method.sums} | {method.alone}"
    sends = f"{method.party_sends} | {method.owner_sends}"
    return f"| [`{method.name}`]({method.name}.md) | {method.summary} | {sends} | {shows} |"


def with_rows(page: str) -> str:
    """The list of methods with their rows as they must be, in the page's order."""

    def row(found: re.Match[str]) -> str:
        return index_row(cn.methods()[found[1]])

    return re.sub(r"(?m)^\| \[`([\w-]+)`\].*$", row, page)


def with_cells(readme: str) -> str:
    """The README with the last two cells of its list of methods as they must be."""

    def row(found: re.Match[str]) -> str:
        cells = found[0].strip("| ").split(" | ")[:5]
        return "| " + " | ".join([*cells, *(in_a_cell(cn.methods()[found[1]], secret) for secret in SECRETS)]) + " |"

    names = "|".join(cn.methods())
    return re.sub(rf"(?m)^\| `({names})` \|.*$", row, readme)


def main() -> None:
    """Rewrite the pages."""
    for name, cls in cn.methods().items():
        path = METHODS / f"{name}.md"
        path.write_text(with_table(path.read_text(), cls))
    index = METHODS / "index.md"
    index.write_text(with_rows(index.read_text()))
    README.write_text(with_cells(README.read_text()))


if __name__ == "__main__":
    main()
