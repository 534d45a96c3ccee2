"""The one training loop: turn, round, evaluate, checkpoint, early stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from colonnade.core.device import reason
from colonnade.core.method import Turn
from colonnade.core.metrics import watched_in
from colonnade.core.table import Table
from colonnade.errors import AwayError, ConfigError, TrainingError
from colonnade.run import run_files
from colonnade.run.absence import DropOuts, check_drop_outs, dropped_out
from colonnade.run.findings import find, known_importance
from colonnade.run.period_findings import Judged, by_period
from colonnade.store import checkpoint
from colonnade.wire.answer_memory import Absence

if TYPE_CHECKING:
    from colonnade.run.training import Run

R = TypeVar("R")


def fit(run: Run, test: Sequence[Table] | None, on_round: Callable[[Run], None] | None, absent: DropOuts | None) -> Run:
    """Train from the present round to the last one, evaluating and saving on the way."""
    check_drop_outs(absent)
    if run.opened:
        raise ConfigError(
            "the run was opened without the tables that it was trained on, so it can only predict; "
            "give them to resume to train on."
        )
    with run.model.working():
        _insist(run, lambda: _set_out(run, test))
        while run.round < run.settings.rounds and not run.stopped:
            # Silent until it is decided whom to wait for: a simulated drop-out would drop out again, for ever.
            with run.parties.presence.dropping_out(dropped_out(absent, run.round, run.parties)):
                try:
                    _one_round(run)
                except AwayError as error:
                    _come_back(run, error)
                    continue
            if on_round is not None:
                on_round(run)
        return _insist(run, lambda: use_best(run))


def _set_out(run: Run, test: Sequence[Table] | None) -> None:
    """What comes before the first round of this call."""
    if test is not None:
        run.model.place("test", test, labelled=True)
        run.test_tables = test
    if run.last_states:
        run.model.restore(run.last_states)
        run.last_states = {}
    if run.folder is not None and run.round == 0:
        run_files.save_checkpoint(run)


def _insist(run: Run, work: Callable[[], R]) -> R:
    """Do some work, and repeat it as long as the party that was absent from it comes back."""
    while True:
        try:
            return work()
        except AwayError as error:
            _come_back(run, error)


def _come_back(run: Run, error: AwayError) -> None:
    """Wait for the absent party, and let all sides go back to the newest checkpoint, as a resumed run does."""
    while True:
        if run.folder is None or not run.parties.wait_for(error.party):
            raise error
        try:
            if checkpoint.is_there(run.folder / "checkpoints"):
                run.load(run.folder)
            return
        except AwayError as again:
            error = again


def use_best(run: Run) -> Run:
    """Put the best model in place, if early stopping kept one."""
    if run.best and not run.last_states:
        last = run.loaded_states if run.opened else run.model.states()  # who only predicts may have no state kept
        run.model.restore(run.best)
        run.last_states = last
    return run


def _one_round(run: Run) -> None:
    began = time.perf_counter()
    run.loaded_states = {}
    run.parties.forget_asked()
    loss, absent = _train_round(run)
    missed = [name for name in run.parties.asked if name in absent]
    if loss is None:
        run.skipped += 1
    else:
        run.losses.append(loss)
        run.without += bool(missed)
    for name in missed:
        run.missed[name] += 1
    run.model.took_part = [] if loss is None else run.model.present(absent)
    run.model.round += 1
    if run.round == run.settings.rounds:
        run.parties.backend.settle()
    run.seconds += time.perf_counter() - began
    if run.round % run.settings.evaluate_every == 0 or run.round == run.settings.rounds:
        _look(run, absent)


def _train_round(run: Run) -> tuple[float | None, frozenset[str]]:
    """The round's loss, or None if it is skipped, and who was absent from it; ``when_absent`` says what is done."""
    choice, rows = run.settings.when_away, run.schedule.batch_of(run.round)
    before = {} if choice == "wait" else run.model.states()
    absent = run.parties.presence.dropped_out if choice == "without" else frozenset()
    while True:
        try:
            with run.model.without(Absence(absent, run.settings.missing, training=True)):
                loss = _loss_of(run, Turn(run.round, rows))
            break
        except AwayError as error:
            if choice == "wait":
                raise
            run.model.restore(before)  # some may have stepped before another was found to be absent
            newly_absent = frozenset([error.party] if error.party else []) - absent
            absent |= newly_absent
            # A blinded sum of the same rows over fewer parties would show the difference.
            if choice == "skip" or not newly_absent or run.seals.blind is not None:
                return None, absent | run.parties.presence.dropped_out
    left_out = [k for k, name in enumerate(run.parties.names) if name in absent]
    if left_out:
        run.parties.load({k: before[f"party-{k:03d}"] for k in left_out})
    return loss, absent


