"""Scores and stability by period: pictures and a table of what the last evaluation showed of rows with dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from colonnade.report.chart import Series, period_chart
from colonnade.report.html_table import Cell, table
from colonnade.report.picture import Picture, gallery, legend
from colonnade.report.summary import RunView
from colonnade.report.words import metric, metric_name

PARTS = {"valid": "held out of training", "test": "test"}
WATCH, ACT = 0.1, 0.25  # the usual marks of the index
Line = dict[str, Any]


def title_over_time(runs: Sequence[RunView]) -> str:
    """The section's title, by the unit of the periods."""
    units = {run.periods["unit"] for run in runs if run.periods}
    return f"By {units.pop()}" if len(units) == 1 else "Over time"


def over_time(runs: Sequence[RunView]) -> tuple[str, list[Picture]]:
    """The section's HTML and its pictures; empty where no run has rows with dates."""
    content, drawn = "", []
    for run in runs:
        if run.periods:
            alone = len(runs) == 1
            pictures = [replace(picture, about="" if alone else run.name) for picture in period_pictures(run)]
            keys = {key.label: key for picture in pictures for key in picture.keys}
            content += "" if alone else f"<h3>{escape(run.name)}</h3>"
            content += legend(list(keys.values())) + gallery(pictures) + _table(run) + f"<p>{escape(_said(run))}</p>"
            drawn += pictures
    return content, drawn


def period_pictures(run: RunView) -> list[Picture]:
    """The score, what was observed and predicted, and the stability of the scores, each by period."""
    unit, lines, score = run.periods["unit"], run.periods["lines"], run.periods["score"]
    names = _names(lines)
    level = [Series("observed", _points(lines, "observed"), 2), Series("predicted", _points(lines, "predicted"), 3)]
    drawn = [
        period_chart(f"{metric_name(score)} by {unit}", _by_part(lines, "score"), names, metric_name(score)),
        period_chart(f"{_level_name(run)} by {unit}", level, names, _level_name(run)),
        period_chart(f"Stability index by {unit}", _by_part(lines, "psi"), names, "PSI", guides=(WATCH, ACT)),
    ]
    return [picture for picture in drawn if picture is not None]


def _names(lines: Sequence[Line]) -> list[str]:
    return sorted({line["period"] for line in lines})  # years come first and have four digits


def _points(lines: Sequence[Line], what: str) -> list[tuple[float, float]]:
    places = {name: float(place) for place, name in enumerate(_names(lines))}
    return [(places[line["period"]], line[what]) for line in lines if line[what] is not None]


def _by_part(lines: Sequence[Line], what: str) -> list[Series]:
    """One line for the rows to test on and one for those held out of training."""
    names, parts = _names(lines), list(dict.fromkeys(line["part"] for line in lines))
    drawn = []
    for part in parts:
        own = [line for line in lines if line["part"] == part and line[what] is not None]
        points = [(float(names.index(line["period"])), line[what]) for line in own]
        drawn.append(Series(PARTS.get(part, part), points, 0 if part == "test" else 1))
    return drawn


def _level_name(run: RunView) -> str:
    if run.task == "classes" and run.outputs == 2:
        return f"Share of {run.class_names(2)[1]}"
    return "Share of ones" if run.task == "several" else "Mean value"


def _table(run: RunView) -> str:
    score, level = run.periods["score"], _level_name(run)
    head = [run.periods["unit"].capitalize(), "Rows", "Which", level, "Predicted", metric_name(score), "PSI"]
    rows: list[list[Cell]] = [
        [
            line["period"],
            (f"{line['rows']:,}", line["rows"]),
            PARTS.get(line["part"], line["part"]),
            *(_cell(line[what], f"{{:{form}}}") for what, form in (("observed", ".4g"), ("predicted", ".4g"))),
            "-" if line["score"] is None else (metric(score, line["score"]), line["score"]),
            _cell(line["psi"], "{:.3f}"),
            _cell(line["chance"], "{:.3f}"),
        ]
        for line in run.periods["lines"]
    ]
    return table([*head, "PSI by chance"], rows, numbers=(1, 3, 4, 5, 6, 7), sortable=True)


def _cell(value: float | None, form: str) -> Cell:
    return "-" if value is None else (form.format(value), value)


def _said(run: RunView) -> str:
    """How to read the section."""
    unit, first = run.periods["unit"], run.periods["lines"][0]["period"]
    against = "the rows held out of training" if run.periods["against"] == "valid" else f"the first {unit}, {first}"
    return (
        f"PSI compares the predicted scores of a {unit} with those of {against}, in ten bins (of many classes: one bin "
        f"a class). Below {WATCH} is usually called stable, above {ACT} changed; few rows alone give about what the "
        "last column says."
    )
