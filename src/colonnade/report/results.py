"""Pictures of how good the model is and which parties matter, from the findings of the last evaluation."""

from __future__ import annotations

from typing import Any

from colonnade.report.chart import Series, line_chart, short
from colonnade.report.holdings import columns_of, parts_of
from colonnade.report.picture import Picture
from colonnade.report.shapes import Bar, bar_chart, histogram, matrix, scatter
from colonnade.report.summary import RunView

MOST_CELLS = 40  # classes; beyond that a matrix is a grey square, and the worst confusions say more
WORST = 12


def quality(run: RunView) -> list[Picture]:
    """Confusion, ROC, precision and recall, calibration, residuals, labels: whatever the task has."""
    findings = run.findings
    drawn: list[Picture | None] = []
    if findings.get("confusion"):
        drawn.append(_confusion(findings["confusion"], run))
    if findings.get("roc"):
        drawn.append(_roc(findings["roc"], run))
    if findings.get("pr"):
        drawn.append(_pr(findings["pr"], run))
    if findings.get("calibration"):
        drawn.append(_calibration(findings["calibration"]))
    for number, gaps in enumerate(findings.get("residuals", [])):
        which = "" if len(findings["residuals"]) == 1 else f" of value {number + 1}"
        drawn.append(histogram(f"Predicted less true{which}", gaps["reach"], gaps["counts"], "predicted less true"))
    if findings.get("labels"):
        drawn.append(_labels(findings["labels"], run))
    return [picture for picture in drawn if picture is not None]


def who_matters(run: RunView) -> list[Picture]:
    """One bar per party, the most important first."""
    numbers = sorted(run.findings.get("importance", {}).items(), key=lambda item: -item[1])
    shapes = {name: " x ".join(map(str, shape)) for name, _, shape in run.tables if shape}
    columns, parts = columns_of(run), parts_of(run)
    bars = []
    for name, value in numbers:
        label, known = f"{name} ({shapes[name]})" if name in shapes else name, columns.get(name)
        note, whole = (known.first(), known.whole) if known else ("", "")
        bars.append(Bar(label, value, f"{value:#.3g}".rstrip("."), note=note, whole=whole, part=parts.get(name)))
    return [bar_chart("Importance of each party", bars, ["party", "importance"])] if bars else []


def maps(run: RunView) -> list[Picture]:
    """Each party's embeddings in the plane."""
    points: dict[str, list[Any]] = run.findings.get("maps", {})
    classes = [int(number) for number in run.findings.get("classes", [])]
    names = run.class_names(max(classes, default=0) + 1)
    return [scatter(name, places, classes, names) for name, places in points.items() if places]


def _confusion(counts: list[list[int]], run: RunView) -> Picture:
    names = run.class_names(len(counts))
    if len(counts) <= MOST_CELLS:
        return matrix("Confusion matrix", counts, names)
    wrong = [(count, k, j) for k, line in enumerate(counts) for j, count in enumerate(line) if k != j and count]
    bars = [Bar(f"{names[k]} taken for {names[j]}", n, f"{n:,}") for n, k, j in sorted(wrong, reverse=True)[:WORST]]
    return bar_chart("Most frequent confusions", bars, ["confusion", "rows"])


def _roc(points: list[Any], run: RunView) -> Picture | None:
    name = _with("ROC curve", "area", run.metrics.get("auc"))
    line = Series("ROC", [(x, y) for x, y in points])
    return line_chart(
        name, [line], ("false positive rate", "true positive rate"), shares=True, guide=[(0.0, 0.0), (1.0, 1.0)]
    )


def _pr(points: list[Any], run: RunView) -> Picture | None:
    name = _with("Precision and recall", "average precision", run.metrics.get("average_precision"))
    line = Series("precision", [(x, y) for x, y in points])
    return line_chart(name, [line], ("recall", "precision"), shares=True)


def _calibration(bins: list[Any]) -> Picture | None:
    line = Series("observed", [(predicted, observed) for predicted, observed, _ in bins], 1)
    return line_chart(
        "Calibration",
        [line],
        ("predicted probability", "share that was so"),
        shares=True,
        guide=[(0.0, 0.0), (1.0, 1.0)],
        marked=True,
    )


def _labels(cells: list[list[int]], run: RunView) -> Picture:
    names = run.class_names(len(cells))
    scores = [2 * hit / max(2 * hit + false + missed, 1) for hit, false, missed, _ in cells]
    bars = [Bar(name, score, f"F1 {score:.3f}") for name, score in zip(names, scores, strict=True)]
    return bar_chart("How well each label is found", bars[:40], ["label", "f1"])


def _with(title: str, what: str, value: float | None) -> str:
    return title if value is None else f"{title}, {what} {short(round(value, 3))}"
