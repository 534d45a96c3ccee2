"""``colonnade plan JOB.toml --link RATE,ROUNDTRIP``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from colonnade.cli.align_command import aligning, who_learns_of
from colonnade.cli.app import Json, Quiet, app, clean, echo, out, print_json
from colonnade.report.words import duration, size

if TYPE_CHECKING:
    from colonnade.jobs.job_file import Job
    from colonnade.study.cost.estimate import Cost, CostEstimate


@app.command(epilog="Example: colonnade plan examples/job.toml --link 100mbit,50ms")
def plan(
    job: Annotated[
        Path, typer.Argument(metavar="JOB.toml", help="The job file, with all parties' files or a data set.")
    ],
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="RATE,ROUNDTRIP", help="A line, such as 100mbit,50ms; may be given several times."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a job will cost over a line, before it is run: round trips, bytes, computing, seconds.

    A few rounds are rehearsed in this process, with the requests and replies of a federation. Nothing is kept.
    """
    from colonnade.jobs.job_file import read_job
    from colonnade.jobs.plan_job import assumptions
    from colonnade.study.cost.link import USUAL, link_of

    links = [link_of(text) for text in link] if link else list(USUAL)
    what = read_job(job)
    estimate = _estimate(what, quiet=quiet)
    costs = [estimate.over(line) for line in links]
    if json:
        facts = {"method": what.method.name, **estimate.to_json(), "links": [cost.to_json() for cost in costs]}
        print_json({**facts, "assumptions": assumptions(what)})
    else:
        _tell(what, estimate, costs)


def _estimate(job: Job, *, quiet: bool) -> CostEstimate:
    from colonnade.jobs.plan_job import plan_job
    from colonnade.jobs.table_sections import Files

    if not isinstance(job.data, Files):
        return plan_job(job)
    with aligning(who_learns_of(job.data), quiet=quiet) as on_progress:
        return plan_job(job, on_progress)


def _tell(job: Job, estimate: CostEstimate, costs: list[Cost]) -> None:
    from colonnade.jobs.plan_job import assumptions

    total = size(estimate.bytes)
    echo(f"{job.method.name}, {estimate.rounds} rounds at most: {estimate.trips} round trips, {total}")
    facts = estimate.to_json()["parts"]
    rows = [
        (
            part["name"],
            f"{part['times']}",
            f"{part['round_trips']}",
            size(part["bytes_down"]),
            size(part["bytes_up"]),
            duration(part["computing"]),
        )
        for part in facts
    ]
    _show(("part", "times", "round trips", "down", "up", "computing"), rows)
    seconds = [
        (str(cost.link), *map(duration, (cost.computing, cost.trips, cost.transfer, cost.seconds))) for cost in costs
    ]
    _show(("line", "computing", "round trips", "bytes on it", "in all"), seconds)
    echo("\n".join(assumptions(job)))


def _show(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(clean, row))
    out.print(table)
