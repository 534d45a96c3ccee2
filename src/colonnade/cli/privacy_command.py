"""``colonnade audit RUN``: measure what a run's messages give away, or what those of a planned job would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli.app import Json, app, echo, print_json, remark
from colonnade.cli.progress import bars, counted, follow
from colonnade.cli.sweep_command import value_of
from colonnade.errors import ConfigError, unknown
from colonnade.privacy.clock import BUDGET

if TYPE_CHECKING:
    from colonnade.jobs.audit_job import Rehearsal
    from colonnade.privacy.audit import Progress
    from colonnade.privacy.audit_result import Audit

FAILED = 3
"""Exit code: what --fail-on names was found."""
DISPROVED = 4
"""Exit code: canaries prove more epsilon than a seal grants."""


@app.command(
    epilog="Examples: colonnade audit runs/credit --job job.toml --fail-on undeclared    "
    "colonnade audit --method splitnn --data credit_default --rows 5000"
)
def audit(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="A run folder, or a side's job folder; without it, a rehearsal."),
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="The job of a run on files, or the own file of a side."),
    ] = None,
    method: Annotated[str | None, typer.Option(metavar="M", help="Rehearse: train this method, then audit it.")] = None,
    data: Annotated[str | None, typer.Option(metavar="D", help="Rehearse: on this named data set.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rehearse: on so many rows of it.")] = None,
    parties: Annotated[int | None, typer.Option(help="Rehearse: cut over so many parties.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Rehearse: for so many epochs.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Rehearse: with this option of the method.")
    ] = None,
    seal: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND[:KEY=VALUE,...]", help="Rehearse: with this seal, such as bits:bits=4."),
    ] = None,
    budget: Annotated[
        float, typer.Option(help="CPU seconds for the attacks; what does not fit is not tested.")
    ] = BUDGET,
    attack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this attack; may be given several times.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything that is drawn.")] = 0,
    fail_on: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Exit code 3 if something is undeclared, or read, leaks or hints."),
    ] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Attack a run's recorded messages, each attack beside its control, and give a verdict for every secret.

    The verdicts are read, leaks, hints, not decided, nothing found, not tested. A run that was not recorded is
    replayed: it is trained once more. The folder of one side of a federation with record = true in [audit] is
    audited with that side's own table, and compared with the signed terms. The result is kept as audit.json in the
    folder, for its report.
    Exit code 3: --fail-on was met. Exit code 4: canaries prove more epsilon than a seal grants.
    """
    from colonnade.privacy.audit import checked_budget, chosen_attacks
    from colonnade.privacy.audit_result import FAILS_ON

    if fail_on is not None and fail_on not in FAILS_ON:
        raise unknown("word of --fail-on", fail_on, FAILS_ON)
    chosen_attacks(attack or None)  # before hours of training
    checked_budget(budget)
    how = {"budget": budget, "attacks": attack or None, "seed": seed}
    planned: dict[str, Any] = {"method": method, "data": data, "rows": rows, "parties": parties, "epochs": epochs}
    planned |= {"option": option, "seal": seal}
    if run is None:
        rehearsal = _rehearsal(planned, job, seed)
        with bars(quiet=quiet) as progress:
            trained = rehearsal.train(follow(progress, rehearsal.method.name))
        with _attacks(quiet=quiet) as on_progress:
            found = rehearsal.audit(trained, on_progress, **how)
    else:
        _check_no_plan(planned)
        with _attacks(quiet=quiet) as on_progress:
            found = _of_folder(run, job, on_progress, how)
    tell(found, json=json, quiet=quiet)
    _leave(found, fail_on)


def _of_folder(folder: Path, job: Path | None, on_progress: Progress | None, how: dict[str, Any]) -> Audit:
    """The audit of a run folder, or of the folder of one side of a federation."""
    from colonnade.federation.side_audit import audit_side, is_of_a_side
    from colonnade.jobs.audit_job import audit_run
    from colonnade.jobs.job_file import read_job

    if is_of_a_side(folder):
        return audit_side(folder, job, on_progress, **how)
    return audit_run(folder, None if job is None else read_job(job), on_progress, **how)


def tell(found: Audit, *, json: bool, quiet: bool) -> None:
    """Print what an audit found."""
    if json:
        print_json(found.to_json())
    else:
        echo(str(found))
        if found.written and not quiet:
            shown = "" if found.written.endswith(".html") else "; colonnade report shows it"
            remark(f"written to {found.written}{shown}")


def _leave(found: Audit, fail_on: str | None) -> None:
    if found.disproved:
        raise typer.Exit(DISPROVED)
    if fail_on is not None and found.fails(fail_on):
        raise typer.Exit(FAILED)


@contextmanager
def _attacks(*, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    if quiet:
        yield None
        return
    with counted("audit", "attacks") as on_progress:
        yield on_progress


def _rehearsal(planned: dict[str, Any], job: Path | None, seed: int) -> Rehearsal:
    """The training to rehearse: of a job file, or of a method on a named data set."""
    from colonnade.jobs.audit_job import Rehearsal
    from colonnade.jobs.job_file import read_job

    if job is not None:
        _check_no_plan(planned)
        return Rehearsal.of_job(read_job(job))
    if planned["method"] is None or planned["data"] is None:
        raise ConfigError("nothing to audit came; give a run folder, a --job, or --method and --data to rehearse one.")
    options = dict(_pair(text, "--option") for text in planned["option"] or ())
    seals = [_seal(text) for text in planned["seal"] or ()]
    load = {key: planned[key] for key in ("rows", "parties") if planned[key] is not None}
    return Rehearsal.of_method(
        planned["method"], options, seals, {"load": planned["data"], **load}, planned["epochs"], seed
    )


def _check_no_plan(planned: dict[str, Any]) -> None:
    given = [f"--{name}" for name, value in planned.items() if value]
    if given:
        raise ConfigError(f"{given[0]} is about a rehearsal by --method and --data; leave it out with a run or a job.")


def _seal(text: str) -> dict[str, Any]:
    kind, _, options = text.partition(":")
    return {"kind": kind, **dict(_pair(one, "--seal") for one in options.split(",") if one)}


def _pair(text: str, flag: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not (key and sign and value):
        raise ConfigError(f"{flag} {text!r} is not KEY=VALUE; write rho=0.5, for instance.")
    return key.strip(), value_of(value.strip())
