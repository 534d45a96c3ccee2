"""One self-contained HTML page about one run or several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.errors import ConfigError
from colonnade.folder import make_folder, write_text
from colonnade.report.page import page
from colonnade.report.summary import RunView, common_accuracy, read_summary

__all__ = ["RunView", "common_accuracy", "read_summary", "write_report"]


def write_report(summaries: Sequence[dict[str, Any]], path: str | Path) -> Path:
    """Write a page about runs, given what :meth:`colonnade.Run.summary` or :func:`read_summary` says of them."""
    if not summaries:
        raise ConfigError("a report needs at least one run; give a run folder.")
    runs = [RunView(summary) for summary in summaries]
    _tell_apart(runs)
    target = Path(path)
    make_folder(target.parent)
    write_text(target, page(runs))
    return target


def _tell_apart(runs: Sequence[RunView]) -> None:
    """Number the runs that have the same name."""
    names = [run.name for run in runs]
    for number, run in enumerate(runs):
        if names.count(run.name) > 1:
            run.name = f"{names[number]} ({names[: number + 1].count(names[number])})"
