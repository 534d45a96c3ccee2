"""Files beside a page: every picture as SVG, and its numbers as CSV."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from colonnade.disk.csv_text import csv_text
from colonnade.disk.whole_files import make_folder, write_text
from colonnade.report.picture import Picture
from colonnade.report.summary import RunView


def write_beside(page: Path, pictures: Sequence[Picture], runs: Sequence[RunView]) -> Path:
    """Write pictures, numbers, results and ledgers to a folder with the page's name, and give the folder."""
    folder = make_folder(page.parent / f"{page.stem}-files")
    taken: set[str] = set()
    for picture in pictures:
        name = _free(f"{picture.about} {picture.title}".split(", ")[0], taken)
        write_text(folder / f"{name}.svg", picture.svg())
        write_text(folder / f"{name}.csv", picture.csv())
    for run in runs:
        write_text(folder / f"{_free(f'{run.name} ledger', taken)}.csv", run.ledger.to_csv())
    write_text(folder / f"{_free('results', taken)}.csv", _results(runs))
    return folder


def _free(title: str, taken: set[str]) -> str:
    """A file name that every operating system accepts and that no other file of the folder has."""
    plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80] or "picture"
    name = next(name for name in [plain, *(f"{plain}-{n}" for n in range(2, 10_000))] if name not in taken)
    taken.add(name)
    return name


def _results(runs: Sequence[RunView]) -> str:
    scores = list(dict.fromkeys(name for run in runs for name in run.metrics))
    facts = ("method", "data", "rounds", "train_bytes", "all_bytes", "seconds")
    rows = []
    for run in runs:
        values = [run.result[fact] for fact in facts]
        rows.append([run.name, *values, run.measured, *(run.metrics.get(score, "") for score in scores)])
    return csv_text(["run", *facts, "measured_on", *scores], rows)
