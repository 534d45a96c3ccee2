"""``colonnade train JOB.toml``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli.align import aligning, who_learns_of
from colonnade.cli.app import Json, app, err, print_json
from colonnade.cli.progress import bars, follow
from colonnade.config import Job, read_job
from colonnade.errors import FolderError
from colonnade.files import Files
from colonnade.jobs import Gathered, gather, resume_job, select_job, train_job
from colonnade.report import RunView, read_summary
from colonnade.report.words import metric, size
from colonnade.run import Run
from colonnade.select.result import Selection


@app.command(epilog="Example: colonnade train examples/job.toml --folder runs/first")
def train(
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file: data, method, model, optimiser.")],
    folder: Annotated[
        Path | None, typer.Option(help="The run folder.", show_default="runs/METHOD-DATA-SEED", metavar="DIR")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run folder left off.")] = False,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Train as a job file says; keep checkpoints, history, ledger and a report in a run folder."""
    what = read_job(job)
    place = folder or what.default_folder
    if not resume:
        _check_empty(place)
    gathered = _gather(what, place if resume else None, quiet=quiet)
    selection = None if resume or what.select is None else select_job(what, gathered)
    if selection is not None and not quiet:
        err.print(str(selection), highlight=False, markup=False, soft_wrap=True)
    command = f"colonnade train {shlex.quote(str(job))}"
    run = _train(what, gathered, place, selection, resume=resume, quiet=quiet, command=command)
    page = run.report(place / "report.html")
    facts = {**RunView(run.summary()).result, "folder": str(place), "report": str(page)}
    if selection is not None:
        facts["selection"] = selection.to_json()
    if json:
        print_json(facts)
    else:
        _tell(facts)


def _gather(job: Job, resumed: Path | None, *, quiet: bool) -> Gathered:
    """The job's tables; of files, with what each party learns from their alignment said first."""
    if not isinstance(job.data, Files):
        return gather(job)
    was = None if resumed is None else read_summary(resumed)["description"]
    with aligning(who_learns_of(job.data), quiet=quiet) as on_progress:
        found = gather(job, on_progress, was)
    if not quiet:
        for line in [str(found.alignment).splitlines()[0], *found.notes]:
            err.print(line, highlight=False, markup=False, soft_wrap=True)
    return found


def _train(
    job: Job,
    gathered: Gathered,
    folder: Path,
    selection: Selection | None,
    *,
    resume: bool,
    quiet: bool,
    command: str,
) -> Run:
    try:
        with bars(quiet=quiet) as progress:
            on_round = follow(progress, job.method.name)
            if resume:
                return resume_job(job, folder, on_round, gathered)
            return train_job(job, folder, on_round, selection, gathered)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"go on with: {command} --folder {shlex.quote(str(folder))} --resume") from None


def _check_empty(folder: Path) -> None:
    try:
        taken = folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise FolderError(f"the run folder {folder} cannot be read: {error.strerror}; choose another.") from None
    if taken:
        raise FolderError(f"the run folder {folder} is not empty; add --resume to go on there, or choose another.")


def _tell(facts: dict[str, Any]) -> None:
    scores = ", ".join(f"{name} {metric(name, value)}" for name, value in facts["metrics"].items())
    typer.echo(f"{facts['method']} on {facts['data']}: {scores} ({facts['measured_on']} rows)")
    typer.echo(f"{facts['rounds']} rounds, {size(facts['train_bytes'])} sent in training")
    typer.echo(f"run folder: {facts['folder']}\nreport:     {facts['report']}")
