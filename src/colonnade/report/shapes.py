"""Bars, histograms, matrices and maps as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

import numpy as np

from colonnade.report.chart import TOP, Axis, Point, across, frame, short, upwards
from colonnade.report.picture import COLOURS, WIDTH, LegendKey, Picture
from colonnade.report.words import cut

BAR_STEP = 40
_THUMB = 30  # the side of the small picture before a bar
_LABEL = 46  # characters of a bar's name that leave room for its amount
MAP_SIDE = 240
SQUARE = 400  # the side of a matrix
_NAMED = 24  # classes; with more, their names do not fit beside the rows
_WRITTEN = 14  # classes; with more, the counts do not fit into the cells
_SIGN = 7.5  # pixels, about the width of a character


@dataclass(frozen=True)
class HeldCells:
    """Which cells of a grid a party holds: pixels of an image, or views of an object."""

    cells: np.ndarray

    def svg(self, x: float, y: float, side: float) -> str:
        """The grid with the party's cells filled, in a square with sides of ``side`` pixels."""
        height, width = self.cells.shape
        scale = side / max(height, width)
        left, top = x + (side - scale * width) / 2, y + (side - scale * height) / 2
        return (
            f'<g transform="translate({left:.2f} {top:.2f}) scale({scale:.4f})"><path class="f0" d="{self._path()}"/>'
            f'<rect class="edge" width="{width}" height="{height}"/></g>'
        )

    def _path(self) -> str:
        """An SVG path of rectangles; neighbouring cells, and equal lines below each other, share a rectangle."""
        drawn, y = [], 0
        for line, same in groupby(map(tuple, self.cells)):
            height, x = len(list(same)), 0
            for filled, run in groupby(line):
                width = len(list(run))
                drawn += [f"M{x} {y}h{width}v{height}h-{width}z"] if filled else []
                x += width
            y += height
        return "".join(drawn)


@dataclass(frozen=True)
class Bar:
    """One amount: its name, how it is written, and which of the page's colours it takes.

    ``note`` is a line below it, ``whole`` what a pointer on that line shows, ``part`` a small picture before it.
    """

    label: str
    amount: float
    written: str
    colour: int = 0
    note: str = ""
    whole: str = ""
    part: HeldCells | None = None


def bar_chart(title: str, bars: Sequence[Bar], head: Sequence[str] = ("name", "amount")) -> Picture:
    """Amounts as horizontal bars; bars of negative amounts are hollow."""
    most = max((abs(bar.amount) for bar in bars), default=0.0) or 1.0
    left = 4 + (_THUMB + 10 if any(bar.part for bar in bars) else 0)
    step = BAR_STEP + (18 if any(bar.note for bar in bars) else 0)
    drawn = [_bar(bar, bar.amount / most, left, TOP + step * number) for number, bar in enumerate(bars)]
    description = ", ".join(f"{bar.label} {bar.written}" for bar in bars)
    rows = [(bar.label, bar.amount) for bar in bars]
    return Picture(title, description, "".join(drawn), head, rows, height=TOP + step * len(bars))


def _bar(bar: Bar, share: float, left: int, y: int) -> str:
    length, hollow = max(2.0, abs(share) * (WIDTH - 4 - left)), " hollow" if share < 0 else ""
    colour = bar.colour % COLOURS
    note = f"<title>{escape(bar.whole)}</title>{escape(bar.note)}"
    return (
        f'<text x="{left}" y="{y + 10}"><title>{escape(bar.label)}</title>{escape(cut(bar.label, _LABEL))}</text>'
        f'<text class="strong" x="{WIDTH - 4}" y="{y + 10}" text-anchor="end">{escape(bar.written)}</text>'
        f'<rect class="f{colour} c{colour} bar{hollow}" x="{left}" y="{y + 16}" width="{length:.1f}" height="13" '
        f'rx="2"/>{bar.part.svg(4, y - 1, _THUMB) if bar.part else ""}'
        + (f'<text x="{left}" y="{y + 43}">{note}</text>' if bar.note else "")
    )


def histogram(title: str, reach: float, counts: Sequence[int], x_name: str) -> Picture:
    """How many rows have a value in each of equal intervals from -reach to reach."""
    width = 2 * reach / max(len(counts), 1)
    edges = [-reach + width * number for number in range(len(counts) + 1)]
    wide, y_axis = upwards([-reach, reach]), upwards([0, max(counts, default=1)])
    flat = across([1])
    x_axis = Axis(wide.ticks, flat.start, flat.end, wide.low, wide.high)
    drawn = frame(x_axis, y_axis, x_name, "rows")
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        left, right, top = x_axis.place(low), x_axis.place(high), y_axis.place(count)
        shape = f'x="{left + 0.5:.1f}" y="{top:.1f}" width="{right - left - 1:.1f}" height="{y_axis.start - top:.1f}"'
        drawn.append(f'<rect class="f0" {shape}><title>{short(low)} to {short(high)}: {count:,}</title></rect>')
    rows = list(zip(edges, edges[1:], counts, strict=False))
    return Picture(title, f"{sum(counts):,} rows", "".join(drawn), ["from", "to", "rows"], rows)


