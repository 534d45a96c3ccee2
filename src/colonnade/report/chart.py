"""Line charts as inline SVG, written by hand: no script, no library, colours from the page's style."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

WIDTH, HEIGHT = 460, 290
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 14, 46  # room for tick labels and axis names
BAR_STEP = 62
MOST_POINTS = 400  # more than there are pixels to show them
COLOURS = 8  # as many as the page's style has


@dataclass(frozen=True)
class Series:
    """One line: its name, its points in order, and which of the page's colours it takes."""

    label: str
    points: Sequence[Point]
    colour: int = 0
    dashed: bool = False

    @property
    def style(self) -> str:
        """Its CSS classes."""
        return f"c{self.colour % COLOURS}" + (" dashed" if self.dashed else "")


@dataclass(frozen=True)
class Bar:
    """One amount: its name, how it is written, and which of the page's colours it takes."""

    label: str
    amount: float
    written: str
    colour: int = 0


@dataclass(frozen=True)
class Axis:
    """From values to pixels, with ticks at round numbers."""

    ticks: list[float]
    start: float
    end: float
    high: float

    def place(self, value: float) -> float:
        """Where a value lies, in pixels."""
        low = self.ticks[0]
        return self.start + (value - low) / (self.high - low) * (self.end - self.start)


def _across(values: Sequence[float]) -> Axis:
    """An axis that ends with the last value, whatever the ticks."""
    ticks = _ticks([0.0, *values])
    high = max(values) or ticks[-1]
    return Axis([tick for tick in ticks if tick <= high], LEFT, WIDTH - RIGHT, high)


def _upwards(values: Sequence[float]) -> Axis:
    """An axis that begins and ends with a tick."""
    ticks = _ticks(values)
    return Axis(ticks, HEIGHT - BOTTOM, TOP, ticks[-1])


def line_chart(
    title: str, series: Sequence[Series], x_name: str, y_name: str, write_y: Callable[[float], str] | None = None
) -> str:
    """One chart as a figure; nothing where there are no points."""
    drawn = [line for line in series if line.points]
    if not drawn:
        return ""
    points = [point for line in drawn for point in line.points]
    x_axis, y_axis = _across([x for x, _ in points]), _upwards([y for _, y in points])
    body = [
        *_grid(x_axis, y_axis, write_y or _number),
        _names(x_name, y_name),
        *(_line(one, x_axis, y_axis) for one in drawn),
    ]
    return _figure(title, ", ".join(line.label for line in drawn), "".join(body))


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Amounts as bars, one below the other."""
    most = max((bar.amount for bar in bars), default=0.0) or 1.0
    drawn = [_bar(bar, bar.amount / most, TOP + BAR_STEP * number) for number, bar in enumerate(bars)]
    told = ", ".join(f"{bar.label} {bar.written}" for bar in bars)
    return _figure(title, told, "".join(drawn), TOP + BAR_STEP * len(bars))


def _bar(bar: Bar, share: float, y: int) -> str:
    length = max(2.0, share * (WIDTH - 8))
    return (
        f'<text x="4" y="{y + 13}">{escape(bar.label)}</text>'
        f'<text class="strong" x="{WIDTH - 4}" y="{y + 13}" text-anchor="end">{escape(bar.written)}</text>'
        f'<rect class="f{bar.colour % COLOURS}" x="4" y="{y + 20}" width="{length:.1f}" height="26" rx="2"/>'
    )


def _figure(title: str, told: str, body: str, height: int = HEIGHT) -> str:
    label = escape(f"{title}: {told}")
    svg = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{body}</svg>'
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>"


def legend(series: Sequence[Series]) -> str:
    """Names beside samples of their lines."""
    sample = '<svg class="sample" viewBox="0 0 28 10" aria-hidden="true"><path class="line {}" d="M1 5H27"/></svg>'
    entries = "".join(f"<li>{sample.format(line.style)}{escape(line.label)}</li>" for line in series)
    return f'<ul class="legend">{entries}</ul>'


def _line(series: Series, x_axis: Axis, y_axis: Axis) -> str:
    places = [(x_axis.place(x), y_axis.place(y)) for x, y in _thin(series.points)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    (x, y), (across, up) = places[-1], series.points[-1]
    tip = escape(f"{series.label}: {_number(up)} at {_number(across)}")
    end = f'<circle class="dot {series.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"><title>{tip}</title></circle>'
    return f'<path class="line {series.style}" d="{path}"/>{end}'


def _thin(points: Sequence[Point]) -> list[Point]:
    step = math.ceil(len(points) / MOST_POINTS)
    kept = list(points[::step])
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _grid(x_axis: Axis, y_axis: Axis, write_y: Callable[[float], str]) -> list[str]:
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    drawn = []
    for value in y_axis.ticks:
        y = y_axis.place(value)
        drawn.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{write_y(value)}</text>')
    for value in x_axis.ticks:
        x = x_axis.place(value)
        drawn.append(f'<path class="axis" d="M{x:.1f} {floor}v5"/>')
        drawn.append(f'<text x="{x:.1f}" y="{floor + 19}" text-anchor="middle">{_number(value)}</text>')
    return [*drawn, f'<path class="axis" d="M{LEFT} {floor}H{right}"/>']


def _names(x_name: str, y_name: str) -> str:
    across, up = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    below = f'x="{across}" y="{HEIGHT - 6}"'
    beside = f'transform="translate(12 {up}) rotate(-90)"'
    return "".join(
        f'<text {place} text-anchor="middle">{escape(name)}</text>'
        for place, name in ((below, x_name), (beside, y_name))
    )


def _ticks(values: Sequence[float], most: int = 6) -> list[float]:
    """Round numbers that embrace the values.

    >>> _ticks([0, 83])
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    low, high = min(values), max(values)
    if low == high:  # a single value says nothing about the scale, so show it above nought
        low, high = min(low, 0.0), high if high > 0 else 1.0
    rough = (high - low) / (most - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(factor for factor in (1, 2, 5, 10) if factor * unit >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _number(value: float) -> str:
    """A tick's label: thousands apart, no needless noughts.

    >>> _number(1500.0), _number(0.25)
    ('1,500', '0.25')
    """
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"
