"""The head of the page: what was trained, by whom, with which settings, and a table of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from colonnade.report.compare import differing
from colonnade.report.curves import MEASURED
from colonnade.report.holdings import columns_of
from colonnade.report.html_table import Cell, table
from colonnade.report.summary import RunView, common_accuracy
from colonnade.report.words import duration, join, metric, metric_name, percent, plain, size


def title_of(runs: Sequence[RunView]) -> str:
    """The methods and the data."""
    names = list(dict.fromkeys(run.method for run in runs))
    data = list(dict.fromkeys(run.data for run in runs))
    return f"{join(names)} on {join(data)}"


def lead(runs: Sequence[RunView], *, follows: bool = False) -> str:
    """One sentence about who trained what, and one about every run that is not finished."""
    parties = {len(run.parties) for run in runs}
    rows = {run.tables[0][1] for run in runs}
    if len(parties) > 1 or len(rows) > 1:
        sentence = f"{len(runs)} runs of different federations."
    else:
        who = f"{parties.pop()} parties" if parties != {1} else "One party"
        what = "one model" if len(runs) == 1 else f"{len(runs)} models, one per run,"
        sentence = f"{who} trained {what} over {rows.pop():,} shared rows; each kept its columns."
    late = [f'<p class="note warn">{escape(unfinished(run, runs))}</p>' for run in runs if run.unfinished]
    if follows:
        late = [f'<p class="note">{escape(_so_far(run))}</p>' for run in runs]
    return f'<p class="lead">{sentence}</p>{"".join(late)}'


def _so_far(run: RunView) -> str:
    return f"Last saved in {ended(run)}; the page follows the run." if run.unfinished else "The run is finished."


def unfinished(run: RunView, runs: Sequence[RunView]) -> str:
    """The sentence about a run that is not finished: its last round."""
    who = "The run" if len(runs) == 1 else run.name
    return f"{who} is not finished: it was last saved after {ended(run)}, and the page shows what was there by then."


def ended(run: RunView) -> str:
    """The last round of a run, and how many were planned if it is not finished."""
    of = f" of {run.settings['rounds']:,}" if run.round < run.settings.get("rounds", 0) else ""
    return f"round {run.round:,}{of}"


def tiles(run: RunView) -> str:
    """The most important numbers, in large type."""
    where = MEASURED.get(run.measured, "")
    facts = {f"{metric_name(name)}, {where}": metric(name, value) for name, value in run.metrics.items()}
    facts |= {
        "Rounds": f"{run.round:,}",
        "Sent in training": size(run.train_bytes),
        "Time in training": duration(run.seconds),
    }
    drawn = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="tiles">{drawn}</dl>'


def settings(runs: Sequence[RunView]) -> str:
    """All settings; for several runs, the settings that differ come first."""
    columns = [_facts(run) for run in runs]
    names = list(dict.fromkeys(name for facts in columns for name in facts))
    rows = [[name, *(facts.get(name, "") for facts in columns)] for name in names]
    if len(runs) == 1:
        return table([], rows, style="settings") + _columns(runs)
    head = ["", *(run.name for run in runs)]
    others = differing(runs)
    unlike = table(head, others, style="settings") if others else "<p>All runs have the same settings.</p>"
    whole = table(head, rows, style="settings")
    return f"<h3>What differs</h3>{unlike}<details><summary>All settings</summary>{whole}</details>{_columns(runs)}"


def _columns(runs: Sequence[RunView]) -> str:
    """The known names of columns, folded; runs with the same names share a table."""
    runs_by_table: dict[str, list[str]] = {}
    for run in runs:
        rows = [[name, columns.whole] for name, columns in columns_of(run).items()]
        if rows:
            runs_by_table.setdefault(table([], rows, style="settings"), []).append(run.name)
    titles = {whole: f": {join(names)}" if len(names) < len(runs) else "" for whole, names in runs_by_table.items()}
    return "".join(
        f"<details><summary>Columns of each party{escape(names)}</summary>{whole}</details>"
        for whole, names in titles.items()
    )


def results(runs: Sequence[RunView]) -> str:
    """One row per run, to be sorted by any column."""
    scores = list(dict.fromkeys(name for run in runs for name in run.metrics))
    data = ["Data"] if len({run.data for run in runs}) > 1 else []
    head = ["Run", *data, *map(metric_name, scores), "Rounds", "Sent in training", "With evaluations", "Time"]
    goal = common_accuracy(runs)
    note = '<p class="screen">A column\'s name sorts by it.</p>'
    if goal is not None:
        head += [f"Rounds to {percent(goal, 0)}", f"Sent to {percent(goal, 0)}"]
        note += f"<p>{percent(goal, 0)} is the highest whole per cent that the final model of every run reached.</p>"
    rows = [[run.name, *([run.data] if data else []), *_result(run, scores, goal)] for run in runs]
    return table(head, rows, numbers=range(1 + len(data), len(head)), sortable=True) + note


def _result(run: RunView, scores: Sequence[str], goal: float | None) -> list[Cell]:
    metrics = run.metrics
    scored: list[Cell] = [(metric(name, metrics[name]), metrics[name]) if name in metrics else "-" for name in scores]
    sent: list[Cell] = [
        (ended(run).removeprefix("round "), run.round),
        (size(run.train_bytes), run.train_bytes),
        (size(run.ledger.total), run.ledger.total),
        (duration(run.seconds), run.seconds),
    ]
    return [*scored, *sent, *(_way_to(run, goal) if goal is not None else ())]


def _way_to(run: RunView, goal: float) -> tuple[Cell, Cell]:
    row = run.reach(goal)
    return ((f"{row['round']:,}", row["round"]), (size(row["bytes"]), row["bytes"])) if row else ("-", "-")


def _facts(run: RunView) -> dict[str, str]:
    method = run.known_method
    parties = [f"{name} ({' x '.join(map(str, shape))})" for name, _, shape in run.tables if shape]
    chosen = {name: value for name, value in run.settings.items() if value is not None}
    return {
        "Method": run.method + (f": {method.summary}" if method else ""),
        "Its options": _pairs(run.options),
        "Data": f"{run.data}, {run.tables[0][1]:,} rows",
        "Parties": f"{', '.join(parties)}; labels: {', '.join(run.owners) or run.tables[0][0]}",
        "Networks": _builders(run.models),
        "Optimisers": _builders(run.optimizers),
        **({"Seals": _builders(run.seals)} if run.seals else {}),
        "Settings": _pairs(chosen),
        "Came to": ended(run) + (", an early end" if run.stopped else ""),
    }


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {plain(value)}" for name, value in values.items())


def _builders(entries: Sequence[dict[str, Any] | None]) -> str:
    written = []
    for entry in entries:
        options = dict(entry or {"kind": "one's own"})
        kind = plain(options.pop("kind", None))
        written.append(f"{kind} ({_pairs(options)})" if options else kind)
    return "; ".join(dict.fromkeys(written))
