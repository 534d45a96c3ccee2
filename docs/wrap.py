"""Wrap the prose of Markdown files at 100 characters: ``python docs/wrap.py [FILE ...]``, by default all pages.

Paragraphs and list items with a longer line are wrapped anew, all others are left alone. Code, tables, headings and
lines of HTML stay as they are. ``tests/docs/test_readme.py`` asks for the width.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

WIDTH = 100
ROOT = Path(__file__).parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ARCHITECTURE.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "fuzz").rglob("*.md")),
)
_VERBATIM = re.compile(r"\s*(\||#|<|!\[|>)|\s*$|---")
_ITEM = re.compile(r"(\s*)([-*]|\d+\.) +")
_GLUE = "\0"  # a space at which no line may end


def wrap(text: str) -> str:
    """The page, with every paragraph and list item wrapped that has too long a line."""
    return "".join(f"{line}\n" for block in _blocks(text.splitlines()) for line in _wrapped(block))


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Lines that belong together: one paragraph, one list item, or one line that stays as it is."""
    block: list[str] = []
    fence = ""
    for line in lines:
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        if fence or mark or _VERBATIM.match(line):
            yield from filter(None, (block, [_as_is(line)]))
            block = []
        elif _ITEM.match(line):
            yield from filter(None, (block,))
            block = [line]
        else:
            block.append(line)
    yield from filter(None, (block,))


def _as_is(line: str) -> str:
    return _GLUE + line


def _wrapped(block: list[str]) -> list[str]:
    if block[0].startswith(_GLUE):
        return [block[0][1:]]
    if all(len(line) <= WIDTH for line in block):
        return block
    item = _ITEM.match(block[0])
    first = item[0] if item else re.match(r"\s*", block[0])[0]  # type: ignore[index]
    words = " ".join([block[0][len(first) :].strip(), *(line.strip() for line in block[1:])])
    lines = textwrap.wrap(
        _glued(words), WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_GLUE, " ") for line in lines]


def _glued(words: str) -> str:
    """The text without line ends inside of code, or before what would begin a list or a heading."""
    parts = re.split(r"(`+[^`]*`+)", words)
    text = "".join(
        part.replace(" ", _GLUE) if part.startswith("`") and len(part) < WIDTH - 20 else part for part in parts
    )
    return re.sub(r" (?=([-+*|#>]|\d+[.)])( |$))", _GLUE, text)


def too_long(text: str) -> list[str]:
    """Lines of prose that are wider than a page may be, and could be shorter."""
    return [line for line in set(text.splitlines()) - set(wrap(text).splitlines()) if len(line) > WIDTH]


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or PAGES:
        page.write_text(wrap(page.read_text()))
