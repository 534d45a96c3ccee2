"""``colonnade audit-log verify LOG [LOG2]``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.app import Json, app, print_json
from colonnade.errors import ConfigError
from colonnade.federation.log_lines import one_line

if TYPE_CHECKING:
    from colonnade.federation.audit_check import LogVerdict

BROKEN = 1

logs = typer.Typer(help="Look at the audit logs of a federation.", no_args_is_help=True)
app.add_typer(logs, name="audit-log")


@logs.command(epilog="Example: colonnade audit-log verify bank/audit.jsonl shop/audit.jsonl --json")
def verify(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="One side's log.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(metavar="LOG2", help="Another side's log of the same job.", show_default=False)
    ] = None,
    key: Annotated[
        list[Path] | None,
        typer.Option(metavar="PUB", help="The side's public key or certificate; once per log, in their order."),
    ] = None,
    json: Json = False,
) -> None:
    """Check that logs are as they were written, and that two of one job agree; exit code 1 if not."""
    from colonnade.federation.audit_check import compare
    from colonnade.federation.audit_check import verify as verify_log
    from colonnade.federation.public_keys import read_public

    paths = [log] if other is None else [log, other]
    if key and len(key) != len(paths):
        raise ConfigError(
            f"{len(key)} keys came for {len(paths)} logs; give one --key per log, in their order, or none."
        )
    keys = [read_public(path) for path in key] if key else [None] * len(paths)
    verdicts = [verify_log(path, public) for path, public in zip(paths, keys, strict=True)]
    whole = all(verdict.whole for verdict in verdicts)
    differences = compare(log, other) if other is not None and whole else []
    if json:
        facts = [{**asdict(verdict), "whole": verdict.whole} for verdict in verdicts]
        compared = other is not None and whole
        print_json({"logs": facts, "compared": compared, "differences": differences})
    else:
        for verdict in verdicts:
            typer.echo(one_line(_sentence(verdict)))
        for difference in differences:
            typer.echo(one_line(difference))
        if other is not None and whole and not differences:
            typer.echo("The two logs agree on every message between them.")
    if not whole or differences:
        raise typer.Exit(BROKEN)


def _sentence(verdict: LogVerdict) -> str:
    if not verdict.whole:
        return f"{verdict.path}: broken; line {verdict.broken} {verdict.why}."
    end = {
        (True, True): "sealed by this key",
        (True, False): "sealed; give --key to check by whom",
        (False, False): "not sealed, so lines may be missing at its end",
    }[verdict.sealed, verdict.signed]
    return f"{verdict.path}: whole; {verdict.entries} lines of '{verdict.side}' in job '{verdict.job}', {end}."
