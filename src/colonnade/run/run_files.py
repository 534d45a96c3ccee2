"""A run in its folder: checkpoints, history, ledger, budgets, and what a report reads."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.core.state import Packed
from colonnade.disk.whole_files import make_folder, write_text
from colonnade.errors import CheckpointError
from colonnade.runtime.remote.remote_party import KEPT
from colonnade.store import checkpoint
from colonnade.store.budget_file import is_written, load_budgets, save_budgets
from colonnade.store.preparation_files import write_preparations
from colonnade.store.run_folder import check_vacant, history_csv, run_name
from colonnade.store.view_files import ViewFolder, ViewIndex, has_view, read_view
from colonnade.wire.witness import Witness

if TYPE_CHECKING:
    from colonnade.run.training import Run


def facts_of(run: Run) -> dict[str, Any]:
    """What a checkpoint says of its run beside the states, as plain data."""
    ends = run.model.half.ends
    return {
        "description": {
            **run.description,
            "settings": asdict(run.settings),
            "outputs": run.task.outputs,
            "names": list(run.names),
        },
        "round": run.round,
        "seconds": run.seconds,
        "cores": run.parties.backend.cores,
        "stopped": run.stopped,
        "skipped": run.skipped,
        "without": run.without,
        "missed": run.missed,
        "findings": run.findings,
        "losses": run.losses,
        "history": run.history,
        "privacy": run.privacy,
        "clipped": {name: end.clipped / end.values for name, end in ends.items() if end.values},
    }


def save(run: Run, path: Path) -> Path:
    """Write the run to a folder, which becomes its own if it has none."""
    check_vacant(path, facts_of(run)["description"])
    before, run.folder = run.folder, make_folder(path)
    try:
        save_checkpoint(run)
    finally:
        run.folder = before or run.folder
    return path


def save_checkpoint(run: Run) -> None:
    """Write a checkpoint to the run's folder, and the small files beside it."""
    folder, sides = run.folder, run.model.sides
    assert folder is not None
    best = {f"best-{name}": state for name, state in run.best.items()}
    facts = {**facts_of(run), "ledger": run.ledger.to_json()}
    states = {**sides.with_what_was_spent(run.states_to_save), **best}
    with run.model.half.peaks.naming():
        checkpoint.check_finite(states, sides.names, run.round - 1)
    if run.seals.noise is not None and not is_written(folder):
        save_budgets(folder, run.model.half.ends, run.parties.names)  # so that it can be missed
    write_view(run)  # before the states: what is newer than they are is forgotten when the run goes on
    checkpoint.write(folder / "checkpoints", run.round, states, facts)
    run.parties.backend.saved(states)
    write_preparations(folder, run.preparations)
    write_text(folder / "config.json", json.dumps(facts["description"], indent=2))
    write_text(folder / "history.csv", history_csv(run.history))
    write_text(folder / "ledger.csv", run.ledger.to_csv())


def read(run: Run, folder: Path) -> tuple[dict[str, Packed], dict[str, Any]]:
    """The states and facts of the newest checkpoint."""
    states, facts = checkpoint.read(checkpoint.newest(folder / "checkpoints"))
    if any(KEPT in state for state in states.values()):  # at parties that forget the states that nobody needs
        run.parties.backend.saved(checkpoint.read_before(folder / "checkpoints"))
        run.parties.backend.saved(states)
    return states, facts


def write_view(run: Run) -> None:
    """Write what was recorded to the run's folder, if the run is recorded."""
    witness, folder = run.model.witness, run.folder
    if witness is not None and folder is not None:
        index = ViewIndex(run_name(run.description), run.round, witness.facts())
        run.view_folders.setdefault(folder, ViewFolder(folder)).write(witness.view(), witness.epochs, index)


def go_on_with_view(run: Run, folder: Path) -> None:
    """Take up what was recorded before the newest checkpoint; rounds that will be run again are forgotten."""
    witness = run.model.witness
    if witness is None:
        return
    if has_view(folder) and not run.opened:  # what is asked of an opened run is a view of its own
        _take_up_view(run, witness, folder)
    witness.begin_at(run.round)


def _take_up_view(run: Run, witness: Witness, folder: Path) -> None:
    view, index = read_view(folder)
    if index.run != run_name(run.description):
        raise CheckpointError(f"{folder / 'view'} is the view of another run; bring back this run's, or delete it.")
    if index.round != run.round:  # a crash came between writing the view and the checkpoint
        lines = (((row.purpose, row.step, row.sender, row.receiver), row) for row in run.ledger.rows)
        view = replace(view, counts={line: (row.messages, row.payload) for line, row in lines})
    witness.go_on(view, index.facts, index.round)


def write_budgets(run: Run) -> None:
    """Write down what was spent of the privacy budgets, if the run has a folder and such budgets."""
    if run.folder is not None and run.seals.noise is not None:
        save_budgets(run.folder, run.model.half.ends, run.parties.names)


def read_budgets(run: Run, folder: Path) -> None:
    """Take back what was spent of the privacy budgets."""
    if run.seals.noise is not None:
        load_budgets(folder, run.model.half.ends, run.parties.names)
