"""``colonnade owner JOB.toml`` and ``colonnade party PARTY.toml``: a federation's sides, each in its own process."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli.align_command import aligning
from colonnade.cli.app import Json, Quiet, app, echo, print_json, say
from colonnade.cli.progress import bars, follow
from colonnade.cli.train_command import tell
from colonnade.core.options import path_part
from colonnade.errors import ColonnadeError, ConfigError
from colonnade.federation.exit_codes import exit_of
from colonnade.federation.log_lines import log_to

if TYPE_CHECKING:
    from colonnade.federation.owner_description import OwnerDescription
    from colonnade.federation.owner_process import OwnerProcess
    from colonnade.federation.prediction import Prediction
    from colonnade.federation.prometheus import Metrics
    from colonnade.federation.side_sections import OwnerFile
    from colonnade.run.training import Run

log = logging.getLogger(__name__)
JSON = "json"
LogFormat = Annotated[str, typer.Option("--log-format", help="How to log on stderr: lines or json.", metavar="HOW")]
MetricsPort = Annotated[
    int | None, typer.Option("--metrics-port", help="Serve Prometheus metrics to this machine at this port.")
]


@app.command(epilog="Example: colonnade owner examples/federation/clinic/job.toml --folder runs/together")
def owner(
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job, with the owner's own files.")],
    folder: Annotated[Path | None, typer.Option(help="The run folder.", metavar="DIR")] = None,
    json: Json = False,
    quiet: Quiet = False,
    predict: Annotated[
        list[str] | None, typer.Option(help="Score this new file with the run's model; may be given twice.")
    ] = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Ids and scores, as .csv or .parquet.")] = None,
    show_terms: Annotated[bool, typer.Option("--terms", help="Print the terms that all will sign, and leave.")] = False,
    log_format: LogFormat = "lines",
    metrics_port: MetricsPort = None,
) -> None:
    """Lead a federation: wait for its parties, align, train; in a folder with checkpoints, go on from there."""
    from colonnade.federation.extended_job import job_terms
    from colonnade.federation.owner_process import OwnerProcess
    from colonnade.federation.side_files import read_owner_file
    from colonnade.report.summary import RunView

    with one_side(log_format, metrics_port) as metrics:
        quiet = quiet or log_format == JSON  # a reader of the JSON log expects nothing else on that stream
        job_file = read_owner_file(job)
        if show_terms:
            print_json(job_terms(job_file))
            return
        place = folder or Path(job_file.job.train.folder or f"runs/{path_part(job_file.job.name)}")
        if predict or to:
            _predict(job_file, place, predict or [], to, metrics, quiet=quiet)
            return
        host = OwnerProcess(job_file, place, metrics)
        try:
            summary = host.finished() or _lead(host, job_file.job.method.name, quiet=quiet).summary()
        finally:
            host.close()
        facts = {**RunView(summary).result, "folder": str(place), "report": str(place / "report.html")}
        print_json(facts) if json else tell(facts)


def _predict(
    job_file: OwnerFile, folder: Path, files: list[str], to: Path | None, metrics: Metrics, *, quiet: bool
) -> None:
    """Score new rows that all sides have."""
    from colonnade.federation.prediction import Prediction
    from colonnade.study.scores import check_place

    if not files or to is None:
        raise ConfigError(
            "a prediction needs the owner's new file and a place for its scores; give --predict and --to."
        )
    where = check_place(to)
    host = Prediction(job_file, folder, files, metrics)
    try:
        scores = host.earlier()
        if scores is None:
            gather_all(host, quiet=quiet)
            scores = host.score()
    finally:
        host.close()
    scores.write(where)
    host.unfinished.finish()
    echo(f"{scores}\nwritten to {where}")


def _lead(host: OwnerProcess, method: str, *, quiet: bool) -> Run:
    """Train; print the terms of all sides first, and then show progress."""
    gather_all(host, quiet=quiet)
    with bars(quiet=quiet) as shown:
        return host.train(follow(shown, method))


def gather_all(host: OwnerProcess | Prediction | OwnerDescription, *, quiet: bool) -> None:
    """Print what each side will learn, and align the rows of all sides."""
    if quiet:
        log.info("the terms of '%s': %s", host.terms["job"], " ".join(host.terms["learns"]))
    with aligning(tuple(host.terms["learns"]), quiet=quiet) as on_progress:
        host.gather(on_progress)


@app.command(epilog="Example: colonnade party examples/federation/lab/party.toml --folder runs/lab")
def party(
    party_file: Annotated[Path, typer.Argument(metavar="PARTY.toml", help="What this party brings and allows.")],
    folder: Annotated[Path | None, typer.Option(help="Where this party keeps its states and logs.")] = None,
    log_format: LogFormat = "lines",
    metrics_port: MetricsPort = None,
) -> None:
    """Take part in a federation with one's own columns, as far as PARTY.toml allows; ends when the job does."""
    from colonnade.federation.job_folder import only_process_in
    from colonnade.federation.party_process import PartyProcess
    from colonnade.federation.side_files import read_party_file

    with one_side(log_format, metrics_port) as metrics:
        what = read_party_file(party_file)
        place = folder or Path("runs") / f"party-{path_part(what.party.name)}"
        with only_process_in(place):
            PartyProcess(what, place, metrics).run()


@contextmanager
def one_side(log_format: str, metrics_port: int | None) -> Iterator[Metrics]:
    """Set up the logs, metrics, signals and exit code of one side."""
    from colonnade.federation.prometheus import Metrics, MetricsServer
    from colonnade.report.local_server import in_background

    metrics = Metrics()
    with ending(metrics, as_json=log_format == JSON):
        log_to(log_format)
        server = None if metrics_port is None else MetricsServer(metrics, metrics_port, ails=metrics.ails)
        with nullcontext() if server is None else in_background(server):
            yield metrics


@contextmanager
def ending(metrics: Metrics | None = None, *, as_json: bool = False) -> Iterator[None]:
    """Print the sentence and set the exit code for the error that ends a side."""
    signal.signal(signal.SIGTERM, _interrupt)  # a service that is stopped ends as after Ctrl-C
    try:
        yield
    except (ColonnadeError, KeyboardInterrupt) as error:
        words = str(error) or "interrupted; start it again to go on."
        if metrics is not None:
            metrics.fault(exit_of(error).cause)
        if as_json:
            log.error("%s", words, extra={"exit": int(exit_of(error)), "cause": exit_of(error).cause})
        else:
            say("error:" if isinstance(error, ColonnadeError) else "stopped:", words, style="bold red")
        raise typer.Exit(int(exit_of(error))) from None


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
