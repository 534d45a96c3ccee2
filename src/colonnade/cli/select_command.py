"""``colonnade select JOB.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from colonnade.cli.app import Json, app, echo, out, print_json
from colonnade.report.words import size

if TYPE_CHECKING:
    from colonnade.selection.choice import Selection


@app.command(epilog="Example: colonnade select examples/select.toml --json")
def select(
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file; its [select] says how.")],
    json: Json = False,
) -> None:
    """Say which parties a job would train with, why, and what was opened to whom; train nothing."""
    from colonnade.jobs.job_file import read_job
    from colonnade.jobs.run_job import select_job

    selection = select_job(read_job(job))
    if json:
        print_json(selection.to_json())
    else:
        _show(selection)


def _show(selection: Selection) -> None:
    table = Table("party", "information", "chosen", "", box=None, padding=(0, 1, 0, 0))
    for name, score in selection.scores.items():
        place = str(selection.chosen.index(name) + 1) if name in selection.chosen else ""
        table.add_row(name, f"{score:.3f}", place, selection.notes.get(name, ""))
    out.print(table)
    reached = "" if selection.reached is None else f", {100 * selection.reached:.1f} % of what all parties know"
    chosen = f"{len(selection.chosen)} of {len(selection.scores)} parties by {selection.by}{reached}"
    echo(f"{chosen}\n{selection.evaluations} groups, {size(selection.bytes)}, {selection.seconds:.1f} CPU seconds")
    echo("\n".join(selection.opened))
