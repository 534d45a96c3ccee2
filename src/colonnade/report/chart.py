"""Line charts as SVG, and the axes that other charts share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from colonnade.report.picture import HEIGHT, WIDTH, LegendKey, Picture

Point = tuple[float, float]
Write = Callable[[float], str]

LEFT, RIGHT, TOP, BOTTOM = 76, 14, 14, 46  # pixels for tick labels and axis names
MOST_POINTS = 400  # more than there are pixels to show them
_MOST_NAMES = 5  # below an axis


@dataclass(frozen=True)
class Series:
    """One line: its name, its points in order, and which of the page's colours it takes."""

    label: str
    points: Sequence[Point]
    colour: int = 0
    dashed: bool = False

    @property
    def key(self) -> LegendKey:
        """Its entry in a legend."""
        return LegendKey(self.label, self.colour, self.dashed)


@dataclass(frozen=True)
class Axis:
    """From values to pixels, with ticks at round numbers."""

    ticks: list[float]
    start: float
    end: float
    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies, in pixels."""
        low, high, at = (math.log10(number) if self.log else number for number in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def across(values: Sequence[float]) -> Axis:
    """A horizontal axis from 0 to the largest value, even if no tick is there."""
    marks = ticks([0.0, *values])
    high = max(values) or marks[-1]
    return Axis([tick for tick in marks if tick <= high], LEFT, WIDTH - RIGHT, marks[0], high)


def across_powers(values: Sequence[float]) -> Axis:
    """A logarithmic axis around positive values, with room at both ends."""
    low, high = min(values) / 1.6, max(values) * 1.6
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first < 4 else (1,)
    marks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    return Axis([mark for mark in marks if low <= mark <= high], LEFT, WIDTH - RIGHT, low, high, log=True)


def upwards(values: Sequence[float]) -> Axis:
    """An axis that begins and ends with a tick."""
    marks = ticks(values)
    return Axis(marks, HEIGHT - BOTTOM, TOP, marks[0], marks[-1])


def line_chart(
    title: str,
    series: Sequence[Series],
    axes: tuple[str, str],
    write_y: Write | None = None,
    *,
    shares: bool = False,
    guide: Sequence[Point] = (),
    marked: bool = False,
) -> Picture | None:
    """One chart, or None where there are no points; ``axes`` names the x and the y axis.

    ``shares`` lets both axes go from 0 to 1, ``guide`` is a line to compare with, ``marked`` shows every point.
    """
    drawn, (x_name, y_name) = [line for line in series if line.points], axes
    if not drawn:
        return None
    points = [(0.0, 0.0), (1.0, 1.0)] if shares else [point for line in drawn for point in line.points]
    x_axis, y_axis = across([x for x, _ in points]), upwards([y for _, y in points])
    body = [
        *frame(x_axis, y_axis, x_name, y_name, write_y),
        *([_guide(guide, x_axis, y_axis)] if guide else []),
        *(_line(line, x_axis, y_axis, marked) for line in drawn),
    ]
    rows = [(line.label, "validation" if line.dashed else "", x, y) for line in drawn for x, y in line.points]
    labels = ", ".join(dict.fromkeys(line.label for line in drawn))
    return Picture(
        title, labels, "".join(body), ["line", "kind", x_name, y_name], rows, keys=[line.key for line in drawn]
    )


def period_chart(
    title: str,
    series: Sequence[Series],
    names: Sequence[str],
    y_name: str,
    write_y: Write | None = None,
    guides: Sequence[float] = (),
) -> Picture | None:
    """A chart over named periods, or None where there are no points: a point at x belongs to the x-th name.

    ``guides`` are values to compare with, drawn as level lines if they lie within the picture.
    """
    drawn = [line for line in series if line.points]
    if not drawn:
        return None
    y_axis, last = upwards([y for line in drawn for _, y in line.points]), len(names) - 1
    step = math.ceil(len(names) / _MOST_NAMES)
    marks = [float(k) for k in range(0, len(names), step) if k + step / 2 <= last + 0.5]  # room for a name around each
    x_axis = Axis(marks, LEFT, WIDTH - RIGHT, -0.5, last + 0.5)
    levels = [level for level in guides if y_axis.low < level < y_axis.high]
    body = [
        *frame(x_axis, y_axis, "", y_name, write_y, lambda x: names[int(x)]),
        *(_guide([(-0.5, level), (last + 0.5, level)], x_axis, y_axis) for level in levels),
        *(_line(line, x_axis, y_axis, marked=True, write_x=lambda x: names[int(x)]) for line in drawn),
    ]
    rows = [(line.label, names[int(x)], y) for line in drawn for x, y in line.points]
    labels = ", ".join(dict.fromkeys(line.label for line in drawn))
    keys = [line.key for line in drawn] if len(drawn) > 1 else []
    return Picture(title, labels, "".join(body), ["line", "period", y_name], rows, keys=keys)


def _guide(points: Sequence[Point], x_axis: Axis, y_axis: Axis) -> str:
    return f'<path class="guide" d="{_path(points, x_axis, y_axis)}"/>'


def _path(points: Sequence[Point], x_axis: Axis, y_axis: Axis) -> str:
    return "M" + "L".join(f"{x_axis.place(x):.1f} {y_axis.place(y):.1f}" for x, y in points)


def _line(series: Series, x_axis: Axis, y_axis: Axis, marked: bool, write_x: Write | None = None) -> str:
    kept, style = _thin(series.points), series.key.style
    shown = kept if marked else kept[-1:]
    dots = []
    for x, y in shown:
        tip = escape(f"{series.label}: {short(y)} at {(write_x or short)(x)}")
        place = f'cx="{x_axis.place(x):.1f}" cy="{y_axis.place(y):.1f}"'
        dots.append(f'<circle class="dot {style}" {place} r="3.2"><title>{tip}</title></circle>')
    return f'<path class="line {style}" d="{_path(kept, x_axis, y_axis)}"/>{"".join(dots)}'


def _thin(points: Sequence[Point]) -> list[Point]:
    step = math.ceil(len(points) / MOST_POINTS)
    kept = list(points[::step])
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def frame(
    x_axis: Axis,
    y_axis: Axis,
    x_name: str,
    y_name: str,
    write_y: Write | None = None,
    write_x: Write | None = None,
) -> list[str]:
    """Grid, ticks and the axes' names."""
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    drawn = []
    for value in y_axis.ticks:
        y = y_axis.place(value)
        drawn.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{(write_y or short)(value)}</text>')
    for value in x_axis.ticks:
        x = x_axis.place(value)
        drawn.append(f'<path class="axis" d="M{x:.1f} {floor}v5"/>')
        drawn.append(
            f'<text x="{x:.1f}" y="{floor + 19}" text-anchor="middle">{escape((write_x or short)(value))}</text>'
        )
    return [*drawn, f'<path class="axis" d="M{LEFT} {floor}H{right}"/>', _names(x_name, y_name)]


def _names(x_name: str, y_name: str) -> str:
    middle, up = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    below = f'x="{middle}" y="{HEIGHT - 6}"'
    beside = f'transform="translate(12 {up}) rotate(-90)"'
    return "".join(
        f'<text {place} text-anchor="middle">{escape(name)}</text>'
        for place, name in ((below, x_name), (beside, y_name))
    )


def ticks(values: Sequence[float], most: int = 6) -> list[float]:
    """Round numbers from below the smallest value to above the largest.

    >>> ticks([0, 83])
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    low, high = min(values), max(values)
    if low == high:  # a single value gives no scale, so the axis begins at 0
        low, high = min(low, 0.0), high if high > 0 else 1.0
    rough = (high - low) / (most - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(factor for factor in (1, 2, 5, 10) if factor * unit >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def short(value: float) -> str:
    """A number's label: a comma between thousands, no trailing zeros.

    >>> short(1500.0), short(0.25)
    ('1,500', '0.25')
    """
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}"
