"""The one training loop: turn, round, evaluate, checkpoint, early stop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from colonnade import checkpoint
from colonnade.errors import AwayError, TableError, TrainingError
from colonnade.evaluate import check_labels, metrics
from colonnade.folder import check_vacant, history_csv, make_folder, write_text
from colonnade.heard import Absence
from colonnade.ledger import OWNER, Ledger
from colonnade.method import Method, Turn
from colonnade.missing import completed, find_absence
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.owners import schedule_for
from colonnade.runtime import threads
from colonnade.seal import Seals
from colonnade.settings import Settings
from colonnade.sides import make_sides
from colonnade.spent import read_spent, write_spent
from colonnade.state import Packed, pack, unpack
from colonnade.table import Table, check_federation, parties_of

__all__ = ["Run", "Settings"]

PREDICT_ROWS = 4096  # rows per message when predicting; bounds memory, not bytes


class Run:
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
    ) -> None:
        self.method, self.settings, self.folder = method, settings, folder
        self.description = description or {}
        self.history: list[dict[str, float]] = []
        self.ledger = Ledger()
        self.round = 0
        self.seconds = 0.0
        self.stopped = False
        self.skipped = 0  # rounds that somebody was away in, with when_away="skip"
        self.took_part: list[str] = []  # whose answers the last prediction or evaluation is made of
        how = settings.batch, settings.seed, settings.valid, settings.shuffle
        self.schedule = schedule_for(tables, *how, several=method.several_owners)
        self._shapes = [table.shape for table in parties_of(tables)]
        self._losses: list[float] = []
        self._best: dict[str, Packed] = {}
        self._last: dict[str, Packed] = {}  # where training would go on, while the best is in place
        self._test: Sequence[Table] | None = None
        self._taught: Tensor | None = None  # a teacher's targets, which nobody could compute again
        self.seals = seals or Seals()
        self.sides = make_sides(tables, method, settings, models, optimizers, self.seals, self.ledger)
        self.owner, self.parties, self.channel = self.sides.owner, self.sides.parties, self.sides.channel
        self.owner.held_out = self.schedule.valid_rows

    # training

    def teach(self, targets: Tensor) -> None:
        """Train on these soft targets [rows, classes] of the training table instead of its labels."""
        if tuple(targets.shape) != (self.owner.rows, self.owner.classes):
            raise TableError(
                f"soft targets of shape {tuple(targets.shape)} came for {self.owner.rows} rows and "
                f"{self.owner.classes} classes; give one distribution per row."
            )
        self._taught = targets
        self.sides.teach(targets)

    def fit(self, test: Sequence[Table] | None = None, on_round: Callable[[Run], None] | None = None) -> Run:
        """Train from the present round to the last one, evaluating and saving on the way."""
        if test is not None:
            self._place("test", test, labelled=True)
            self._test = test
        if self._last:
            self._restore(self._last)
            self._last = {}
        if self.folder is not None and self.round == 0:
            self._save_checkpoint()
        with threads(self.settings.threads):
            while self.round < self.settings.rounds and not self.stopped:
                self._one_round()
                if on_round is not None:
                    on_round(self)
        return self.use_best()

    def use_best(self) -> Run:
        """Put the best model in place, if early stopping kept one."""
        if self._best and not self._last:
            self._last = self._states()
            self._restore(self._best)
        return self

    def _one_round(self) -> None:
        began = time.perf_counter()
        turn = Turn(self.round, self.schedule.batch_of(self.round))
        before = self._states() if self.settings.when_away == "skip" else {}
        try:
            self._losses.append(self._loss_of(turn))
        except AwayError:
            if not before:
                raise
            self._restore(before)  # some may have stepped before another was found to be away
            self.skipped += 1
        self.round += 1
        self.seconds += time.perf_counter() - began
        if self.round % self.settings.evaluate_every == 0 or self.round == self.settings.rounds:
            self._look()

    def _loss_of(self, turn: Turn) -> float:
        loss = float(self.method.round(self.owner, self.parties, turn))
        if not math.isfinite(loss):
            raise TrainingError(
                f"the owner's loss is {loss} in round {self.round} of {self.method.name}; "
                "lower the learning rate (the last good checkpoint is kept)."
            )
        return loss

    def _look(self) -> None:
        """Evaluate, note it in the history, decide whether to stop, save."""
        row = {"round": self.round, "epoch": self.round / self.schedule.rounds_per_epoch}
        if self._losses:
            row["train_loss"] = sum(self._losses) / len(self._losses)
        if self.settings.when_away == "skip":
            row["skipped"] = self.skipped
        if len(self.schedule.valid_rows):
            each = zip(self.sides.leaders, self.schedule.held_out, strict=True)
            logits = [self._logits("train", rows, "evaluate", leader) for leader, rows in each if len(rows)]
            found = metrics(torch.cat(logits), self.owner.tables["train"][self.schedule.valid_rows])
            row |= {f"valid_{name}": value for name, value in found.items()}
        if self._test is not None:
            found = self._measure("test", torch.arange(self._test[0].rows), self.sides.leader())
            row |= {f"test_{name}": value for name, value in found.items()}
        self._losses = []
        self.history.append(
            row | {"bytes": self.ledger.bytes_for("train") + self.ledger.bytes_for("setup"), "seconds": self.seconds}
        )
        self._stop_early()
        if self.folder is not None:
            self._save_checkpoint()

    def _stop_early(self) -> None:
        drop = self.settings.stop_drop
        if drop is None:
            return
        scores = [row["valid_accuracy"] for row in self.history]
        if scores[-1] >= max(scores):
            self._best = self._states()
        self.stopped = 100 * (max(scores) - scores[-1]) > drop

    def prolong(self, rounds: int) -> None:
        """Let training go on to a later last round."""
        self.settings = replace(self.settings, rounds=max(rounds, self.settings.rounds))

    # asking

    def evaluate(
        self,
        tables: Sequence[Table],
        *,
        away: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> dict[str, float]:
        """Metrics on a federation with labels; see :meth:`predict` for parties that are away."""
        with self._asking("evaluate", tables, away, missing, labelled=True):
            return self._measure("evaluate", torch.arange(tables[0].rows), self.sides.leader(owner))

    def predict(
        self,
        tables: Sequence[Table],
        *,
        away: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> Tensor:
        """Class probabilities [rows, classes] for a federation, with or without labels.

        Parties named in ``away``, or whose table is not there, are not asked; ``missing`` says what stands for their
        answers ("refuse", "zero", "mean", "refit"; by default the run's policy). ``run.took_part`` says who answered.
        ``owner`` names which of several owners predicts, by default the first.
        """
        with self._asking("predict", tables, away, missing, labelled=False):
            logits = self._logits("predict", torch.arange(tables[0].rows), "predict", self.sides.leader(owner))
            return torch.softmax(logits, dim=-1)

    @contextmanager
    def _asking(
        self, name: str, tables: Sequence[Table], away: Sequence[str], missing: str | None, *, labelled: bool
    ) -> Iterator[None]:
        """Place a federation some of whose parties may be away, and do without them for the duration."""
        check_federation(tables, labelled=labelled)
        policy, names = self.settings.missing if missing is None else missing, self.parties.names
        absence = find_absence(self.method, self.seals, self.parties, tables, away, policy)
        self._place(name, completed(tables, names, self._shapes, absence.away), labelled=labelled)
        here = [k for k, one in enumerate(names) if one not in absence.away]
        refits = absence.policy == "refit" and len(here) < len(names) and self.method.refits
        before = pack(self.owner.kept()) if refits else {}
        self.took_part = []
        self.channel.absence = absence
        try:
            with threads(self.settings.threads):
                if refits:
                    heard = self.channel.heard
                    self.method.refit(self.owner, heard.outputs(names), Turn(self.round, heard.rows), here)
                yield
            self.took_part = names[:1] if self.method.predicts_alone else [names[k] for k in here]
        finally:
            self.channel.absence = Absence()
            if refits:
                unpack(self.owner.kept(), before, OWNER)

    def predict_each(self, tables: Sequence[Table]) -> dict[str, Tensor]:
        """Class probabilities by every party's own model, for methods that train one per party."""
        self._place("predict", tables, labelled=False)
        with threads(self.settings.threads):
            each = self._logits_each("predict", torch.arange(tables[0].rows), "predict")
        return {name: torch.softmax(logits, dim=-1) for name, logits in each.items()}

    def evaluate_each(self, tables: Sequence[Table]) -> dict[str, dict[str, float]]:
        """Metrics of every party's own model on a federation with labels."""
        self._place("evaluate", tables, labelled=True)
        with threads(self.settings.threads):
            each = self._logits_each("evaluate", torch.arange(tables[0].rows), "evaluate")
        return {name: metrics(logits, self.owner.tables["evaluate"]) for name, logits in each.items()}

    def importance(self) -> dict[str, float]:
        """One number per party that says how much it matters, for methods that have heads."""
        turn = Turn(self.round, torch.arange(0), purpose="explain")
        with torch.no_grad():
            numbers = self.method.importance(self.owner, self.parties, turn)
        return dict(zip(self.parties.names, numbers.tolist(), strict=True))

    @property
    def privacy(self) -> dict[str, dict[str, Any]]:
        """What each party's releases have cost, for runs with noise: epsilon granted and spent, messages."""
        ends = {name: self.channel.end(name).budget for name in self.parties.names}
        return {name: budget.summary() for name, budget in ends.items() if budget is not None}

    def _measure(self, table: str, rows: Tensor, leader: str) -> dict[str, float]:
        return metrics(self._logits(table, rows, "evaluate", leader), self.owner.tables[table][rows])

    def _logits(self, table: str, rows: Tensor, purpose: str, leader: str) -> Tensor:
        def predict(turn: Turn) -> list[Tensor]:
            return [self.method.predict(self.owner, self.parties, replace(turn, leader=leader))]

        return self._in_chunks(predict, table, rows, purpose)[0]

    def _logits_each(self, table: str, rows: Tensor, purpose: str) -> dict[str, Tensor]:
        each = self._in_chunks(
            lambda turn: self.method.predict_each(self.owner, self.parties, turn), table, rows, purpose
        )
        return dict(zip(self.parties.names, each, strict=True))

    def _in_chunks(
        self, predict: Callable[[Turn], list[Tensor]], table: str, rows: Tensor, purpose: str
    ) -> list[Tensor]:
        modules = [thing for thing in self.owner.kept().values() if isinstance(thing, torch.nn.Module)]
        for module in modules:
            module.eval()
        try:
            with torch.no_grad():
                chunks = [predict(Turn(self.round, chunk, table, purpose)) for chunk in rows.split(PREDICT_ROWS)]
        finally:
            if self.folder is not None and self.seals.noise is not None:
                write_spent(self.folder, self.channel, self.parties.names)
            for module in modules:
                module.train()
        return [torch.cat(parts) for parts in zip(*chunks, strict=True)]

    def _place(self, name: str, tables: Sequence[Table], *, labelled: bool) -> None:
        check_federation(tables, labelled=labelled)
        parties = parties_of(tables)
        for what, came, expected in (
            ("names", [table.name for table in parties], self.parties.names),
            ("row shapes", [table.shape for table in parties], self._shapes),
        ):
            if came != expected:
                raise TableError(f"the parties have {what} {came}, but the model was trained on {expected}.")
        self.parties.place(name, parties)
        if tables[0].labels is not None:
            check_labels(tables[0].labels, self.owner.classes)
            self.owner.tables[name] = tables[0].labels

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
        self._restore({name: state for name, state in states.items() if not name.startswith("best-")})
        self._best = {n.removeprefix("best-"): state for n, state in states.items() if n.startswith("best-")}
        self.ledger.replace(facts["ledger"])
        self.history, self._losses = facts["history"], facts["losses"]
        self.round, self.seconds, self.stopped = facts["round"], facts["seconds"], facts["stopped"]
        self.skipped = facts.get("skipped", 0)
        if self.seals.noise is not None:
            read_spent(folder, self.channel, self.parties.names)

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page about this run."""
        from colonnade.report import write_report  # the edge draws pictures; the loop must not depend on it

        return write_report([self.summary()], path)

    def summary(self) -> dict[str, Any]:
        """What a report needs to know, as plain data."""
        return {**self._facts(), "ledger": self.ledger.to_json(), "parties": self.parties.names}

    def _states(self) -> dict[str, Packed]:
        states = self.sides.states()
        states[OWNER] |= {} if self._taught is None else {"taught": self._taught}
        return states

    def _restore(self, states: dict[str, Packed]) -> None:
        self.sides.restore(states)
        if "taught" in states[OWNER]:
            self.teach(states[OWNER]["taught"])

    def _facts(self) -> dict[str, Any]:
        return {
            "description": {**self.description, "settings": asdict(self.settings)},
            "round": self.round,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "skipped": self.skipped,
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
        checkpoint.check_finite(states, self.sides.names, self.round - 1)
        checkpoint.write(self.folder / "checkpoints", self.round, states, facts)
        write_text(self.folder / "config.json", json.dumps(facts["description"], indent=2))
        write_text(self.folder / "history.csv", history_csv(self.history))
        write_text(self.folder / "ledger.csv", self.ledger.to_csv())
