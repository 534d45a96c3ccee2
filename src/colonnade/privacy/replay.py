"""What travelled in a run that nobody recorded: the run is trained once more, and must come to the same numbers.

In one process all randomness follows from the seed, so a second training sends the same messages. Whether it did is
checked: its states and its history must be those of the run, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from colonnade.core.state import Packed
from colonnade.core.table import Table
from colonnade.errors import CheckpointError, ConfigError
from colonnade.run.make_plan import outline_of, start
from colonnade.run.train import resume
from colonnade.run.training import Run
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.remote_party import KEPT
from colonnade.store.view_files import has_view, read_view
from colonnade.wire.ledger import OWNER
from colonnade.wire.view import View
from colonnade.wire.witness import Recording

BEHIND_REQUESTS = ("apart", "ray")
"""Runtimes that agree with ``loop`` bit for bit, and keep the parties' states elsewhere."""
_UNEQUAL = ("seconds",)
_LATER = ("seal/budget/", "seal/clipped")
"""What asking a trained model changes in a side's state."""


def view_of(run: Run | str | Path, tables: Sequence[Table] | None = None) -> View:
    """The view that a run recorded, or else what :func:`replayed` makes of these tables."""
    if isinstance(run, Run):
        return run.view if tables is None or run.is_recorded else replayed(run, tables)
    return read_view(Path(run))[0] if tables is None or has_view(Path(run)) else replayed(run, tables)


def replayed(
    run: Run | str | Path,
    tables: Sequence[Table],
    *,
    test: Sequence[Table] | None = None,
    record: Recording | None = None,
) -> View:
    """Train a run of one process again from its plan, and give what travelled.

    ``tables`` are those that it was trained on, and ``test`` those that it was tested on, if their messages matter.
    ``record`` says how much is kept.
    """
    done = run if isinstance(run, Run) else resume(run, tables, train=False)
    _check_repeats(done, tables)
    again = start(_plan_of(done), tables, record=record or Recording())
    taught = done.states_to_save[OWNER].get("taught")
    if taught is not None:
        again.teach(taught)
    again.fit(test)
    difference = _first_difference(done, again)
    if difference:
        raise CheckpointError(
            f"the run cannot be replayed: trained again, it came to another {difference}; its tables, its machine and "
            "its version of torch must be those of the run, or train with record=True."
        )
    return again.view


def _check_repeats(done: Run, tables: Sequence[Table]) -> None:
    """Refuse a run that a second training would not repeat."""
    settings = done.settings
    if settings.runtime == "federation" or (settings.cluster or {}).get("secrets"):
        raise ConfigError(
            "the run's sides drew from secrets of their own, so it cannot be replayed; every side of a federation "
            "records its own view with record = true in [audit]."
        )
    if done.skipped or done.without:
        raise ConfigError(
            f"parties were absent from {done.skipped + done.without} rounds of the run, so it cannot be replayed; "
            "train with record=True."
        )
    if not done.round:
        raise ConfigError("no round of the run is done, so there is nothing to replay; train it first.")
    outline = outline_of(tables)
    if any(outline[part] != done.description.get(part) for part in outline):
        raise CheckpointError("the run was trained on other tables than those given, so it cannot be replayed.")


def _plan_of(done: Run) -> Plan:
    """The run's plan up to the round that it has reached, in this process."""
    settings = done.settings if done.stopped else replace(done.settings, rounds=done.round)
    if settings.runtime in BEHIND_REQUESTS:
        settings = replace(settings, runtime="loop", cluster=None)
    return replace(done.model.plan, settings=settings)


def _first_difference(done: Run, again: Run) -> str:
    """Where two runs differ, in words; empty if nowhere."""
    for side, state in done.states_to_save.items():
        name = _different_tensor(state, again.states_to_save[side])
        if KEPT not in state and name:
            return f"'{name}' in the state of {again.model.sides.names[side]}"
    by_round = {row["round"]: row for row in again.history}
    for row in done.history:
        for name, value in _comparable(row):
            if not _same(by_round.get(row["round"], row).get(name, value), value):
                return f"{name} in round {row['round']}"
    return ""


def _comparable(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in row.items() if name not in _UNEQUAL)


def _same(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


def _different_tensor(first: Packed, second: Packed) -> str:
    """The first tensor that two states do not share."""
    for name in sorted(first.keys() | second.keys()):
        if name.startswith(_LATER):
            continue
        if name not in first or name not in second or not torch.equal(first[name], second[name]):
            return name
    return ""
