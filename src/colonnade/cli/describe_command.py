"""``colonnade describe JOB.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from colonnade.cli.align_command import aligning, who_learns_of
from colonnade.cli.app import Json, Quiet, app, clean, echo, out, print_json
from colonnade.cli.federation_command import JSON, LogFormat, MetricsPort, gather_all, one_side
from colonnade.core.options import path_part
from colonnade.disk.whole_files import make_folder, write_text
from colonnade.errors import ConfigError, RefusedError
from colonnade.report.words import size

if TYPE_CHECKING:
    from colonnade.description.description_result import Description
    from colonnade.federation.owner_description import OwnerDescription
    from colonnade.federation.side_sections import OwnerFile
    from colonnade.jobs.job_file import Job
    from colonnade.jobs.run_job import Gathered


@app.command(epilog="Example: colonnade describe examples/describe.toml --bins")
def describe(
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file; its [describe] says how.")],
    bins: Annotated[bool, typer.Option("--bins", help="Show every column's bins, too.")] = False,
    csv: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write columns.csv and bins.csv to this folder.")
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one HTML page.")] = None,
    json: Json = False,
    quiet: Quiet = False,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Between organisations: where the owner keeps this description.")
    ] = None,
    show_terms: Annotated[
        bool, typer.Option("--terms", help="Between organisations: print the terms that all will sign, and leave.")
    ] = False,
    log_format: LogFormat = "lines",
    metrics_port: MetricsPort = None,
) -> None:
    """Say what every party's columns tell about the labels, from sums per bin; train nothing.

    A job with [federation] is led between organisations: `colonnade party` takes part, if its [describe] allows it.
    """
    from colonnade.federation.owner_description import OwnerDescription
    from colonnade.federation.terms import description_terms
    from colonnade.jobs.job_file import parse_toml, read_job
    from colonnade.jobs.run_job import describe_job

    if "federation" not in parse_toml(job):
        if folder is not None or show_terms:
            raise ConfigError(f"--folder and --terms are for a job between organisations; {job} has no [federation].")
        what = read_job(job)
        found, name = describe_job(what, _gathered(what, quiet=quiet)), what.name
    else:
        with one_side(log_format, metrics_port) as metrics:
            job_file = _owner_file(job)
            if show_terms:
                print_json(description_terms(job_file))
                return
            name = job_file.job.name
            place = folder or Path(f"runs/{path_part(name)}-described")
            found = _led(OwnerDescription(job_file, place, metrics), quiet=quiet or log_format == JSON)
    _write(found, name, csv, page)
    if json:
        print_json(found.to_json())
    else:
        _show(found, bins=bins)


def _owner_file(job: Path) -> OwnerFile:
    """The owner's job; one that has no certificates may be meant for FLARE, where nothing is described."""
    from colonnade.federation.side_files import read_owner_file

    try:
        return read_owner_file(job)
    except RefusedError as error:
        raise RefusedError(
            f"{error} A description travels over TLS with certificates of the sides' own; on FLARE it is not offered."
        ) from None


def _led(host: OwnerDescription, *, quiet: bool) -> Description:
    """Lead a description between organisations; one that ended before is read from its folder."""
    try:
        found = host.finished()
        if found is None:
            gather_all(host, quiet=quiet)
            found = host.describe()
        return found
    finally:
        host.close()


def _write(found: Description, title: str, csv: Path | None, page: Path | None) -> None:
    if csv is not None:
        folder = make_folder(csv)
        for table in ("columns", "bins"):
            write_text(folder / f"{table}.csv", found.to_csv(table))
    if page is not None:
        from colonnade.report.description_page import description_page

        make_folder(page.parent)
        write_text(page, description_page(found, title))


def _gathered(job: Job, *, quiet: bool) -> Gathered:
    from colonnade.jobs.run_job import gather
    from colonnade.jobs.table_sections import Files

    if not isinstance(job.data, Files):
        return gather(job)
    with aligning(who_learns_of(job.data), quiet=quiet) as on_progress:
        return gather(job, on_progress)


def _show(found: Description, *, bins: bool) -> None:
    head, *lines = found.lines()
    _print_table(list(head), [list(line) for line in lines])
    for column in found.strongest if bins else ():
        echo(f"\n{column.column} of {column.party} against {column.target}")
        rows = [
            [one.title, f"{one.rows:,}", *([_number(one.mean)] if one.positives is None else [
                f"{one.positives:,}", _number(one.woe)])]
            for one in column.bins
        ]  # fmt: skip
        _print_table(["bin", "rows", "mean"] if len(rows[0]) == 3 else ["bin", "rows", "positives", "WoE"], rows)
    echo(f"\n{found.rows:,} rows, {size(found.bytes)}, {found.seconds:.1f} CPU seconds")
    echo("\n".join([*found.notes, *found.opened]))


def _print_table(head: list[str], rows: list[list[str]]) -> None:
    table = Table(*head, box=None, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*(clean(cell).replace("[", r"\[") for cell in row))
    out.print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
