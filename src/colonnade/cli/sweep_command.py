"""``colonnade sweep JOB.toml --over KEY=VALUES``."""

from __future__ import annotations

import json as plain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli.app import Json, Quiet, app, echo, print_json, remark
from colonnade.errors import ConfigError

if TYPE_CHECKING:
    from colonnade.study.sweep.sweep_table import Row

WORDS = {"true": True, "false": False, "none": None}


@app.command(epilog="Example: colonnade sweep examples/job.toml --over rho=0.5,1,2 --over seed=0,1,2 --folder runs/rho")
def sweep(
    job: Annotated[
        Path, typer.Argument(metavar="JOB.toml", help="The job file; a point is the job with other values.")
    ],
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where points are kept; the same command goes on there.")],
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUES", help="What to change: rho=0.5,1,2 or lr=0.0001..0.01; once per key."),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Search with so many runs, instead of all combinations.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Begin no run of a search after so many seconds.")] = None,
    search: Annotated[str | None, typer.Option(help="How to search: random or optuna.")] = None,
    processes: Annotated[int, typer.Option(help="How many runs at a time.")] = 2,
    mean: Annotated[str | None, typer.Option(metavar="KEY", help="Show means over this key, such as seed.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a job once for every combination of some values, or search them; keep every point, show one table."""
    from colonnade.jobs.job_file import read_job
    from colonnade.jobs.run_job import sweep_job

    values = dict(map(_values, over or ()))
    if len(values) < len(over or ()):
        raise ConfigError(f"--over names a key twice among {', '.join(over or ())}; give each key once.")

    def on_point(row: Row) -> None:
        if not quiet:
            named = list(row)[: list(row).index("error" if "error" in row else "round")]
            point = ", ".join(f"{key}={row[key]}" for key in named)
            scores = [f"{name} {value:.4f}" for name, value in row.items() if name.startswith(("test_", "valid_"))]
            outcome = row.get("error") or ", ".join([*scores, f"{row['seconds']:.1f} s"])
            remark(f"{point}: {outcome}")

    how = {"budget": budget, "seconds": seconds, "search": search}
    points = sweep_job(read_job(job), values, folder=folder, processes=processes, on_point=on_point, **how)
    table = points.to_csv(folder / "points.csv")
    shown = points if mean is None else points.mean_over(mean)
    if json:
        chosen = {} if points.method is None else {"chosen": points.chosen, "judge": points.judge}
        print_json({"rows": shown.rows, "folder": str(folder), "table": str(table), **chosen})
    else:
        echo(f"{shown}\ntable: {table}" + ("" if points.method is None else f"\n{points.advice}"))


def _values(text: str) -> tuple[str, list[Any]]:
    key, sign, values = text.partition("=")
    if not (key and sign and values):
        raise ConfigError(f"--over {text!r} is not KEY=VALUES; write rho=0.5,1,2, for instance.")
    return key, [value_of(value.strip()) for value in values.split(",")]


def value_of(text: str) -> Any:
    """A number if it is one, true, false, none, or the text itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        value = plain.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text
