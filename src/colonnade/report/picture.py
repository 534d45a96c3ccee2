"""A picture: its SVG, a description in words, and its numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

from colonnade.disk.csv_text import csv_text

WIDTH, HEIGHT = 460, 290
COLOURS = 8  # in the style sheet
_LEGEND_STEP = 20


@dataclass(frozen=True)
class LegendKey:
    """A name in a legend: which of the style's colours it has, and how its line is drawn."""

    label: str
    colour: int = 0
    dashed: bool = False

    @property
    def style(self) -> str:
        """Its CSS classes; the ninth name has the first colour again, fainter."""
        faint = " faint" if self.colour >= COLOURS else ""
        return f"c{self.colour % COLOURS}{faint}" + (" dashed" if self.dashed else "")


@dataclass(frozen=True)
class Picture:
    """One picture of a report; ``description`` is for screen readers, ``head`` and ``rows`` are its numbers."""

    title: str
    description: str
    body: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | float]]
    width: int = WIDTH
    height: int = HEIGHT
    keys: Sequence[LegendKey] = ()
    about: str = ""

    def figure(self) -> str:
        """The picture as part of a page."""
        return f"<figure><figcaption>{escape(self.title)}</figcaption>{self._svg('', self.body, self.height)}</figure>"

    def svg(self) -> str:
        """The picture as a file of its own, with its title, legend and colours."""
        title = f"{self.title}, {self.about}" if self.about else self.title
        height = 30 + self.height + _LEGEND_STEP * len(self.keys)
        body = (
            f"<style>{_plain_style()}</style>"
            f'<rect class="paper" width="{self.width}" height="{height}"/>'
            f'<text class="strong" x="4" y="18">{escape(title)}</text>'
            f'<g transform="translate(0 26)">{self.body}</g>{self._legend()}'
        )
        alone = f'xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
        return self._svg(alone, body, height) + "\n"

    def csv(self) -> str:
        """The numbers as CSV text."""
        return csv_text(self.head, self.rows)

    def _svg(self, attributes: str, body: str, height: int) -> str:
        label = escape(f"{self.title}: {self.description}")
        return f'<svg {attributes}viewBox="0 0 {self.width} {height}" role="img" aria-label="{label}">{body}</svg>'

    def _legend(self) -> str:
        drawn = []
        for number, key in enumerate(self.keys):
            y = self.height + 36 + _LEGEND_STEP * number
            drawn.append(f'<path class="line {key.style}" d="M8 {y}h24"/>')
            drawn.append(f'<text x="40" y="{y + 4}">{escape(key.label)}</text>')
        return "".join(drawn)


def legend(keys: Sequence[LegendKey]) -> str:
    """Names beside samples of their lines."""
    sample = '<svg class="sample" viewBox="0 0 28 10" aria-hidden="true"><path class="line {}" d="M1 5H27"/></svg>'
    entries = "".join(f"<li>{sample.format(key.style)}{escape(key.label)}</li>" for key in keys)
    return f'<ul class="legend">{entries}</ul>'


def gallery(pictures: Sequence[Picture | None], style: str = "charts") -> str:
    """Pictures side by side, as many in a line as the window has room for."""
    drawn = "".join(picture.figure() for picture in pictures if picture is not None)
    return f'<div class="{style}">{drawn}</div>' if drawn else ""


def style(name: str) -> str:
    """One of the style sheets, or the script, that lie beside this file."""
    return files("colonnade.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _plain_style() -> str:
    """The pictures' style sheet with light colours in place of CSS variables, which not every programme understands.

    >>> "var(" in _plain_style()
    False
    """
    light, _, rest = style("picture.css").partition("@media")
    colours = dict(re.findall(r"(--[\w-]+): (#\w+)", light))
    return re.sub(r"var\((--[\w-]+)\)", lambda match: colours[match[1]], rest.partition("/* shapes */")[2])
