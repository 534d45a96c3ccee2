"""Numbers as text, and pictures by the report's own drawing code as SVG files for the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.kept import Found, slug
from colonnade.report.chart import Point, Series, line_chart
from colonnade.report.picture import Picture


def percent(found: Found, name: str) -> str:
    """A share in %, if it was found."""
    return f"{100 * found[name]:.2f}" if name in found else "-"


def told(seeds: Sequence[int]) -> str:
    """Which seeds a number is of."""
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"mean of seeds {', '.join(map(str, seeds))}"


def by_epoch(found: Found) -> list[Point]:
    """Accuracy in % after each epoch."""
    return [(float(name.split()[1]), 100 * value) for name, value in found.items() if name.startswith("epoch")]


def by_party(found: Found) -> list[Point]:
    """One point per party, in their order."""
    return [(k, value) for k, value in enumerate(found.values(), 1)]


def draw(place: Path, title: str, lines: Mapping[str, Sequence[Point]], across: str, up: str) -> None:
    """Lines as one picture, those that have points."""
    series = [Series(label, points, colour) for colour, (label, points) in enumerate(lines.items())]
    save(place, line_chart(title, series, (across, up), marked=True))


def save(place: Path, picture: Picture | None) -> None:
    """Write a picture's file, if there is something to see."""
    if picture is not None:
        place = place.with_name(f"{slug(place.name)}.svg")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(picture.svg(), encoding="utf-8")
        print(f"picture: {place}", flush=True)
