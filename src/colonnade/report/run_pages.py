"""One self-contained HTML page about one run or several, and its pictures and numbers beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from colonnade.disk.whole_files import make_folder, write_text
from colonnade.errors import ConfigError
from colonnade.report.beside import write_beside
from colonnade.report.compare import why_apart
from colonnade.report.overview import unfinished
from colonnade.report.page import document, page, sections
from colonnade.report.summary import RunView, printable


def write_report(summaries: Sequence[dict[str, Any]], path: str | Path, *, pictures: bool = False) -> Path:
    """Write a page about runs, given what :meth:`colonnade.Run.summary` or :func:`read_summary` says of them.

    ``pictures`` also writes every picture as SVG and the numbers as CSV, to a folder with the page's name.
    """
    if not summaries:
        raise ConfigError("a report needs at least one run; give a run folder.")
    runs = _views(summaries)
    parts = sections(runs)
    target = Path(path)
    make_folder(target.parent)
    write_text(target, page(runs, parts))
    if pictures:
        write_beside(target, [picture for part in parts for picture in part.pictures], runs)
    return target


def live_page(summary: dict[str, Any], checkpoint: str) -> str:
    """The page about a run as it is in a checkpoint, which asks its server for newer checkpoints."""
    runs = _views([summary])
    return page(runs, sections(runs), follows=checkpoint)


def waiting_page(title: str, sentence: str, checkpoint: str = "") -> str:
    """A page with one sentence in place of a report, such as before the first checkpoint."""
    title, sentence = printable(title), printable(sentence)
    return document(title, f'<p class="lead">{escape(sentence)}</p>', "", follows=checkpoint)


def not_finished(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """One sentence for every run that is not finished."""
    runs = _views(summaries)
    return [unfinished(run, runs) for run in runs if run.unfinished]


def not_comparable(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """What cannot be compared among these runs, and what differs, one sentence each."""
    return why_apart(_views(summaries))


def _views(summaries: Sequence[dict[str, Any]]) -> list[RunView]:
    """The runs, with numbers added to names that occur twice."""
    runs = [RunView(summary) for summary in summaries]
    names = [run.name for run in runs]
    for number, run in enumerate(runs):
        if names.count(run.name) > 1:
            run.name = f"{names[number]} ({names[: number + 1].count(names[number])})"
    return runs
