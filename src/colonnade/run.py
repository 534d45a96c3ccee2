"""The one training loop: turn, round, evaluate, checkpoint, early stop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade import checkpoint
from colonnade.errors import AwayError, ConfigError, TrainingError
from colonnade.findings import find, known_importance, map_findings
from colonnade.folder import check_vacant, history_csv, make_folder, write_text
from colonnade.heard import Absence
from colonnade.method import Method, Turn
from colonnade.missing import DropOuts, check_drop_outs, dropped_out
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.prepared import write_preparations
from colonnade.runtime import threads
from colonnade.runtime.far import Far
from colonnade.runtime.remote import KEPT
from colonnade.seal import Seals
from colonnade.settings import Settings
from colonnade.spent import is_written, read_spent, write_spent
from colonnade.state import Packed
from colonnade.table import Table
from colonnade.trained import Trained

__all__ = ["Run", "Settings"]

R = TypeVar("R")


class Run(Trained):
    """A training run: its history, its ledger, its model, and what can be asked of them."""

    def __init__(
        self,
        tables: Sequence[Table],
        method: Method,
        settings: Settings,
        models: Sequence[ModelBuilder],
        optimizers: Sequence[OptimizerBuilder],
        *,
        seals: Seals | None = None,
        folder: Path | None = None,
        description: dict[str, Any] | None = None,
        far: Far | None = None,
        secrets: Mapping[str, bytes] | None = None,
    ) -> None:
        where: dict[str, Any] = {"folder": folder, "far": far, "secrets": secrets}
        super().__init__(tables, method, settings, models, optimizers, seals=seals, **where)
        self.description = description or {}
        self.opened = False  # without the tables that it was trained on
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        self.stopped = False
        self.skipped = 0  # rounds that were left out because somebody was away
        self.without = 0  # rounds that went on without somebody
        self.missed = dict.fromkeys(self.parties.names, 0)  # how many rounds each party was away from
        self._seen: dict[str, Any] = {}  # the same of the last evaluation
        self._losses: list[float] = []
        self._best: dict[str, Packed] = {}
        self._last: dict[str, Packed] = {}  # where training would go on, while the best is in place
        self._loaded: dict[str, Packed] = {}  # what the newest checkpoint said, as it was taken back
        self._test: Sequence[Table] | None = None

    # training

    def fit(
        self,
        test: Sequence[Table] | None = None,
        on_round: Callable[[Run], None] | None = None,
        away: DropOuts | None = None,
    ) -> Run:
        """Train from the present round to the last one, evaluating and saving on the way.

        ``away`` simulates drop-outs: called with a round's number, from 0, it gives the names of those who are away.
        """
        check_drop_outs(away)
        if self.opened:
            raise ConfigError(
                "the run was opened without the tables that it was trained on, so it can only predict; "
                "give them to resume to train on."
            )
        with threads(self.settings.threads):
            self._insist(lambda: self._set_out(test))
            while self.round < self.settings.rounds and not self.stopped:
                self.channel.silent = dropped_out(away, self.round, self.parties)
                try:
                    self._one_round()
                except AwayError as error:
                    self._come_back(error)
                    continue
                finally:
                    self.channel.silent = frozenset()
                if on_round is not None:
                    on_round(self)
            return self._insist(self.use_best)

    def _set_out(self, test: Sequence[Table] | None) -> None:
        """What comes before the first round of this call."""
        if test is not None:
            self._place("test", test, labelled=True)
            self._test = test
        if self._last:
            self._restore(self._last)
            self._last = {}
        if self.folder is not None and self.round == 0:
            self._save_checkpoint()

    def _insist(self, work: Callable[[], R]) -> R:
        """Do something again as long as whoever was away from it comes back."""
        while True:
            try:
                return work()
            except AwayError as error:
                self._come_back(error)

    def _come_back(self, error: AwayError) -> None:
        """Wait for whoever was away, and let all sides go back to the newest checkpoint, as a resumed run does."""
        while True:
            if self.folder is None or not self.parties.wait_for(error.party):
                raise error
            try:
                if checkpoint.is_there(self.folder / "checkpoints"):
                    self.load(self.folder)
                return
            except AwayError as again:
                error = again

    def use_best(self) -> Run:
        """Put the best model in place, if early stopping kept one."""
        if self._best and not self._last:
            last = self._loaded if self.opened else self._states()  # who only predicts may have no state kept
            self._restore(self._best)
            self._last = last
        return self

    def _one_round(self) -> None:
        began = time.perf_counter()
        self._loaded = {}
        self.parties.asked.clear()
        loss, away = self._train_round()
        missed = [name for name in self.parties.asked_names if name in away]
        if loss is None:
            self.skipped += 1
        else:
            self._losses.append(loss)
            self.without += bool(missed)
        for name in missed:
            self.missed[name] += 1
        self.took_part = [] if loss is None else self._here(away)
        self.round += 1
        if self.round == self.settings.rounds:
            self.parties.settle()
        self.seconds += time.perf_counter() - began
        if self.round % self.settings.evaluate_every == 0 or self.round == self.settings.rounds:
            self._look(away)

    def _train_round(self) -> tuple[float | None, frozenset[str]]:
        """The round's loss, or None if it is skipped, and who was away from it; ``when_away`` says what is done."""
        choice, rows = self.settings.when_away, self.schedule.batch_of(self.round)
        before = {} if choice == "wait" else self._states()
        away = self.channel.silent if choice == "without" else frozenset()
        while True:
            try:
                with self._without(Absence(away, self.settings.missing, training=True)):
                    loss = self._loss_of(Turn(self.round, rows))
                break
            except AwayError as error:
                if choice == "wait":
                    raise
                self._restore(before)  # some may have stepped before another was found to be away
                found = frozenset([error.party] if error.party else []) - away
                away |= found
                # A blinded sum of the same rows over fewer parties would show the difference.
                if choice == "skip" or not found or self.seals.blind is not None:
                    return None, away | self.channel.silent
        gone = [k for k, name in enumerate(self.parties.names) if name in away]
        if gone:
            self.parties.put_back({k: before[f"party-{k:03d}"] for k in gone})
        return loss, away

    def _loss_of(self, turn: Turn) -> float:
        with self.channel.peaks.naming():
            loss = float(self.method.round(self.owner, self.parties, turn))
            if not math.isfinite(loss):
                raise TrainingError(
                    f"the owner's loss is {loss} in round {self.round} of {self.method.name}; "
                    "lower the learning rate (the last good checkpoint is kept)."
                )
        return loss

    def _look(self, away: frozenset[str]) -> None:
        """Evaluate, note it in the history, decide whether to stop, save."""
        self._seen = {}
        row = {"round": self.round, "epoch": self.round / self.schedule.rounds_per_epoch}
        if self._losses:
            row["train_loss"] = sum(self._losses) / len(self._losses)
        if self.settings.when_away != "wait":
            row["skipped"] = self.skipped
        if self.settings.when_away == "without":
            row["without"] = self.without
        if len(self.schedule.valid_rows):
            row |= self._score("valid", self._judged_held_out, away)
        if self._test is not None:
            rows = torch.arange(self._test[0].rows)
            row |= self._score("test", lambda: self._judged("test", rows, self.sides.leader()), away)
        self._losses = []
        self.history.append(
            row | {"bytes": self.ledger.bytes_for("train") + self.ledger.bytes_for("setup"), "seconds": self.seconds}
        )
        self._stop_early()
        if self.folder is not None:
            self._save_checkpoint()

    def _score(self, part: str, judged: Callable[[], tuple[Tensor, Tensor]], away: frozenset[str]) -> dict[str, float]:
        """Metrics on the way under the run's policy; none if it refuses, unless training waits for everybody."""
        policy = self.settings.missing
        try:
            with self._without(Absence(frozenset() if policy == "refuse" else away, policy)):
                outputs, labels = judged()
        except AwayError:
            if self.settings.when_away == "wait":
                raise
            return {}
        metrics = self.task.metrics(outputs, labels)
        self._seen = {"part": part, "round": self.round, **find(self.task, outputs, labels)}
        return {f"{part}_{name}": value for name, value in metrics.items()}

    def _stop_early(self) -> None:
        drop, row, score = self.settings.stop_drop, self.history[-1], f"valid_{self.task.score}"
        if drop is None:
            self._keep_findings()
        if drop is None or score not in row:  # nobody can tell, so training goes on
            return
        best = max(one[score] for one in self.history if score in one)
        if row[score] >= best:
            self._best = self._states()
            self._keep_findings()
        self.stopped = 100 * (best - row[score]) > drop

    def _keep_findings(self) -> None:
        """Keep what a report shows of the model as it is; an earlier evaluation stays if there was none now."""
        stays = ("maps", "classes") if self._seen else self.findings.keys() - {"importance"}
        kept = {key: self.findings[key] for key in stays if key in self.findings}
        known = known_importance(self.method, self.owner, self.parties.names, self.round)
        self.findings = kept | self._seen | ({"importance": known} if known else {})

    def prolong(self, rounds: int) -> None:
        """Let training go on to a later last round."""
        self.settings = replace(self.settings, rounds=max(rounds, self.settings.rounds))
        self.method.check_batch(self.schedule.smallest_batch(self.settings.rounds))

    # saving

    def save(self, path: str | Path) -> Path:
        """Write the run to a folder from which :func:`colonnade.resume` reads it."""
        check_vacant(Path(path), self._facts()["description"])
        before, self.folder = self.folder, make_folder(path)
        try:
            self._save_checkpoint()
        finally:
            self.folder = before or self.folder
        return Path(path)

    def load(self, folder: Path) -> None:
        """Take back the newest checkpoint of a folder."""
        states, facts = checkpoint.read(checkpoint.newest(folder / "checkpoints"))
        if any(KEPT in state for state in states.values()):  # at parties that forget the states that nobody needs
            self.parties.saved(checkpoint.read_before(folder / "checkpoints"))
            self.parties.saved(states)
        self._loaded = {name: state for name, state in states.items() if not name.startswith("best-")}
        self._restore(self._loaded)
        self._best = {n.removeprefix("best-"): state for n, state in states.items() if n.startswith("best-")}
        self.ledger.replace(facts["ledger"])
        self.history, self._losses = facts["history"], facts["losses"]
        self.round, self.seconds, self.stopped = facts["round"], facts["seconds"], facts["stopped"]
        self.skipped, self.without = facts.get("skipped", 0), facts.get("without", 0)
        self.missed |= facts.get("missed", {})
        self.findings = facts.get("findings", {})
        if self.seals.noise is not None:
            read_spent(folder, self.channel, self.parties.names)

    def report(self, path: str | Path, *, maps: Any = None, pictures: bool = False) -> Path:
        """Write one self-contained HTML page about this run; it is the owner's, made of its labels.

        ``maps`` are embedding maps to show, with ``points`` per party and ``labels``; they stay with the run.
        ``pictures`` puts every picture as SVG and its numbers as CSV beside the page.
        """
        from colonnade.report import write_report  # the edge draws pictures; the loop must not depend on it

        if maps is not None:
            self.findings |= map_findings(maps)
        return write_report([self.summary()], path, pictures=pictures)

    def summarise(self, tables: Sequence[Table], keep: float = 0.5, **options: Any) -> Run:
        """Train once more with the parties that matter most, or least; see :func:`colonnade.summarise`."""
        from colonnade.explain.summarise import summarise  # it trains, which is above a run

        return summarise(self, tables, keep, **options)

    def summary(self) -> dict[str, Any]:
        """What a report needs to know, as plain data."""
        return {**self._facts(), "ledger": self.ledger.to_json(), "parties": self.parties.names}

    def _facts(self) -> dict[str, Any]:
        return {
            "description": {
                **self.description,
                "settings": asdict(self.settings),
                "outputs": self.task.outputs,
                "names": list(self.names),
            },
            "round": self.round,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "skipped": self.skipped,
            "without": self.without,
            "missed": self.missed,
            "findings": self.findings,
            "losses": self._losses,
            "history": self.history,
            "privacy": self.privacy,
            "clipped": {name: end.clipped / end.values for name, end in self.channel.ends.items() if end.values},
        }

    def _save_checkpoint(self) -> None:
        assert self.folder is not None
        best = {f"best-{name}": state for name, state in self._best.items()}
        facts = {**self._facts(), "ledger": self.ledger.to_json()}
        states = {**self.sides.with_what_was_spent(self._last or self._states()), **best}
        with self.channel.peaks.naming():
            checkpoint.check_finite(states, self.sides.names, self.round - 1)
        if self.seals.noise is not None and not is_written(self.folder):
            write_spent(self.folder, self.channel, self.parties.names)  # so that it can be missed
        checkpoint.write(self.folder / "checkpoints", self.round, states, facts)
        self.parties.saved(states)
        write_preparations(self.folder, self.preparations)
        write_text(self.folder / "config.json", json.dumps(facts["description"], indent=2))
        write_text(self.folder / "history.csv", history_csv(self.history))
        write_text(self.folder / "ledger.csv", self.ledger.to_csv())
