"""``colonnade predict RUN NAME=FILE ...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.align_command import aligning
from colonnade.cli.app import Json, Quiet, app, echo, print_json
from colonnade.errors import ConfigError


@app.command(epilog="Example: colonnade predict runs/credit bank=new-bank.csv card=new-card.csv --to scores.csv")
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that was trained on files.")],
    files: Annotated[
        list[str], typer.Argument(metavar="NAME=FILE...", help="A party's new file; name a party again for more.")
    ],
    to: Annotated[Path, typer.Option(metavar="FILE", help="Ids and scores, as .csv or .parquet.")],
    missing: Annotated[
        str | None, typer.Option(help="What stands for a party that does not know a row: zero, mean or refuse.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="How to align: psi or plain.", show_default="the job's")] = None,
    minimum: Annotated[
        int | None, typer.Option(help="Refuse fewer common ids than these.", show_default="the job's")
    ] = None,
    over_time: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scores by month as CSV, if the owner's new file has dates and labels."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to compute: cpu, cuda, mps or auto.", show_default="the run's")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score the rows of new files with a trained run; only the owner gets the scores."""
    from colonnade.jobs.table_sections import files_of
    from colonnade.run.train import resume
    from colonnade.study.score_files import score, who_will_learn
    from colonnade.study.scores import check_place
    from colonnade.study.scores_over_time import dated_owner, scores_over_time, write_over_time

    place, trained = check_place(to), resume(run, train=False, device=device)
    trained_on = files_of(trained.description)
    sheets = trained_on.read(_by_name(files))
    how, split = trained_on.align, trained_on.prepare.by_date
    dated = None if over_time is None else dated_owner(trained, sheets[0], trained_on.parties[0].label, split)
    mode = mode or how.mode or "psi"
    with aligning(who_will_learn(trained, sheets, mode, missing), quiet=quiet) as on_progress:
        scores = score(
            trained,
            sheets,
            mode=mode,
            missing=missing,
            minimum=(how.minimum or 1) if minimum is None else minimum,
            maximum=how.maximum,
            on_progress=on_progress,
        )
    scores.write(place)
    periods = [] if dated is None or split is None else scores_over_time(scores, dated, split)
    if over_time is not None:
        write_over_time(periods, over_time)
    if json:
        more = {} if over_time is None else {"over_time": periods}
        print_json({"rows": len(scores.ids), "notes": list(scores.notes), "to": str(place), **more})
    else:
        echo(f"{scores}\nwritten to {place}" + ("" if over_time is None else f" and {over_time}"))


def _by_name(files: list[str]) -> dict[str, list[str]]:
    by_party: dict[str, list[str]] = {}
    for entry in files:
        name, separator, path = entry.partition("=")
        if not (separator and name and path):
            raise ConfigError(f"{entry!r} came where NAME=FILE was expected; write, for instance, bank=new-bank.csv.")
        by_party.setdefault(name, []).append(path)
    return by_party
