"""The section of a page about what messages gave away: verdicts, and a picture of attacks beside their controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from colonnade.report.chart import Axis
from colonnade.report.html_table import Cell, table
from colonnade.report.picture import WIDTH, Picture, gallery
from colonnade.report.summary import RunView, printable
from colonnade.report.words import cut

TITLE = "What the messages gave away"
AID = (
    "A bar is the 95 % interval of what the attack that decides reaches, the ring is the same adversary without the "
    "messages. Two classes are ranked (AUC, 0.5 is by chance), more are guessed (accuracy), and of columns and values "
    "the share of the variance counts that is rebuilt (R2)."
)
_STEP, _TOP, _LEFT, _RIGHT = 50, 8, 8, 12
_COLOUR = {"read": 1, "leaks": 4, "hints": 3}  # of the page's colours; all other words have the first
_NAME = 44


def audit_section(runs: Sequence[RunView]) -> tuple[str, list[Picture]]:
    """The HTML and the pictures about the runs that were audited."""
    content, drawn = "", []
    for run in runs:
        if not run.audit:
            continue
        picture = replace(audit_picture(run.audit), about=run.name if len(runs) > 1 else "")
        heading = f"<h3>{escape(run.name)}</h3>" if len(runs) > 1 else ""
        content += heading + audit_content(run.audit, picture)
        drawn.append(picture)
    return content, drawn


def audit_content(audit: dict[str, Any], picture: Picture) -> str:
    """What an audit found, without a heading."""
    drawn = f'<div class="attacks">{gallery([picture])}</div><p>{escape(AID)}</p>'
    return _sentences(audit) + drawn + _table(audit)


def _sentences(audit: dict[str, Any]) -> str:
    worst = printable(audit["worst"])
    head = f"Worst: {worst}. {audit['assumed']} {audit['not_tried']}"
    warn = " warn" if worst in _COLOUR else ""
    said = [f'<p class="note{warn}">{escape(printable(head))}</p>']
    if audit["undeclared"]:
        more = "; ".join(map(printable, audit["undeclared"]))
        said.append(f'<p class="note warn">{escape(f"More than the method declares: {more}.")}</p>')
    said += [f"<p>{escape(printable(proof['sentence']))}</p>" for proof in audit["epsilon"]]
    return "".join(said)


def _table(audit: dict[str, Any]) -> str:
    rows: list[list[Cell]] = [
        [_named(verdict), verdict["word"], verdict["declared"], printable(verdict["sentence"])]
        for verdict in audit["verdicts"]
    ]
    return table(["Secret", "Measured", "Declared", "How"], rows, style="verdicts", stacks=True)


def _named(verdict: dict[str, Any]) -> str:
    """Whose secret it is, and who attacks it."""
    if verdict["secret"] == "membership":
        return f"rows trained on, to {printable(verdict['adversary'])}"
    whose, who = ("owner" if side == "owner" else printable(side) for side in (verdict["of"], verdict["adversary"]))
    return f"{verdict['secret']} of {whose} to {who}"


def audit_picture(audit: dict[str, Any]) -> Picture:
    """For each secret the interval of the attack that decides, its control, and the words measured and declared."""
    axis = Axis([0.0, 0.25, 0.5, 0.75, 1.0], _LEFT, WIDTH - _RIGHT, 0.0, 1.0)
    body, rows = [], []
    for number, verdict in enumerate(audit["verdicts"]):
        body.append(_line(verdict, axis, _TOP + _STEP * number))
        rows.append(_numbers(verdict))
    floor = _TOP + _STEP * len(rows)
    body += [_tick(axis, value, floor) for value in axis.ticks]
    head = ["secret", "measured", "declared", "metric", "attack", "from", "to", "control"]
    words = ", ".join(f"{row[0]} {row[1]}" for row in rows)
    return Picture("Attacks beside their controls", words, "".join(body), head, rows, height=floor + 24)


def _deciding(verdict: dict[str, Any]) -> dict[str, Any] | None:
    """The advantage of the attack that decides."""
    found = [one["advantage"] for one in verdict["attempts"] if one["attack"] == verdict["by"]]
    return found[0] if found else None


def _numbers(verdict: dict[str, Any]) -> list[str | float]:
    found = _deciding(verdict)
    words: list[str | float] = [_named(verdict), verdict["word"], verdict["declared"]]
    if found is None:
        return [*words, "", "", "", "", ""]
    return [*words, found["metric"], *(found[key] for key in ("attack", "attack_low", "attack_high", "control"))]


def _line(verdict: dict[str, Any], axis: Axis, y: float) -> str:
    word, found = verdict["word"], _deciding(verdict)
    told = f"{word} · {'not declared' if verdict['declared'] == 'not declared' else 'declared ' + verdict['declared']}"
    texts = (
        f'<text x="{_LEFT}" y="{y + 12}"><title>{escape(_named(verdict))}</title>'
        f"{escape(cut(_named(verdict), _NAME))}</text>"
        f'<text class="strong" x="{WIDTH - _RIGHT}" y="{y + 12}" text-anchor="end">{escape(told)}</text>'
    )
    base = f'<path class="grid" d="M{_LEFT} {y + 28}H{WIDTH - _RIGHT}"/>'
    return texts + base + ("" if found is None else _marks(found, _COLOUR.get(word, 0), axis, y + 28))


def _marks(found: dict[str, Any], colour: int, axis: Axis, y: float) -> str:
    low, at, high, control = (
        axis.place(min(1.0, max(0.0, found[key]))) for key in ("attack_low", "attack", "attack_high", "control")
    )
    tip = f"{found['metric']}: attack {found['attack']:.3f}, control {found['control']:.3f}"
    width = max(3.0, high - low)
    return (
        f'<path class="guide" d="M{control:.1f} {y}H{at:.1f}"/>'
        f'<rect class="f{colour}" x="{low:.1f}" y="{y - 5}" width="{width:.1f}" height="10" rx="3">'
        f"<title>{escape(tip)}</title></rect>"
        f'<circle class="dot c7" cx="{control:.1f}" cy="{y}" r="5"><title>{escape(tip)}</title></circle>'
    )


def _tick(axis: Axis, value: float, floor: float) -> str:
    anchor = "start" if value == 0 else "end" if value == 1 else "middle"
    return f'<text x="{axis.place(value):.1f}" y="{floor + 12}" text-anchor="{anchor}">{value:g}</text>'
