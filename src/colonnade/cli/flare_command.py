"""``colonnade flare JOB.toml``: the same federation, on an NVIDIA FLARE that its organisations already run."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.app import Json, app, echo, print_json, say
from colonnade.cli.federation_command import LogFormat, ending
from colonnade.cli.train_command import tell
from colonnade.core.options import path_part
from colonnade.errors import ConfigError
from colonnade.federation.log_lines import log_to

if TYPE_CHECKING:
    from colonnade.federation.side_sections import OwnerFile


@app.command(epilog="Example: colonnade flare bank/job.toml --submit kits/admin@bank.example")
def flare(
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job, as the FLARE server has it too.")],
    export_to: Annotated[
        Path | None, typer.Option("--export", help="Write FLARE's job folder here, and submit nothing.", metavar="DIR")
    ] = None,
    submit: Annotated[
        Path | None, typer.Option(help="Submit it as the user of this startup kit.", metavar="STARTUP_KIT")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Where to put the results.", metavar="DIR")] = None,
    json: Json = False,
    log_format: LogFormat = "lines",
) -> None:
    """Train on NVIDIA FLARE: every party is a site, and the owner is at the server; follow it to its results."""
    from colonnade.federation.side_files import read_owner_file
    from colonnade.flare.job import export

    with ending():
        log_to(log_format)
        job_file = read_owner_file(job, tls=False)
        if (export_to is None) == (submit is None):
            raise ConfigError("give either --export DIR or --submit STARTUP_KIT, and not both.")
        if export_to is not None:
            echo(str(export(job_file, export_to)))
        elif submit is not None:
            _follow(
                job_file,
                submit,
                folder or Path(job_file.job.train.folder or f"runs/{path_part(job_file.job.name)}"),
                json=json,
            )


def _follow(job_file: OwnerFile, kit: Path, place: Path, *, json: bool) -> None:
    from colonnade.flare.job import export
    from colonnade.flare.submit import Submission, session

    with TemporaryDirectory() as draft, session(kit) as server:
        submission = Submission(server, list(job_file.others), job_file.federation.deadline, _note)
        outcome = submission.follow(export(job_file, Path(draft)), place)
    facts = {**outcome.result, "folder": str(place), "report": str(place / "report.html")}
    print_json(facts) if json else tell(facts)


def _note(sentence: str) -> None:
    say("flare:", sentence, style="bold")
