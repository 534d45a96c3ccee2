"""How it went: score and loss of every run against rounds, bytes and time, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from colonnade.report.chart import Series, Write, line_chart
from colonnade.report.compare import pareto
from colonnade.report.picture import Picture
from colonnade.report.shapes import Bar, bar_chart
from colonnade.report.summary import RunView, common_accuracy
from colonnade.report.words import join, metric_name, percent, size

MEASURED = {"test": "test rows", "valid": "rows held out for validation"}
AGAINST = {  # by column of the history: the axis' name, the end of the title, the unit
    "round": ("round", "by round", 1.0),
    "bytes": ("MB sent in training", "by traffic", 1e6),
    "seconds": ("seconds of training", "by time", 1.0),
}
Colours = dict[str, int]


def curves(runs: Sequence[RunView], colours: Colours) -> list[Picture]:
    """Pictures of the score and the loss, of traffic, and of what several runs' bytes were worth."""
    score = the_score(runs)
    drawn: list[Picture | None] = []
    for x, (x_name, by, unit) in AGAINST.items():
        scores = _lines(runs, colours, x, "{}_{}", unit=unit)
        losses = _lines(runs, colours, x, "train_loss", unit=unit)
        losses += _lines(runs, colours, x, "{}_loss", unit=unit, dashed=True)
        drawn.append(line_chart(f"{metric_name(score)} {by}", scores, (x_name, score), _writer(score)))
        drawn.append(line_chart(f"Loss {by}", losses, (x_name, "loss")))
    if not any(drawn):
        return []
    drawn += [pareto(runs, colours, _writer(score)) if score != "score" else None, _traffic(runs, colours)]
    return [picture for picture in drawn if picture is not None]


def reading_aid(runs: Sequence[RunView]) -> str:
    """On which rows the curves were measured."""
    measured = list(dict.fromkeys(MEASURED[run.measured] for run in runs if run.measured))
    if not measured:
        return ""
    score, where = metric_name(the_score(runs)), escape(join(measured))
    sentence = f"{score} and the dashed loss are those of the {where}; the solid loss is of training."
    joined = " Against bytes, a broken line joins the runs that no other beats in both, if there are several."
    return f"<p>{sentence}{joined if len(runs) > 1 else ''}</p>"


def the_score(runs: Sequence[RunView]) -> str:
    """The metric that all runs are judged by, or a word for several."""
    names = {run.score for run in runs}
    return names.pop() if len(names) == 1 else "score"


def _lines(
    runs: Sequence[RunView], colours: Colours, x: str, y: str, *, dashed: bool = False, unit: float = 1.0
) -> list[Series]:
    """One line per run; the first ``{}`` in ``y`` stands for the rows it was measured on, the second for its score."""
    lines = []
    for run in runs:
        points = [(across / unit, up) for across, up in run.curve(x, y.format(run.measured, run.score))]
        lines.append(Series(run.name, points, colours[run.name], dashed))
    return lines


def _traffic(runs: Sequence[RunView], colours: Colours) -> Picture:
    """For one run: the bytes of each direction. For several: each run's bytes until the accuracy that all reached."""
    if len(runs) == 1:
        sides = {"the parties to the owner": runs[0].sent(False), "the owner to the parties": runs[0].sent(True)}
        bars = [Bar(who, sent, size(sent)) for who, sent in sides.items()]
        return bar_chart("Sent in training", bars, ["from, to", "bytes"])
    goal = common_accuracy(runs)
    title = "Sent in training" if goal is None else f"Sent until {percent(goal, 0)} accuracy"
    costs = {run.name: run.bytes_until(goal) for run in runs}
    return bar_chart(title, [Bar(name, cost, size(cost), colours[name]) for name, cost in costs.items()])


def _writer(score: str) -> Write | None:
    return (lambda share: f"{100 * share:.3g} %") if score == "accuracy" else None