def _loss_of(run: Run, turn: Turn) -> float:
    with run.model.half.peaks.naming():
        try:
            loss = float(run.method.round(run.owner, run.parties, turn))
        except torch.OutOfMemoryError as error:
            raise TrainingError(f"the owner cannot compute round {turn.round}: {reason(error)}.") from error
        if not math.isfinite(loss):
            raise TrainingError(
                f"the owner's loss is {loss} in round {run.round} of {run.method.name}; "
                "lower the learning rate (the last good checkpoint is kept)."
            )
    return loss


def _look(run: Run, absent: frozenset[str]) -> None:
    """Evaluate, note it in the history, decide whether to stop, save."""
    run.evaluated = {}
    row = {"round": run.round, "epoch": run.round / run.schedule.rounds_per_epoch}
    if run.losses:
        row["train_loss"] = sum(run.losses) / len(run.losses)
    if run.settings.when_away != "wait":
        row["skipped"] = run.skipped
    if run.settings.when_away == "without":
        row["without"] = run.without
    judged = _judged(run, absent)
    for part in judged:
        row |= {f"{part.part}_{name}": value for name, value in run.task.metrics(part.outputs, part.labels).items()}
    if judged:
        run.evaluated = _evaluated(run, judged)
    run.losses = []
    run.history.append(
        row | {"bytes": run.ledger.bytes_for("train") + run.ledger.bytes_for("setup"), "seconds": run.seconds}
    )
    _stop_early(run)
    if run.folder is not None:
        run_files.save_checkpoint(run)


def _judged(run: Run, absent: frozenset[str]) -> list[Judged]:
    """What the model says of the rows that are held out, and of the rows to test on."""
    found = []
    if len(run.schedule.valid_rows):
        dates = None if run.dates is None else run.dates[run.schedule.valid_rows.numpy()]
        found.append(_judge(run, "valid", run.model.judged_held_out, absent, dates))
    if run.test_tables is not None:
        rows = torch.arange(run.test_tables[0].rows)
        asked = partial(run.model.judged, "test", rows, run.model.sides.leader())
        found.append(_judge(run, "test", asked, absent, run.test_tables[0].dates))
    return [part for part in found if part is not None]


def _judge(
    run: Run,
    part: str,
    judged: Callable[[], tuple[Tensor, Tensor]],
    absent: frozenset[str],
    dates: np.ndarray | None,
) -> Judged | None:
    """Outputs and labels on the way under the run's policy; None if it refuses, unless training waits for everybody."""
    policy = run.settings.missing
    try:
        with run.releasing(), run.model.without(Absence(frozenset() if policy == "refuse" else absent, policy)):
            return Judged(part, *judged(), dates)
    except AwayError:
        if run.settings.when_away == "wait":
            raise
        return None


def _evaluated(run: Run, judged: Sequence[Judged]) -> dict[str, Any]:
    """What a report shows of an evaluation: of the rows to test on, if there are some."""
    last = judged[-1]
    found = {"part": last.part, "round": run.round, **find(run.task, last.outputs, last.labels)}
    return found | by_period(run.task, judged)


def _stop_early(run: Run) -> None:
    drop, row = run.settings.stop_drop, run.history[-1]
    score = watched_in(run.history, run.settings.watch, run.task.score)
    if drop is None:
        _keep_findings(run)
    if drop is None or score not in row:  # nobody can tell, so training goes on
        return
    best = max(earlier[score] for earlier in run.history if score in earlier)
    if row[score] >= best:
        run.best = run.model.states()
        _keep_findings(run)
    run.stopped = 100 * (best - row[score]) > drop


def _keep_findings(run: Run) -> None:
    """Keep what a report shows of the model as it is; an earlier evaluation stays if there was none now."""
    stays = ("maps", "classes") if run.evaluated else run.findings.keys() - {"importance"}
    kept = {key: run.findings[key] for key in stays if key in run.findings}
    known = known_importance(run.method, run.owner, run.parties.names, run.round)
    run.findings = kept | run.evaluated | ({"importance": known} if known else {})
