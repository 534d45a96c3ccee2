"""``colonnade demo``: a complete example on data that come with scikit-learn, in under a minute."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from colonnade.cli.app import Json, app, out, print_json
from colonnade.cli.progress import bars, follow
from colonnade.disk.whole_files import make_folder
from colonnade.errors import FolderError
from colonnade.report.words import duration, percent, size

if TYPE_CHECKING:
    from colonnade.report.summary import RunView
    from colonnade.seal import Seal

EPOCHS = 30  # enough for the slowest of the methods, VAFL, with its default options
MADE_BY_A_RUN = {"checkpoints", "config.json", "history.csv", "ledger.csv"}
LOOK_EVERY = 1  # evaluate after every round, so that "rounds until" is exact

# Seeds 0 to 4 gave 9x to 26x at 95 %, but 3.5x to 13x at 96 %, so the table alone would promise too much.
CAVEAT = "This is one seed on one data set: the ratio moves with the seed, and shrinks as the goal rises."


@app.command(epilog="Example: colonnade demo --folder /tmp/colonnade-demo")
def demo(
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where runs and report go.")] = Path("colonnade-demo"),
    json: Json = False,
) -> None:
    """Train three methods on digits cut over four parties, one under seals, and compare what each had to send."""
    from colonnade.report.run_pages import write_report
    from colonnade.report.summary import RunView, read_summary

    places = {name: folder / name for name in _runs()}
    for place in places.values():
        _clear(place)
    make_folder(folder)
    try:
        _train_all(places)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("colonnade demo starts it again.") from None
    summaries = [read_summary(place) for place in places.values()]
    page = write_report(summaries, folder / "report.html")
    views = [RunView(summary) for summary in summaries]
    if json:
        print_json({**_comparison(views), "caveat": CAVEAT, "folder": str(folder), "report": str(page)})
    else:
        _tell(views, folder, page)


def _runs() -> dict[str, tuple[str, list[Seal]]]:
    """Each run's method and its seals."""
    from colonnade.seal import Bits, Blind, RandomLabels

    sealed: list[Seal] = [Blind(), Bits(4), RandomLabels(epsilon=4.0)]
    return {"vafl": ("vafl", []), "vimadmm": ("vimadmm", []), "vimadmm-j-sealed": ("vimadmm-j", sealed)}


def _train_all(places: dict[str, Path]) -> None:
    from colonnade.data import load
    from colonnade.run.train import train

    rows, test = load("digits", parties=4)
    with bars() as progress:
        for name, place in places.items():
            method, seal = _runs()[name]
            on_round = follow(progress, name)
            run = train(rows, method, epochs=EPOCHS, seal=seal, test=test, evaluate_every=LOOK_EVERY, on_round=on_round)
            run.save(place)  # once, because a checkpoint at every evaluation would take longer than the training


def _clear(place: Path) -> None:
    """Remove the files of an earlier demo, and nothing else."""
    if not place.exists():
        return
    try:
        if {entry.name for entry in place.iterdir()} <= MADE_BY_A_RUN:
            shutil.rmtree(place)
            return
    except OSError as error:
        raise FolderError(f"{place} cannot be removed: {error.strerror}; choose another --folder.") from None
    raise FolderError(f"{place} holds more than the run of an earlier demo; choose another --folder.")


def _comparison(views: list[RunView]) -> dict[str, Any]:
    from colonnade.report.summary import common_accuracy

    goal = common_accuracy(views) or 0.0
    ways = [view.reach(goal) or view.final for view in views]
    fewest = min(way["bytes"] for way in ways)
    runs = [
        {
            "name": view.name,
            **view.result,
            "rounds_to_goal": way["round"],
            "bytes_to_goal": way["bytes"],
            "ratio": way["bytes"] / fewest,
        }
        for view, way in zip(views, ways, strict=True)
    ]
    return {"goal": goal, "runs": runs}


def _tell(views: list[RunView], folder: Path, page: Path) -> None:
    from colonnade.report.run_words import what_left, what_shows

    comparison = _comparison(views)
    goal = percent(comparison["goal"], 0)
    table = Table("run", "accuracy", f"rounds to {goal}", f"sent to {goal}", "ratio", "computing", box=None)
    for run in comparison["runs"]:
        table.add_row(
            run["name"],
            percent(run["metrics"]["accuracy"]),
            str(run["rounds_to_goal"]),
            size(run["bytes_to_goal"]),
            f"{run['ratio']:.1f}x",
            duration(run["seconds"]),
        )
    typer.echo("\nFour parties hold two rows of every picture each; the owner holds the labels.\n")
    out.print(table)
    typer.echo(f"\n{CAVEAT}")
    typer.echo(f"\nWhat left the house in {EPOCHS} epochs:")
    for view in views:
        typer.echo(f"  {view.name}: {what_left(view)} {what_shows(view)}")
    typer.echo(f"\nreport: {page}\nruns:   {folder}")
