"""Lines against a logarithmic axis as one SVG file, for the docs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Point = tuple[float, float]
COLOURS = ["#1f6fb2", "#d1690e", "#1b8a63", "#8f4bb8", "#c0304f", "#7a6a12", "#0f8a96", "#5b6470", "#b03a8c", "#3d4fc4"]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 720, 400, 50, 40, 40, 290


def picture(title: str, lines: Mapping[str, Sequence[Point]]) -> str:
    """The picture; the horizontal axis is logarithmic, the upper half of the vertical range is shown."""
    points = [point for line in lines.values() for point in line if point[0] > 0]
    left, right = math.floor(math.log10(min(x for x, _ in points))), math.ceil(math.log10(max(x for x, _ in points)))
    top = max(y for _, y in points)
    bottom = max(min(y for _, y in points), top - 30)

    def place(point: Point) -> tuple[float, float]:
        across = LEFT + (math.log10(point[0]) - left) / (right - left) * (WIDTH - LEFT - LEGEND - 10)
        return across, TOP + (top - max(point[1], bottom)) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    across = WIDTH - LEFT - LEGEND - 10
    body = [f'<text x="10" y="20" font-weight="bold">{escape(title)}</text>']
    for power in range(left, right + 1):
        x, y = place((10.0**power, bottom))
        body.append(f'<path d="M{x:.1f} {TOP}V{y:.1f}" stroke="#ddd"/>')
        body.append(f'<text x="{x - 8:.1f}" y="{y + 16:.1f}">{10.0**power:g}</text>')
    for tick in range(math.ceil(bottom / 5) * 5, math.floor(top) + 1, 5):
        x, y = place((10.0**left, tick))
        body.append(f'<path d="M{x:.1f} {y:.1f}h{across}" stroke="#eee"/>')
        body.append(f'<text x="{x - 28:.1f}" y="{y + 4:.1f}">{tick}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = "L".join("{:.1f} {:.1f}".format(*place(point)) for point in line if point[0] > 0)
        y = TOP + 14 + 22 * number
        body.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, end = place(line[-1])  # a method of one message is this point alone
        body.append(f'<circle cx="{x:.1f}" cy="{end:.1f}" r="4" fill="{colour}"/>')
        body.append(f'<path d="M{WIDTH - LEGEND + 8} {y - 4}h20" stroke="{colour}" stroke-width="3"/>')
        body.append(f'<text x="{WIDTH - LEGEND + 34}" y="{y}">{escape(name)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>{"".join(body)}</svg>\n'
    )
