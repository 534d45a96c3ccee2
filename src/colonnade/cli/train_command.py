"""``colonnade train JOB.toml``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli.align_command import aligning, who_learns_of
from colonnade.cli.app import Json, Quiet, app, echo, err, print_json, remark
from colonnade.cli.live import live as live_view
from colonnade.cli.progress import bars, follow
from colonnade.cli.watch_command import watching
from colonnade.errors import FolderError, unknown
from colonnade.report.words import metric, size

if TYPE_CHECKING:
    from colonnade.jobs.job_file import Job
    from colonnade.jobs.run_job import Gathered
    from colonnade.run.loggers import Logger, OnRound
    from colonnade.run.training import Run
    from colonnade.selection.choice import Selection


@app.command(epilog="Example: colonnade train examples/job.toml --folder runs/first")
def train(
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file: data, method, model, optimiser.")],
    folder: Annotated[
        Path | None, typer.Option(help="The run folder.", show_default="runs/METHOD-DATA-SEED", metavar="DIR")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run folder left off.")] = False,
    json: Json = False,
    quiet: Quiet = False,
    live: Annotated[bool, typer.Option("--live", help="Show speed, score and each party's bytes, not a bar.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Serve a page that follows the run, to this machine.")] = False,
    log: Annotated[
        list[str] | None, typer.Option(metavar="TOOL", help="Log to tensorboard or mlflow; may be given twice.")
    ] = None,
) -> None:
    """Train as a job file says; keep checkpoints, history, ledger and a report in a run folder."""
    from colonnade.jobs.job_file import read_job
    from colonnade.jobs.run_job import select_job
    from colonnade.report.summary import RunView

    what = read_job(job)
    place = folder or what.default_folder
    loggers = _loggers(log or [], place)
    if not resume:
        _check_empty(place)
    gathered = _gather(what, place if resume else None, quiet=quiet)
    selection = None if resume or what.select is None else select_job(what, gathered)
    if selection is not None and not quiet:
        remark(str(selection))
    followers = _followers(what.method.name, place, loggers, live=live, watch=watch, quiet=quiet)
    run = _train(what, gathered, place, selection, followers, resume=resume, command=_command(job, place))
    page = run.report(place / "report.html")
    facts = {**RunView(run.summary()).result, "folder": str(place), "report": str(page)}
    if selection is not None:
        facts["selection"] = selection.to_json()
    if json:
        print_json(facts)
    else:
        tell(facts)


def _gather(job: Job, resumed: Path | None, *, quiet: bool) -> Gathered:
    """The job's tables; with files, first print what each party learns from their alignment."""
    from colonnade.jobs.run_job import gather
    from colonnade.jobs.table_sections import Files
    from colonnade.report.summary import read_summary

    if not isinstance(job.data, Files):
        return gather(job)
    was = None if resumed is None else read_summary(resumed)["description"]
    with aligning(who_learns_of(job.data), quiet=quiet) as on_progress:
        tables = gather(job, on_progress, was)
    if not quiet:
        for line in [str(tables.alignment).splitlines()[0], *tables.notes]:
            remark(line)
    return tables


def _train(
    job: Job,
    gathered: Gathered,
    folder: Path,
    selection: Selection | None,
    followers: AbstractContextManager[OnRound],
    *,
    resume: bool,
    command: str,
) -> Run:
    from colonnade.jobs.run_job import resume_job, train_job

    try:
        with redirect_stdout(sys.stderr), followers as on_round:  # Ray prints the output of its nodes to stdout
            if resume:
                return resume_job(job, folder, on_round, gathered)
            return train_job(job, folder, on_round, selection, gathered)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"go on with: {command} --resume") from None


def _command(job: Path, folder: Path) -> str:
    return f"colonnade train {shlex.quote(str(job))} --folder {shlex.quote(str(folder))}"


def _loggers(names: list[str], folder: Path) -> list[Logger]:
    """The loggers of --log; made before training, so that a missing package is reported at once."""
    from colonnade.run.loggers import MLflow, TensorBoard

    known: dict[str, Callable[[], Logger]] = {
        "tensorboard": lambda: TensorBoard(folder / "tensorboard"),
        "mlflow": lambda: MLflow(name=folder.name),
    }
    for name in names:
        if name not in known:
            raise unknown("logger", name, known)
    return [known[name]() for name in dict.fromkeys(names)]


@contextmanager
def _followers(
    label: str, folder: Path, loggers: list[Logger], *, live: bool, watch: bool, quiet: bool
) -> Iterator[OnRound]:
    """One ``on_round`` function for the bar or the live view and for the loggers; also serves the page."""
    from colonnade.run.loggers import together

    with ExitStack() as stack:
        for logger in loggers:
            stack.callback(logger.close)
        if watch:
            stack.enter_context(watching(folder))
        if live and not quiet:
            shown = stack.enter_context(live_view(label, err))
        else:
            shown = follow(stack.enter_context(bars(quiet=quiet)), label)
        yield together(shown, *loggers)


def _check_empty(folder: Path) -> None:
    try:
        taken = folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise FolderError(f"the run folder {folder} cannot be read: {error.strerror}; choose another.") from None
    if taken:
        raise FolderError(f"the run folder {folder} is not empty; add --resume to go on there, or choose another.")


def tell(facts: dict[str, Any]) -> None:
    """Print the result of a run for people."""
    scores = ", ".join(f"{name} {metric(name, value)}" for name, value in facts["metrics"].items())
    echo(f"{facts['method']} on {facts['data']}: {scores} ({facts['measured_on']} rows)")
    cores = f", parties computed on {facts['cores']} cores at once" if facts["cores"] > 1 else ""
    echo(f"{facts['rounds']} rounds, {size(facts['train_bytes'])} sent in training{cores}")
    for name, rounds in facts["missed"].items():
        echo(f"'{name}' was absent from {rounds} of them")
    echo(f"run folder: {facts['folder']}\nreport:     {facts['report']}")
