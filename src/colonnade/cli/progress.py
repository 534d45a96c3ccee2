"""Progress of long work on stderr: one bar per run or alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from colonnade.cli.app import err
from colonnade.report.words import metric, size

if TYPE_CHECKING:
    from colonnade.run.training import Run

NARROW = 80  # columns; on a narrower terminal a bar has no room for facts
WIDE = 100  # from here on there is room for a long bar, and for epochs beside rounds


@contextmanager
def bars(*, quiet: bool = False) -> Iterator[Progress]:
    """An area for progress bars, which appears with the first of them."""
    narrow = err.width < NARROW
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=10 if err.width < WIDE else 24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}" if narrow else "{task.fields[unit]}  {task.fields[facts]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=err,
        disable=quiet,
    )
    try:
        yield progress
    finally:
        if progress.live.is_started:  # otherwise stopping would print an empty line
            progress.stop()


def follow(progress: Progress, label: str) -> Callable[[Run], None]:
    """A bar for one run; the returned function is to be called as ``on_round``."""
    tasks: list[TaskID] = []

    def on_round(run: Run) -> None:
        if not tasks:  # only now it is known where the run starts and ends
            progress.start()
            tasks.append(
                progress.add_task(label, total=run.settings.rounds, completed=run.round, facts="", unit="rounds")
            )
        progress.update(tasks[0], completed=run.round, facts=_facts(run))

    return on_round


@contextmanager
def counted(label: str, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for countable work; the yielded function is to be called as ``on_progress(done, in_all)``."""
    with bars() as progress:
        tasks: list[TaskID] = []

        def on_progress(done: int, in_all: int) -> None:
            if not tasks:
                progress.start()
                tasks.append(progress.add_task(label, total=in_all, facts="", unit=what))
            progress.update(tasks[0], completed=done, total=in_all)

        yield on_progress


def score_in(row: dict[str, float], name: str) -> float | None:
    """The score of an evaluation on the test rows, else on the held-out rows."""
    return row.get(f"test_{name}", row.get(f"valid_{name}"))


def _facts(run: Run) -> str:
    epoch = [f"epoch {run.round / run.schedule.rounds_per_epoch:.1f}"] if err.width >= WIDE else []
    facts = [*epoch, size(run.ledger.bytes_for("train"))]
    name = run.task.score
    score = score_in(run.history[-1], name) if run.history else None
    facts += [f"{name} {metric(name, score)}"] if score is not None else []
    cores = run.parties.backend.cores
    return "  ".join([*facts, *([f"{cores} cores"] if cores > 1 else [])])
