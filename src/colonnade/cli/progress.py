"""Progress of training runs on stderr: one bar per run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from colonnade.cli.app import err
from colonnade.report.words import metric, size
from colonnade.run import Run


@contextmanager
def bars(*, quiet: bool = False) -> Iterator[Progress]:
    """A place for bars, which appears with the first of them."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("rounds  {task.fields[facts]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=err,
        disable=quiet,
    )
    try:
        yield progress
    finally:
        if progress.live.is_started:  # else stopping would still print an empty line
            progress.stop()


def follow(progress: Progress, label: str) -> Callable[[Run], None]:
    """A bar for one run, moved by what this gives to ``on_round``."""
    tasks: list[TaskID] = []

    def on_round(run: Run) -> None:
        if not tasks:  # only now is it known where the run starts and ends
            progress.start()
            tasks.append(progress.add_task(label, total=run.settings.rounds, completed=run.round, facts=""))
        progress.update(tasks[0], completed=run.round, facts=_facts(run))

    return on_round


def _facts(run: Run) -> str:
    facts = [f"epoch {run.round / run.schedule.rounds_per_epoch:.1f}", size(run.ledger.bytes_for("train"))]
    latest = run.history[-1] if run.history else {}
    name = run.task.score
    score = latest.get(f"test_{name}", latest.get(f"valid_{name}"))
    return "  ".join([*facts, *([f"{name} {metric(name, score)}"] if score is not None else [])])