def matrix(title: str, counts: Sequence[Sequence[int]], names: Sequence[str]) -> Picture:
    """Rows by true class (down) and predicted class (across), shaded by their share of the true class."""
    shown = [cut(name, 14) for name in names] if len(counts) <= _NAMED else []
    left = max(40.0, 12 + _SIGN * max(map(len, shown), default=0))  # room for the word "true"
    side = (SQUARE - left) / len(counts)
    top = 26
    drawn = [
        f'<text x="{left + (SQUARE - left) / 2:.1f}" y="14" text-anchor="middle">predicted</text>',
        f'<text x="4" y="{top - 12}">true</text>',
    ]
    for row, name in enumerate(shown):
        y = top + side * (row + 0.5) + 4
        drawn.append(f'<text x="{left - 8:.1f}" y="{y:.1f}" text-anchor="end">{escape(name)}</text>')
    for row, line in enumerate(counts):
        whole = sum(line) or 1
        for column, count in enumerate(line):
            place = left + side * column, top + side * row
            if count or shown:
                drawn.append(_square(place, side, count, count / whole, f"{names[row]} taken for {names[column]}"))
            if len(counts) <= _WRITTEN:
                drawn.append(_count(place, side, count, count / whole))
    floor = top + SQUARE - left
    if len(counts) <= _WRITTEN:
        widest = max(2, int(side / _SIGN))
        for column, name in enumerate(names):
            x = left + side * (column + 0.5)
            drawn.append(
                f'<text x="{x:.1f}" y="{floor + 16:.1f}" text-anchor="middle">{escape(cut(name, widest))}</text>'
            )
    rows = [(names[k], names[j], count) for k, line in enumerate(counts) for j, count in enumerate(line)]
    right = sum(line[k] for k, line in enumerate(counts))
    description = f"{right:,} of {sum(map(sum, counts)):,} rows on the diagonal"
    return Picture(title, description, "".join(drawn), ["true", "predicted", "rows"], rows, SQUARE + 8, int(floor) + 26)


def _square(place: Point, side: float, count: int, share: float, what: str) -> str:
    x, y = place
    gap = 1.5 if side > 12 else 0.3
    return (
        f'<rect class="f0 cell" x="{x:.1f}" y="{y:.1f}" width="{side - gap:.1f}" height="{side - gap:.1f}" '
        f'fill-opacity="{0.05 + 0.95 * share:.2f}"><title>{escape(what)}: {count:,}</title></rect>'
    )


def _count(place: Point, side: float, count: int, share: float) -> str:
    x, y = place[0] + side / 2, place[1] + side / 2 + 4
    style = "onfull" if share > 0.62 else "strong" if count else ""
    written = str(count) if count else "·"
    tight = (
        "" if 1.25 * _SIGN * len(written) < side else f' textLength="{side - 4:.1f}" lengthAdjust="spacingAndGlyphs"'
    )
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{tight}>{written}</text>'


def scatter(title: str, places: Sequence[Sequence[float]], classes: Sequence[int], names: Sequence[str]) -> Picture:
    """Points in the plane in the colours of their classes; the axes mean nothing, so there are none."""
    lows = [min(place[k] for place in places) for k in (0, 1)]
    reach = max(max(place[k] for place in places) - lows[k] for k in (0, 1)) or 1.0
    room = MAP_SIDE - 16
    drawn = []
    for number in sorted(set(classes)):
        chosen = [place for place, label in zip(places, classes, strict=True) if label == number]
        spots = [(8 + room * (x - lows[0]) / reach, 8 + room * (1 - (y - lows[1]) / reach)) for x, y in chosen]
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in spots)
        drawn.append(f'<path class="spots {LegendKey("", number).style}" d="{path}"/>')
    rows: list[list[str | float]] = [[*place, names[label]] for place, label in zip(places, classes, strict=True)]
    keys = [LegendKey(names[number], number) for number in sorted(set(classes))]
    description = f"{len(places)} rows of {len(keys)} classes"
    return Picture(title, description, "".join(drawn), ["x", "y", "class"], rows, MAP_SIDE, MAP_SIDE, keys)
