"""What left the house: the ledger of one run as sentences and tables."""

from __future__ import annotations

from html import escape

from colonnade.report.html_table import Cell, table, whole
from colonnade.report.learns import could_learn, seals_on, values_in
from colonnade.report.run_words import what_dates_told, what_left, what_seals_did, what_shows
from colonnade.report.summary import RunView
from colonnade.report.words import percent, size
from colonnade.wire.ledger import OWNER, Line

_SHORT = 12  # lines; a longer ledger is folded


def exchange(run: RunView, *, alone: bool) -> str:
    """The section's sentences and tables about one run."""
    title = "" if alone else f"<h3>{escape(run.name)}</h3>"
    warning = " warn" if run.tells_labels != "unsent" else ""
    sentences = f'<p>{escape(what_left(run))}</p><p class="note{warning}">{escape(what_shows(run))}</p>'
    sentences += "".join(f"<p>{escape(said)}</p>" for said in [*what_seals_did(run), *what_dates_told(run)])
    return title + sentences + (_by_step(run) + _by_party(run) + _line_by_line(run) if run.ledger.rows else "")


def _by_step(run: RunView) -> str:
    """One row per step and direction. All parties share a row, since all take the same steps."""
    rows: list[list[Cell]] = []
    for merged, line in _merged(run):
        who = f"{merged.sender} to {merged.receiver}"
        facts = [values_in(run, line), _seals(run, line), could_learn(run, line)]
        rows.append([line.step, line.purpose, who, *facts, *_counts(merged)])
    head = ["Step", "For", "From, to", "Values", "Seals", "What the receiver could learn", "Messages", "On the wire"]
    messages, wire = (text for text, _ in _counts(_total(run.ledger.rows)))
    foot = ["Total", "", "", "", "", "", messages, wire]
    return table(head, rows, numbers=(6, 7), foot=foot, style="steps", stacks=True)


def _by_party(run: RunView) -> str:
    """One row per party: bytes sent and received, epsilon spent, rounds missed."""
    head = ["Party", "Messages sent", "Sent", "Received"]
    cells = {name: _traffic(run, name) for name in run.parties}
    if any(run.missed.values()):
        head.append("Rounds missed")
        for name, row in cells.items():
            row.append(whole(run.missed.get(name, 0)))
    if any(run.clipped.values()):
        head.append("Values clipped")
        for name, row in cells.items():
            row.append((percent(run.clipped.get(name, 0.0), 2), run.clipped.get(name, 0.0)))
    if run.privacy:
        head.append("Epsilon spent, of granted")
        for name, row in cells.items():
            row.append(_epsilon(run, name))
    rows = [[name, *row] for name, row in cells.items()]
    return f"<h4>Each party</h4>{table(head, rows, numbers=range(1, len(head)), sortable=True)}"


def _traffic(run: RunView, name: str) -> list[Cell]:
    sent = _total([line for line in run.ledger.rows if line.sender == name])
    received = sum(line.total for line in run.ledger.rows if line.receiver == name)
    return [whole(sent.messages), (size(sent.total), sent.total), (size(received), received)]


def _epsilon(run: RunView, name: str) -> Cell:
    budget = run.privacy.get(name)
    return ("-", 0.0) if budget is None else (f"{budget['spent']:.2f} of {budget['granted']:g}", budget["spent"])


def _line_by_line(run: RunView) -> str:
    lines = run.ledger.rows
    rows: list[list[Cell]] = [
        [line.sender, line.receiver, line.step, line.purpose, values_in(run, line), _seals(run, line), *_counts(line)]
        for line in lines
    ]
    head = ["From", "To", "Step", "For", "Values", "Seals", "Messages", "On the wire"]
    shown = " open" if len(lines) <= _SHORT else ""
    inner = table(head, rows, numbers=(6, 7), sortable=True)
    return f"<details{shown}><summary>Each sender and receiver ({len(lines)} lines)</summary>{inner}</details>"


def _seals(run: RunView, line: Line) -> str:
    return ", ".join(seals_on(run, line)) or "none"


def _counts(line: Line) -> list[tuple[str, float]]:
    return [whole(line.messages), (size(line.total), line.total)]


def _merged(run: RunView) -> list[tuple[Line, Line]]:
    """Pairs of a sum of lines and one of those lines: all parties' lines of a step are added, and all owners'."""
    owners = "owners" if len(run.owners) > 1 else OWNER
    merged: dict[tuple[str | bool | None, ...], tuple[Line, Line]] = {}
    for line in run.ledger.rows:
        sender, receiver = (owners if run.is_owner(side) else "parties" for side in (line.sender, line.receiver))
        key = line.purpose, line.step, sender, receiver, line.summed
        before, example = merged.get(key) or (Line(line.purpose, line.step, sender, receiver), line)
        merged[key] = before.plus(line), example
    return list(merged.values())


def _total(lines: list[Line]) -> Line:
    total = Line("", "", "", "")
    for line in lines:
        total = total.plus(line)
    return total
