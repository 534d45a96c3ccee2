"""Bars, histograms, matrices and maps as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from colonnade.report.chart import TOP, Axis, Point, across, frame, short, upwards
from colonnade.report.picture import COLOURS, WIDTH, Key, Picture

BAR_STEP = 40
MAP_SIDE = 240
SQUARE = 400  # the side of a matrix
_NAMES = 108  # room beside it for the classes' names
_WRITTEN = 14  # up to so many classes the counts fit into their cells


@dataclass(frozen=True)
class Bar:
    """One amount: its name, how it is written, and which of the page's colours it takes."""

    label: str
    amount: float
    written: str
    colour: int = 0


def bar_chart(title: str, bars: Sequence[Bar], head: Sequence[str] = ("name", "amount")) -> Picture:
    """Amounts as bars, one below the other; those below nought are hollow."""
    most = max((abs(bar.amount) for bar in bars), default=0.0) or 1.0
    drawn = [_bar(bar, bar.amount / most, TOP + BAR_STEP * number) for number, bar in enumerate(bars)]
    told = ", ".join(f"{bar.label} {bar.written}" for bar in bars)
    rows = [(bar.label, bar.amount) for bar in bars]
    return Picture(title, told, "".join(drawn), head, rows, height=TOP + BAR_STEP * len(bars))


def _bar(bar: Bar, share: float, y: int) -> str:
    length, hollow = max(2.0, abs(share) * (WIDTH - 8)), " hollow" if share < 0 else ""
    colour = bar.colour % COLOURS
    return (
        f'<text x="4" y="{y + 10}">{escape(bar.label)}</text>'
        f'<text class="strong" x="{WIDTH - 4}" y="{y + 10}" text-anchor="end">{escape(bar.written)}</text>'
        f'<rect class="f{colour} c{colour} bar{hollow}" x="4" y="{y + 16}" width="{length:.1f}" height="13" rx="2"/>'
    )


def histogram(title: str, reach: float, counts: Sequence[int], x_name: str) -> Picture:
    """How many rows lie where between -reach and reach."""
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
    side = (SQUARE - _NAMES) / len(counts) + 0.0
    top = 26
    drawn = [
        f'<text x="{_NAMES + (SQUARE - _NAMES) / 2}" y="14" text-anchor="middle">predicted</text>',
        f'<text x="4" y="{top - 12}">true</text>',
    ]
    for row, line in enumerate(counts):
        whole = sum(line) or 1
        y = top + side * row
        if len(counts) <= 24:
            name = _cut(names[row], 14)
            drawn.append(f'<text x="{_NAMES - 8}" y="{y + side / 2 + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        for column, count in enumerate(line):
            place = _NAMES + side * column, y
            if count or len(counts) <= 24:
                drawn.append(_square(place, side, count, count / whole, f"{names[row]} taken for {names[column]}"))
            if len(counts) <= _WRITTEN:
                drawn.append(_count(place, side, count, count / whole))
    floor = top + SQUARE - _NAMES
    if len(counts) <= _WRITTEN:
        widest = max(2, int(side / 7))
        for column, name in enumerate(names):
            x = _NAMES + side * (column + 0.5)
            drawn.append(f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{escape(_cut(name, widest))}</text>')
    rows = [(names[k], names[j], count) for k, line in enumerate(counts) for j, count in enumerate(line)]
    right = sum(line[k] for k, line in enumerate(counts))
    told = f"{right:,} of {sum(map(sum, counts)):,} rows on the diagonal"
    return Picture(title, told, "".join(drawn), ["true", "predicted", "rows"], rows, SQUARE + 8, int(floor) + 26)


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
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{count if count else "·"}</text>'


def scatter(title: str, places: Sequence[Sequence[float]], classes: Sequence[int], names: Sequence[str]) -> Picture:
    """Points in the plane in the colours of their classes; the axes mean nothing, so there are none."""
    lows = [min(place[k] for place in places) for k in (0, 1)]
    reach = max(max(place[k] for place in places) - lows[k] for k in (0, 1)) or 1.0
    room = MAP_SIDE - 16
    drawn = []
    for number in sorted(set(classes)):
        chosen = [place for place, one in zip(places, classes, strict=True) if one == number]
        spots = [(8 + room * (x - lows[0]) / reach, 8 + room * (1 - (y - lows[1]) / reach)) for x, y in chosen]
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in spots)
        drawn.append(f'<path class="spots {Key("", number).style}" d="{path}"/>')
    rows: list[list[str | float]] = [[*place, names[one]] for place, one in zip(places, classes, strict=True)]
    keys = [Key(names[number], number) for number in sorted(set(classes))]
    told = f"{len(places)} rows of {len(keys)} classes"
    return Picture(title, told, "".join(drawn), ["x", "y", "class"], rows, MAP_SIDE, MAP_SIDE, keys)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
