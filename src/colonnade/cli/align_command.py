"""``colonnade align JOB.toml``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.app import Json, Quiet, app, echo, print_json, remark
from colonnade.cli.progress import counted
from colonnade.core.options import path_part
from colonnade.disk.whole_files import make_folder, write_text
from colonnade.errors import ConfigError

if TYPE_CHECKING:
    from colonnade.jobs.job_file import Job
    from colonnade.jobs.table_sections import Files, Progress
    from colonnade.tables.sheets import Sheet


@app.command(epilog="Example: colonnade align examples/credit/job.toml")
def align(
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file, with a [[party]] for each.")],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each party's row numbers there, one CSV a party.")
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Only show what each party's columns were taken for.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the rows that all parties of a job have in common, privately; train nothing."""
    from colonnade.jobs.job_file import read_job

    what = read_job(job)
    files = files_of_job(what, job)
    sheets = files.read()
    if columns:
        _show_columns(sheets, json=json)
        return
    with aligning(who_learns_of(files), quiet=quiet) as on_progress:
        alignment = files.aligned(sheets, what.train.seed, on_progress)
    if folder is not None:
        place = make_folder(folder)
        for name, rows in alignment.rows.items():
            write_text(place / f"{path_part(name)}.csv", "\n".join(["row", *map(str, rows.tolist())]) + "\n")
    if json:
        print_json(alignment.to_json())
    else:
        echo(str(alignment))


def _show_columns(sheets: Sequence[Sheet], *, json: bool) -> None:
    if json:
        print_json({sheet.name: sheet.kinds for sheet in sheets})
        return
    for sheet in sheets:
        echo(f"{sheet.name}: {sheet.rows:,} rows\n{sheet.describe()}\n")


def files_of_job(job: Job, path: Path) -> Files:
    """The job's files, or an error if it has none."""
    from colonnade.jobs.table_sections import Files

    if not isinstance(job.data, Files):
        raise ConfigError(f"{path} loads a named data set, whose rows are aligned; write a [[party]] for every file.")
    return job.data


def who_learns_of(files: Files) -> tuple[str, ...]:
    """What each side will learn from the alignment of a job's files, and from a split by date."""
    from colonnade.tables.align.alignment import who_learns

    names, split = [party.name for party in files.parties], files.prepare.by_date
    aligning = who_learns(files.align.mode or "psi", names, files.align.join or "inner")
    return (*aligning, *(() if split is None else (split.learns(names[0]),)))


@contextmanager
def aligning(sentences: Sequence[str], *, quiet: bool) -> Iterator[Progress | None]:
    """Print what each side will learn, then show the progress of masking ids."""
    if quiet:
        yield None
        return
    for sentence in sentences:
        remark(sentence)
    with counted("aligning", "ids") as progress:
        yield progress
