"""The page: what was trained, how it went, how good it is, who matters, and what left the house."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape

from colonnade.report.audit_section import TITLE, audit_section
from colonnade.report.compare import groups, why_apart, with_care
from colonnade.report.curves import Colours, curves, reading_aid
from colonnade.report.exchange import exchange
from colonnade.report.over_time import over_time, title_over_time
from colonnade.report.overview import lead, results, settings, tiles, title_of
from colonnade.report.picture import LegendKey, Picture, gallery, legend, style
from colonnade.report.results import maps, quality, who_matters
from colonnade.report.summary import RunView
from colonnade.report.words import join

_LOGO = (
    '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 2 22 7.5V9H2V7.5ZM3.5 10.5h3V19h-3Zm4.9 0h3V19h-3Z'
    'm4.2 0h3V19h-3Zm4.9 0h3V19h-3ZM2 20h20v2H2Z"/></svg>'
)
_FOOT = (
    "Bytes are those of the wire form of every message, frames included; 1 MB is a million bytes. Training bytes leave "
    "out evaluations. This page is the owner's: it is made of its labels, so it tells more than the parties know."
)
_GONE = "Nobody answers any more, so this is the last that was seen; the report in the run folder has the rest."


@dataclass(frozen=True)
class Section:
    """A heading, the HTML below it, and the pictures in that HTML."""

    title: str
    content: str
    pictures: list[Picture] = field(default_factory=list)


def sections(runs: Sequence[RunView]) -> list[Section]:
    """The sections of the page in their order, without those that would be empty."""
    alone = len(runs) == 1
    parts = [
        Section("What was trained", settings(runs)),
        Section("Runs side by side", "" if alone else _notes(runs) + results(runs)),
        _how_it_went(runs),
        _of_each("How good it is", runs, quality, "charts"),
        Section(title_over_time(runs), *over_time(runs)),
        _of_each("Who matters", runs, who_matters, "charts"),
        _of_each("How each party sees the rows", runs, maps, "small"),
        Section("What left the house", "".join(exchange(run, alone=alone) for run in runs)),
        Section(TITLE, *audit_section(runs)),
    ]
    return [section for section in parts if section.content]


def page(runs: Sequence[RunView], parts: Sequence[Section], follows: str | None = None) -> str:
    """One self-contained HTML page about one or several runs; ``follows`` as in :func:`document`."""
    body = "".join(f"<section><h2>{escape(part.title)}</h2>{part.content}</section>\n" for part in parts)
    numbers = tiles(runs[0]) if len(runs) == 1 else ""
    said = lead(runs, follows=follows is not None)
    return document(title_of(runs), said, f"{numbers}\n{body}<footer>{_FOOT}</footer>\n", follows)


def document(title: str, said: str, body: str, follows: str | None = None) -> str:
    """The whole HTML document: a heading, the lead below it, and a body.

    ``follows`` names the checkpoint that the page shows; the page then asks its server for newer ones and shows them.
    """
    script = style("page.js") + ("" if follows is None else style("follow.js"))
    mark = "" if follows is None else f' data-checkpoint="{escape(follows)}"'
    gone = "" if follows is None else f'<p class="note warn" id="gone" hidden>{_GONE}</p>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, follows is not None)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} - Colonnade</title>"
        f"<style>\n{style('picture.css')}{style('page.css')}</style></head>\n"
        f'<body{mark}><main>\n<header><p class="brand">{_LOGO}Colonnade</p><h1>{escape(title)}</h1>{said}{gone}'
        f"</header>\n{body}</main><script>{script}</script></body></html>\n"
    )


def _policy(script: str, follows: bool) -> str:
    """The page's security policy: its own script only, and no request except to its own server if it follows a run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    asks = "connect-src 'self'; " if follows else ""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        f"{asks}base-uri 'none'; form-action 'none'"
    )


def _notes(runs: Sequence[RunView]) -> str:
    apart = [f'<p class="note warn">{escape(sentence)}</p>' for sentence in why_apart(runs)]
    return "".join([*apart, *(f'<p class="note">{escape(sentence)}</p>' for sentence in with_care(runs))])


def _how_it_went(runs: Sequence[RunView]) -> Section:
    """Curves of the runs: runs that can be compared share pictures."""
    colours: Colours = {run.name: number for number, run in enumerate(runs)}
    content, drawn = "", []
    together = groups(runs)
    for group in together:
        pictures = curves(group, colours)
        names = join([run.name for run in group])
        if len(together) > 1:
            content += f"<h3>{escape(names)}</h3>"
            pictures = [replace(picture, about=names) for picture in pictures]
        keys = [LegendKey(run.name, colours[run.name]) for run in group]
        content += legend(keys) if len(group) > 1 and pictures else ""
        content += gallery(pictures) + reading_aid(group) if pictures else "<p>Nothing was evaluated yet.</p>"
        drawn += pictures
    return Section("How it went", content, drawn)


def _of_each(title: str, runs: Sequence[RunView], draw: Callable[[RunView], list[Picture]], kind: str) -> Section:
    """A section of pictures that show one run each."""
    content, drawn = "", []
    for run in runs:
        pictures = [replace(picture, about=run.name if len(runs) > 1 else "") for picture in draw(run)]
        if not pictures:
            continue
        content += f"<h3>{escape(run.name)}</h3>" if len(runs) > 1 else ""
        content += legend(pictures[0].keys) if kind == "small" else ""
        content += gallery(pictures, kind) + _said(title, run)
        drawn += pictures
    return Section(title, content, drawn)


def _said(title: str, run: RunView) -> str:
    """The sentence below a section's pictures that says how to read them."""
    rows = {"test": "test rows", "valid": "rows held out"}.get(run.findings.get("part", ""), "rows")
    aids = {
        "How good it is": f"Measured on {run.findings.get('rows', 0):,} {rows} in round "
        f"{run.findings.get('round', 0):,}.",
        "Who matters": "By the method's own measure; a longer bar means that the model relies more on that party.",
        "How each party sees the rows": "Each point is a row, in the colour of its class; near points look alike to "
        "that party. The directions mean nothing.",
    }
    return f"<p>{escape(aids[title])}</p>"
