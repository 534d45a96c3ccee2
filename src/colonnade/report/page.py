"""The page: a title, what was trained, how it went, and what left the house."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from colonnade.report.curves import MEASURED, curves, join
from colonnade.report.exchange import exchange
from colonnade.report.summary import RunView, common_accuracy
from colonnade.report.table import table
from colonnade.report.words import duration, metric, metric_name, percent, plain, size

_LOGO = (
    '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 2 22 7.5V9H2V7.5ZM3.5 10.5h3V19h-3Zm4.9 0h3V19h-3Z'
    'm4.2 0h3V19h-3Zm4.9 0h3V19h-3ZM2 20h20v2H2Z"/></svg>'
)


def page(runs: Sequence[RunView]) -> str:
    """One self-contained HTML page about one or several runs."""
    title = _title(runs)
    body = [
        f'<header><p class="brand">{_LOGO}Colonnade</p><h1>{escape(title)}</h1>{_lead(runs)}</header>',
        _tiles(runs[0]) if len(runs) == 1 else "",
        _section("What was trained", _settings(runs)),
        _section("How it went", curves(runs)),
        _section("Runs side by side", _results(runs)) if len(runs) > 1 else "",
        _section("What left the house", "".join(exchange(run, alone=len(runs) == 1) for run in runs)),
        "<footer>Bytes are those of the wire form of every message, frames included; 1 MB is a million bytes. "
        "Training bytes leave out evaluations.</footer>",
    ]
    style = files("colonnade.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} - Colonnade</title><style>\n{style}</style></head>\n"
        f"<body><main>\n{chr(10).join(part for part in body if part)}\n</main></body></html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _title(runs: Sequence[RunView]) -> str:
    names = list(dict.fromkeys(run.method for run in runs))
    data = list(dict.fromkeys(run.data for run in runs))
    return f"{join(names)} on {join(data)}"


def _lead(runs: Sequence[RunView]) -> str:
    parties = {len(run.parties) for run in runs}
    rows = {run.tables[0][1] for run in runs}
    if len(parties) > 1 or len(rows) > 1:
        return f'<p class="lead">{len(runs)} runs of different federations.</p>'
    who = f"{parties.pop()} parties" if parties != {1} else "One party"
    what = "one model" if len(runs) == 1 else f"{len(runs)} models, one per run,"
    return f'<p class="lead">{who} trained {what} over {rows.pop():,} shared rows; each kept its columns.</p>'


def _tiles(run: RunView) -> str:
    where = MEASURED.get(run.measured, "")
    facts = {f"{metric_name(name)}, {where}": metric(name, value) for name, value in run.metrics.items()}
    facts |= {
        "Rounds": f"{run.round:,}",
        "Sent in training": size(run.train_bytes),
        "Time in training": duration(run.seconds),
    }
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="tiles">{tiles}</dl>'


def _settings(runs: Sequence[RunView]) -> str:
    columns = [_facts(run) for run in runs]
    names = list(dict.fromkeys(name for facts in columns for name in facts))
    rows = [[name, *(facts.get(name, "") for facts in columns)] for name in names]
    return table(["", *(run.name for run in runs)] if len(runs) > 1 else [], rows, style="settings")


def _facts(run: RunView) -> dict[str, str]:
    method = run.known_method
    parties = [f"{name} ({' x '.join(map(str, shape))})" for name, _, shape in run.tables if shape]
    settings = {name: value for name, value in run.settings.items() if value is not None}
    return {
        "Method": run.method + (f": {method.summary}" if method else ""),
        "Its options": _pairs(run.options),
        "Data": f"{run.data}, {run.tables[0][1]:,} rows",
        "Parties": f"{', '.join(parties)}; labels: {', '.join(run.owners) or run.tables[0][0]}",
        "Networks": _builders(run.models),
        "Optimisers": _builders(run.optimizers),
        **({"Seals": _builders(run.seals)} if run.seals else {}),
        "Settings": _pairs(settings),
        "Ended": f"early, in round {run.round:,}" if run.stopped else f"after round {run.round:,}",
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


def _results(runs: Sequence[RunView]) -> str:
    scores = list(dict.fromkeys(name for run in runs for name in run.metrics))
    head = ["Run", *map(metric_name, scores), "Rounds", "Sent in training", "With evaluations", "Time"]
    goal = common_accuracy(runs)
    note = ""
    if goal is not None:
        head += [f"Rounds to {percent(goal, 0)}", f"Sent to {percent(goal, 0)}"]
        note = f"<p>{percent(goal, 0)} is the highest whole per cent that the final model of every run reached.</p>"
    return table(head, [_result(run, scores, goal) for run in runs], numbers=range(1, len(head))) + note


def _result(run: RunView, scores: Sequence[str], goal: float | None) -> list[str]:
    scored = [metric(name, run.metrics[name]) if name in run.metrics else "-" for name in scores]
    sent = [f"{run.round:,}", size(run.train_bytes), size(run.ledger.total), duration(run.seconds)]
    return [run.name, *scored, *sent, *(_way_to(run, goal) if goal is not None else ())]


def _way_to(run: RunView, goal: float) -> tuple[str, str]:
    row = run.reach(goal)
    return (f"{row['round']:,}", size(row["bytes"])) if row else ("-", "-")
