"""How it went: score and loss of every run, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from colonnade.report.chart import Bar, Series, bar_chart, legend, line_chart
from colonnade.report.summary import RunView, common_accuracy
from colonnade.report.words import metric_name, percent, size

MEASURED = {"test": "test rows", "valid": "rows held out for validation"}


def curves(runs: Sequence[RunView]) -> str:
    """The section with the charts and one legend for all of them."""
    losses = [*_lines(runs, "round", "train_loss"), *_lines(runs, "round", "{}_loss", dashed=True)]
    by_round = _lines(runs, "round", "{}_{}")
    by_traffic = _lines(runs, "bytes", "{}_{}", unit=1e6)
    score = _score(runs)
    title, write = metric_name(score), _whole_percent if score == "accuracy" else None
    charts = [
        line_chart(f"{title} by round", by_round, "round", score, write),
        line_chart(f"{title} by traffic", by_traffic, "MB sent in training", score, write),
        line_chart("Loss by round", losses, "round", "loss"),
    ]
    if not any(charts):
        return "<p>Nothing was evaluated yet.</p>"
    charts.append(_traffic(runs))
    names = legend(by_round) if len(runs) > 1 else ""
    return f'{names}<div class="charts">{"".join(charts)}</div>{_reading_aid(runs)}'


def join(names: Sequence[str]) -> str:
    """Names as one phrase.

    >>> join(["vafl", "fdml", "vimadmm"])
    'vafl, fdml and vimadmm'
    """
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def _lines(runs: Sequence[RunView], x: str, y: str, *, dashed: bool = False, unit: float = 1.0) -> list[Series]:
    """One line per run; the first ``{}`` in ``y`` stands for the rows it was measured on, the second for its score."""
    found = []
    for colour, run in enumerate(runs):
        points = [(across / unit, up) for across, up in run.curve(x, y.format(run.measured, run.score))]
        found.append(Series(run.name, points, colour, dashed))
    return found


def _traffic(runs: Sequence[RunView]) -> str:
    """Of one run, who sent how much; of several, how much each sent until all were equally good."""
    if len(runs) == 1:
        sides = {"the parties to the owner": runs[0].sent(False), "the owner to the parties": runs[0].sent(True)}
        return bar_chart("Sent in training", [Bar(who, sent, size(sent)) for who, sent in sides.items()])
    goal = common_accuracy(runs)
    title = "Sent in training" if goal is None else f"Sent until {percent(goal, 0)} accuracy"
    costs = [run.bytes_until(goal) for run in runs]
    bars = [Bar(run.name, cost, size(cost), n) for n, (run, cost) in enumerate(zip(runs, costs, strict=True))]
    return bar_chart(title, bars)


def _reading_aid(runs: Sequence[RunView]) -> str:
    measured = list(dict.fromkeys(MEASURED[run.measured] for run in runs if run.measured))
    if not measured:
        return ""
    score, where = metric_name(_score(runs)), escape(join(measured))
    return f"<p>{score} and the dashed loss are those of the {where}; the solid loss is of training.</p>"


def _score(runs: Sequence[RunView]) -> str:
    """The metric that all runs are judged by, or a word for several."""
    names = {run.score for run in runs}
    return names.pop() if len(names) == 1 else "score"


def _whole_percent(share: float) -> str:
    return f"{100 * share:.3g} %"
