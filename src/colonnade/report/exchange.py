"""What left the house: the ledger of one run as sentences and tables."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from colonnade.ledger import OWNER, Line
from colonnade.report.summary import RunView
from colonnade.report.table import table
from colonnade.report.words import size, what_it_is, what_left, what_seals_did, what_shows

_SHORT = 12  # a ledger of so few lines is shown at once


def exchange(run: RunView, *, alone: bool) -> str:
    """One run's part of the section."""
    title = "" if alone else f"<h3>{escape(run.name)}</h3>"
    warning = " warn" if run.known_method is None or run.known_method.shows_labels else ""
    told = f'<p>{escape(what_left(run))}</p><p class="note{warning}">{escape(what_shows(run))}</p>'
    told += "".join(f"<p>{escape(sentence)}</p>" for sentence in what_seals_did(run))
    return title + told + (_by_step(run) + _line_by_line(run) if run.ledger.rows else "")


def _by_step(run: RunView) -> str:
    rows = [
        [line.step, line.purpose, f"{line.sender} to {line.receiver}", what_it_is(run, line), *_counts(line)]
        for line in _merged(run)
    ]
    head = ["Step", "For", "From, to", "What it is", "Messages", "Tensors", "On the wire"]
    return table(head, rows, numbers=(4, 5, 6), foot=["Total", "", "", "", *_counts(_total(run.ledger.rows))])


def _line_by_line(run: RunView) -> str:
    lines = run.ledger.rows
    rows = [[line.sender, line.receiver, line.step, line.purpose, *_counts(line)] for line in lines]
    head = ["From", "To", "Step", "For", "Messages", "Tensors", "On the wire"]
    shown = " open" if len(lines) <= _SHORT else ""
    inner = table(head, rows, numbers=(4, 5, 6))
    return f"<details{shown}><summary>Each sender and receiver ({len(lines)} lines)</summary>{inner}</details>"


def _counts(line: Line) -> list[str]:
    return [f"{line.messages:,}", size(line.payload), size(line.total)]


def _merged(run: RunView) -> list[Line]:
    """The ledger with all parties as one, and all owners where there are several."""
    owners = "owners" if len(run.owners) > 1 else OWNER
    merged: dict[tuple[str, ...], Line] = {}
    for line in run.ledger.rows:
        sender, receiver = (owners if run.is_owner(side) else "parties" for side in (line.sender, line.receiver))
        key = line.purpose, line.step, sender, receiver
        merged[key] = _plus(merged.get(key) or Line(line.purpose, line.step, sender, receiver), line)
    return list(merged.values())


def _total(lines: list[Line]) -> Line:
    total = Line("", "", "", "")
    for line in lines:
        total = _plus(total, line)
    return total


def _plus(total: Line, line: Line) -> Line:
    return replace(
        total,
        messages=total.messages + line.messages,
        payload=total.payload + line.payload,
        overhead=total.overhead + line.overhead,
    )
