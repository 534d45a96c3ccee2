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
from colonnade.channel import Channel
from colonnade.errors import AwayError, TableError, TrainingError
from colonnade.evaluate import check_labels, metrics
from colonnade.folder import check_vacant, history_csv, make_folder, write_text
from colonnade.heard import Absence, Heard
from colonnade.ledger import OWNER, Ledger
from colonnade.method import Method, Owner, Turn
from colonnade.missing import completed, find_absence
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.runtime import InProcess, make_parties, threads
from colonnade.schedule import Schedule, derive_seed
from colonnade.seal import Seals
from colonnade.settings import Settings
from colonnade.spent import read_spent, write_spent
from colonnade.state import Packed, pack, under, unpack
from colonnade.table import Table, check_classes, check_federation, parties_of

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
        self.schedule = Schedule(tables[0].rows, settings.batch, settings.seed, settings.valid, settings.shuffle)
        self._shapes = [table.shape for table in parties_of(tables)]
        self._losses: list[float] = []
        self._best: dict[str, Packed] = {}
        self._last: dict[str, Packed] = {}  # where training would go on, while the best is in place
        self._test: Sequence[Table] | None = None
        self._taught: Tensor | None = None  # a teacher's targets, which nobody could compute again
        labels = tables[0].labels
        self.owner = Owner(labels, check_classes(labels, tables[0].name), len(self._shapes), settings.seed)
        self.owner.held_out = self.schedule.valid_rows
        owner_is_first = tables[0].columns is not None
        self.seals = seals or Seals()
        self.channel = Channel(
            self.ledger,
            seals=self.seals,
            parties=[table.name for table in parties_of(tables)[owner_is_first:]],
            seed=settings.seed,
        )
        self.channel.heard = Heard(means=not method.predicts_alone, sample=method.refits)
        if self.seals.labels is not None:
            self.owner.protect(self.seals.labels)
        self.parties: InProcess = make_parties(
            parties_of(tables),
            method,
            runtime=settings.runtime,
            models=models,
            optimizers=optimizers,
            classes=self.owner.classes,
            seed=settings.seed,
            batch=settings.batch,
            channel=self.channel,
            owner_is_first=owner_is_first,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(settings.seed, "init", "owner"))
            method.start(self.owner)

    # training

    def teach(self, targets: Tensor) -> None:
        """Train on these soft targets [rows, classes] of the training table instead of its labels."""
        if tuple(targets.shape) != (self.owner.rows, self.owner.classes):
            raise TableError(
                f"soft targets of shape {tuple(targets.shape)} came for {self.owner.rows} rows and "
                f"{self.owner.classes} classes; give one distribution per row."
            )
        self.owner.soft = self._taught = targets

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
            found = self._measure("train", self.schedule.valid_rows)
            row |= {f"valid_{name}": value for name, value in found.items()}
        if self._test is not None:
            found = self._measure("test", torch.arange(self._test[0].rows))
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
        self, tables: Sequence[Table], *, away: Sequence[str] = (), missing: str | None = None
    ) -> dict[str, float]:
        """Metrics on a federation with labels; see :meth:`predict` for parties that are away."""
        with self._asking("evaluate", tables, away, missing, labelled=True):
            return self._measure("evaluate", torch.arange(tables[0].rows))

    def predict(self, tables: Sequence[Table], *, away: Sequence[str] = (), missing: str | None = None) -> Tensor:
        """Class probabilities [rows, classes] for a federation, with or without labels.

        Parties named in ``away``, or whose table is not there, are not asked; ``missing`` says what stands for their
        answers ("refuse", "zero", "mean", "refit"; by default the run's policy). ``run.took_part`` says who answered.
        """
        with self._asking("predict", tables, away, missing, labelled=False):
            return torch.softmax(self._logits("predict", torch.arange(tables[0].rows), "predict"), dim=-1)

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

    def _measure(self, table: str, rows: Tensor) -> dict[str, float]:
        return metrics(self._logits(table, rows, "evaluate"), self.owner.tables[table][rows])

    def _logits(self, table: str, rows: Tensor, purpose: str) -> Tensor:
        return self._in_chunks(
            lambda turn: [self.method.predict(self.owner, self.parties, turn)], table, rows, purpose
        )[0]

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
        sides = {OWNER: pack(self.owner.kept())}
        sides[OWNER] |= {f"heard/{key}": value for key, value in self.channel.heard.state().items()}
        sides[OWNER] |= {} if self._taught is None else {"taught": self._taught}
        sides |= {f"party-{k:03d}": state for k, state in enumerate(self.parties.states())}
        for side, name in self._sides.items():
            sides[side] |= {f"seal/{key}": value for key, value in self.channel.end(name).state().items()}
        return sides

    @property
    def _sides(self) -> dict[str, str]:
        """Who each saved state belongs to."""
        return {OWNER: OWNER} | {f"party-{k:03d}": name for k, name in enumerate(self.parties.names)}

    def _with_what_was_spent(self, states: dict[str, Packed]) -> dict[str, Packed]:
        """States that are older than the budgets must not be kept with the budgets of their time."""
        ends = {side: self.channel.end(name) for side, name in self._sides.items()}
        return {
            side: state | {f"seal/{key}": value for key, value in ends[side].spent().items()}
            for side, state in states.items()
        }

    def _restore(self, states: dict[str, Packed]) -> None:
        unpack(self.owner.kept(), states[OWNER], OWNER)
        self.channel.heard.load(under(states[OWNER], "heard"))
        if "taught" in states[OWNER]:
            self.teach(states[OWNER]["taught"])
        self.parties.load([states[f"party-{k:03d}"] for k in range(len(self.parties))])
        for side, name in self._sides.items():
            self.channel.end(name).load(under(states[side], "seal"))

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
        states = {**self._with_what_was_spent(self._last or self._states()), **best}
        checkpoint.check_finite(states, self._sides, self.round - 1)
        checkpoint.write(self.folder / "checkpoints", self.round, states, facts)
        write_text(self.folder / "config.json", json.dumps(facts["description"], indent=2))
        write_text(self.folder / "history.csv", history_csv(self.history))
        write_text(self.folder / "ledger.csv", self.ledger.to_csv())
