"""Several runs: which of them can be compared, what differs, and which are worth their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from colonnade.report.chart import Point, Write, across_powers, frame, upwards
from colonnade.report.picture import COLOURS, WIDTH, LegendKey, Picture
from colonnade.report.summary import RunView
from colonnade.report.words import cut, join, metric, metric_name, plain

_NAME, _LETTER = 24, 7.2  # characters of a name beside its spot, and their width
_WHAT = ("data", "rows", "task", "outputs")


def groups(runs: Sequence[RunView]) -> list[list[RunView]]:
    """The runs in groups that can be compared: those that learnt the same from the same data."""
    groups_by_identity: dict[tuple[Any, ...], list[RunView]] = {}
    for run in runs:
        groups_by_identity.setdefault(tuple(_identity(run).values()), []).append(run)
    return list(groups_by_identity.values())


def why_apart(runs: Sequence[RunView]) -> list[str]:
    """One sentence for every pair of groups next to each other: what cannot be compared, and what differs."""
    firsts = [(group[0], join([run.name for run in group])) for group in groups(runs)]
    return [
        f"{mine} cannot be compared with {theirs}: they differ in {_differ(first, second)}."
        for (first, mine), (second, theirs) in pairwise(firsts)
    ]


def with_care(runs: Sequence[RunView]) -> list[str]:
    """What else makes a comparison within a group unfair."""
    sentences = []
    for group in groups(runs):
        parts = {run.measured for run in group if run.measured}
        if len(parts) > 1:
            sentences.append(f"{join([run.name for run in group])} were not all measured on the same rows.")
        short = [run.name for run in group if run.unfinished]
        if short and len(group) > 1:
            sentences.append(f"{join(short)} did not finish, so {'it is' if len(short) == 1 else 'they are'} behind.")
    return sentences


def differing(runs: Sequence[RunView]) -> list[list[str]]:
    """The settings that are not the same in all runs: their names, and each run's value."""
    each = [_choices(run) for run in runs]
    names = dict.fromkeys(name for choices in each for name in choices)
    rows = [[name, *(choices.get(name, "-") for choices in each)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The (cost, score) pairs that no other pair beats in both numbers, cheapest first.

    >>> front([(1, 0.5), (2, 0.4), (3, 0.9)])
    [(1, 0.5), (3, 0.9)]
    """
    kept: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if not kept or score > kept[-1][1]:
            kept.append((cost, score))
    return kept


def pareto(runs: Sequence[RunView], colours: dict[str, int], write_y: Write | None) -> Picture | None:
    """Score against training bytes, with the runs that no other beats in both joined; None for fewer than two."""
    scored = [run for run in runs if run.score in run.metrics and run.train_bytes]
    if len(scored) < 2:
        return None
    points = {run.name: (run.train_bytes / 1e6, run.metrics[run.score]) for run in scored}
    x_axis, y_axis = across_powers([x for x, _ in points.values()]), upwards([y for _, y in points.values()])
    best = front(points.values())
    stairs = "".join(f"{'L' if n else 'M'}{x_axis.place(x):.1f} {y_axis.place(y):.1f}" for n, (x, y) in enumerate(best))
    score = metric_name(scored[0].score)
    body = [
        *frame(x_axis, y_axis, "MB sent in training", score.lower(), write_y),
        f'<path class="guide" d="{stairs}"/>',
    ]
    spots = {name: (x_axis.place(x), y_axis.place(y)) for name, (x, y) in points.items()}
    for name, (_, y) in points.items():
        body.append(_spot(name, *spots[name], colours[name], metric(scored[0].score, y)))
    body += _names(spots)
    rows = [(name, x, y, "yes" if (x, y) in best else "no") for name, (x, y) in points.items()]
    names = join([name for name, point in points.items() if point in best])
    keys = [LegendKey(name, colours[name]) for name in points]
    description, head = f"best for their bytes: {names}", ["run", "MB", score, "best"]
    return Picture(f"{score} against bytes", description, "".join(body), head, rows, keys=keys)


def _spot(name: str, x: float, y: float, colour: int, written: str) -> str:
    return (
        f'<circle class="f{colour % COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="5.5">'
        f"<title>{escape(name)}: {escape(written)}</title></circle>"
    )


def _names(spots: dict[str, Point]) -> list[str]:
    """Each run's name above or below its spot. Where both places are taken, only the legend has the name."""
    drawn: list[str] = []
    taken: list[tuple[float, float, float]] = []  # names that are drawn: left end, right end, height
    for name, (x, y) in spots.items():
        text, before = cut(name, _NAME), x > 0.65 * WIDTH
        start, side = (x - 10, "end") if before else (x + 10, "start")
        left = start - _LETTER * len(text) if before else start
        right = left + _LETTER * len(text)
        for line in (y - 8, y + 18):
            if all(abs(line - other) > 14 or left > end or right < begin for begin, end, other in taken):
                taken.append((left, right, line))
                place = f'x="{start:.1f}" y="{line:.1f}" text-anchor="{side}"'
                drawn.append(f'<text class="strong" {place}>{escape(text)}</text>')
                break
    return drawn


def _identity(run: RunView) -> dict[str, Any]:
    return dict(zip(_WHAT, (run.data, run.tables[0][1], run.task, run.outputs), strict=True))


def _differ(first: RunView, second: RunView) -> str:
    mine, theirs = _identity(first), _identity(second)
    unlike = [f"{what} ({plain(mine[what])}, {plain(theirs[what])})" for what in _WHAT if mine[what] != theirs[what]]
    return join(unlike)


def _choices(run: RunView) -> dict[str, str]:
    """Every setting of the run by name, as text."""
    chosen: dict[str, Any] = {"method": run.method, "data": run.data, "rows": run.tables[0][1]}
    chosen |= {"parties": len(run.parties), **run.options, **run.settings}
    chosen["seals"] = [entry.get("kind") for entry in run.seals]
    return {name.replace("_", " "): plain(value) for name, value in chosen.items()}
