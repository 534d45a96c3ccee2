"""A model over all sides: its parts at the owner and the parties, what can be asked of it, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.errors import SealError, TableError
from colonnade.heard import Absence
from colonnade.ledger import OWNER, Ledger
from colonnade.method import Method, Turn
from colonnade.missing import completed, find_absence
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.owners import all_labels, schedule_for
from colonnade.runtime import threads
from colonnade.runtime.far import Far
from colonnade.schedule import PREDICT_ROWS
from colonnade.seal import Seals
from colonnade.settings import Settings
from colonnade.sheets import Sheet
from colonnade.sides import make_sides
from colonnade.spent import write_spent
from colonnade.state import Packed, pack, unpack
from colonnade.table import Table, check_federation, owners_of, parties_of
from colonnade.task import Task, make_task

R = TypeVar("R")


class Trained:
    """The owner, the parties and the channel between them, with a method's model in place."""

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
        far: Far | None = None,
        secrets: Mapping[str, bytes] | None = None,
    ) -> None:
        self.method, self.settings, self.folder = method, settings, folder
        self.models, self.optimizers = list(models), list(optimizers)  # what built each party's, to train once more
        self.ledger = Ledger()
        self.round = 0
        self.took_part: list[str] = []  # whose answers the last round, prediction or evaluation is made of
        self.findings: dict[str, Any] = {}  # what a report shows of the model that is kept
        how = settings.batch, settings.seed, settings.valid, settings.shuffle
        self.schedule = schedule_for(tables, method, *how)
        self._shapes = [table.shape for table in parties_of(tables)]
        self.preparations = {table.name: table.preparation for table in tables if table.preparation is not None}
        self.names = tables[0].classes  # those of the classes or labels, if the owner's table has them
        self._taught: Tensor | None = None  # a teacher's targets, which nobody could compute again
        self.seals = seals or Seals()
        task = self._task(tables)
        self.sides = make_sides(
            tables, method, task, settings, models, optimizers, self.seals, self.ledger, far, secrets
        )
        self.owner, self.parties, self.channel = self.sides.owner, self.sides.parties, self.sides.channel
        self.owner.held_out = self.schedule.valid_rows

    def _task(self, tables: Sequence[Table]) -> Task:
        """What is learnt, with what the owner finds in the labels of rows that are not held out."""
        labels, name, weights = all_labels(tables), self.settings.task, self.settings.weights
        trained = torch.ones(len(labels), dtype=torch.bool)
        trained[self.schedule.valid_rows] = False
        return make_task(
            name,
            labels,
            weights,
            trained=trained.nonzero()[:, 0],
            table=tables[0].name,
            scaled=len(owners_of(tables)) == 1,
            classes=len(tables[0].classes),
        )

    @property
    def task(self) -> Task:
        """What is learnt: its name, its loss, its metrics."""
        return self.owner.task

    def teach(self, targets: Tensor) -> None:
        """Train on these soft targets of the training table instead of its labels: [rows, classes], for instance."""
        if self.seals.labels is not None:
            raise SealError(
                f"soft targets came for a run whose labels are protected by {self.seals.labels.kind}; they would carry "
                "the true labels past it, so leave one of the two out."
            )
        self._taught = self.task.check_targets(targets, self.owner.rows)
        self.sides.teach(self.task.inside(self._taught))

    # asking

    def evaluate(
        self,
        tables: Sequence[Table],
        *,
        away: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> dict[str, float]:
        """Metrics on a federation with labels; see :meth:`predict` for parties that are away and several owners."""
        with self._asking("evaluate", tables, away, missing, labelled=True):
            outputs, labels = self._judged("evaluate", torch.arange(tables[0].rows), self.sides.leader(owner))
            return self.task.metrics(outputs, labels)

    def predict(
        self,
        tables: Sequence[Table],
        *,
        away: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> Tensor:
        """What the model says of a federation, with or without labels.

        That is probabilities [rows, classes] of classes, values [rows] in the labels' own units, or the probability
        [rows, labels] of each of several labels.
        Parties named in ``away``, or whose table is not there, are not asked; ``missing`` says what stands for their
        answers ("refuse", "zero", "mean", "refit"; by default the run's policy). ``run.took_part`` says who answered.
        ``owner`` names which of several owners predicts, by default the first.
        """
        return self.task.predictions(self.outputs(tables, away=away, missing=missing, owner=owner))

    def outputs(
        self,
        tables: Sequence[Table],
        *,
        away: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> Tensor:
        """What :meth:`predict` makes its predictions of: the model's own numbers, such as logits [rows, classes]."""
        if any(isinstance(table, Sheet) for table in tables):
            raise TableError("sheets came where tables were expected; colonnade.score(run, sheets) aligns them first.")
        with self._asking("predict", tables, away, missing, labelled=False):
            return self._logits("predict", torch.arange(tables[0].rows), "predict", self.sides.leader(owner))

    def evaluate_each(
        self, tables: Sequence[Table], *, away: Sequence[str] = (), missing: str | None = None
    ) -> dict[str, dict[str, float]]:
        """Metrics of every party's own model on a federation with labels; see :meth:`predict_each`."""
        with self._asking("evaluate", tables, away, missing, labelled=True):
            each = self._logits_each("evaluate", torch.arange(tables[0].rows), "evaluate")
        return {name: self.task.metrics(logits, self.owner.tables["evaluate"]) for name, logits in each.items()}

    def predict_each(
        self, tables: Sequence[Table], *, away: Sequence[str] = (), missing: str | None = None
    ) -> dict[str, Tensor]:
        """What :meth:`predict` gives, by every party's own model, for methods that train one per party.

        Parties that are away (see :meth:`predict`) have no entry; the others' models do without their answers.
        """
        with self._asking("predict", tables, away, missing, labelled=False):
            each = self._logits_each("predict", torch.arange(tables[0].rows), "predict")
        return {name: self.task.predictions(logits) for name, logits in each.items()}

    def importance(self) -> dict[str, float]:
        """One number per party that says how much it matters, for methods that have heads."""
        turn = Turn(self.round, torch.arange(0), purpose="explain")
        with torch.no_grad():
            numbers = self.method.importance(self.owner, self.parties, turn)
        found = dict(zip(self.parties.names, numbers.tolist(), strict=True))
        self.findings["importance"] = dict(found)  # some methods ask the parties for it, and a report asks nobody
        return found

    def ask(self, step: Callable[..., R], tables: Sequence[Table], to: Sequence[int] | None = None) -> list[R]:
        """What a step beside the method's own answers at each party for a federation; the purpose is to explain."""
        self._place("explain", tables, labelled=True)
        turn = Turn(self.round, torch.arange(tables[0].rows), "explain", "explain")
        with threads(self.settings.threads), torch.no_grad():
            return self.parties.ask(step, turn, to=to)

    @property
    def privacy(self) -> dict[str, dict[str, Any]]:
        """What each party's releases have cost, for runs with noise: epsilon granted and spent, messages."""
        ends = {name: self.channel.end(name).budget for name in self.parties.names}
        told = self.parties.spent() if self.seals.noise is not None else {}
        return {name: {**budget.summary(), **told.get(name, {})} for name, budget in ends.items() if budget is not None}

    @contextmanager
    def _asking(
        self, name: str, tables: Sequence[Table], away: Sequence[str], missing: str | None, *, labelled: bool
    ) -> Iterator[None]:
        """Place a federation some of whose parties may be away, and do without them for the duration."""
        check_federation(tables, labelled=labelled)
        policy, names = self.settings.missing if missing is None else missing, self.parties.names
        absence = find_absence(self.method, self.seals, self.parties, tables, away, policy)
        self._place(name, completed(tables, names, self._shapes, absence.away), labelled=labelled)
        self.took_part = []
        self.parties.asked.clear()
        with threads(self.settings.threads), self._without(absence):
            yield
        self.took_part = self._here(absence.away)

    @contextmanager
    def _without(self, absence: Absence) -> Iterator[None]:
        """Leave out those who are away for the duration; refitted heads are put back as they were."""
        names = self.parties.names
        here = [k for k, name in enumerate(names) if name not in absence.away]
        refits = absence.policy == "refit" and not absence.training and len(here) < len(names) and self.method.refits
        before = pack(self.owner.kept()) if refits else {}
        self.channel.absence = absence
        try:
            if refits:
                heard = self.channel.heard
                self.method.refit(self.owner, heard.outputs(names), Turn(self.round, heard.rows), here)
            yield
        finally:
            self.channel.absence = Absence()
            if refits:
                unpack(self.owner.kept(), before, OWNER)

    def _here(self, away: frozenset[str]) -> list[str]:
        """Those who were asked and are not away."""
        return [name for name in self.parties.asked_names if name not in away]

    def _judged(self, table: str, rows: Tensor, leader: str) -> tuple[Tensor, Tensor]:
        """Outputs for rows that have labels, and these."""
        return self._logits(table, rows, "evaluate", leader), self.owner.tables[table][rows]

    def _judged_held_out(self) -> tuple[Tensor, Tensor]:
        """The same for the rows held out, each owner's by itself."""
        each = zip(self.sides.leaders, self.schedule.held_out, strict=True)
        logits = [self._logits("train", rows, "evaluate", leader) for leader, rows in each if len(rows)]
        return torch.cat(logits), self.owner.tables["train"][self.schedule.valid_rows]

    def _logits(self, table: str, rows: Tensor, purpose: str, leader: str) -> Tensor:
        def predict(turn: Turn) -> list[Tensor]:
            return [self.method.predict(self.owner, self.parties, replace(turn, leader=leader))]

        return self._in_chunks(predict, table, rows, purpose)[0]

    def _logits_each(self, table: str, rows: Tensor, purpose: str) -> dict[str, Tensor]:
        each = self._in_chunks(
            lambda turn: self.method.predict_each(self.owner, self.parties, turn), table, rows, purpose
        )
        named = dict(zip(self.parties.names, each, strict=True))
        return {name: logits for name, logits in named.items() if name not in self.channel.absence.away}

    def _in_chunks(
        self, predict: Callable[[Turn], list[Tensor]], table: str, rows: Tensor, purpose: str
    ) -> list[Tensor]:
        modules = [thing for thing in self.owner.kept().values() if isinstance(thing, torch.nn.Module)]
        for module in modules:
            module.eval()
        try:
            with torch.no_grad(), self.channel.peaks.naming():
                parts = enumerate(rows.split(PREDICT_ROWS))
                chunks = [predict(Turn(self.round, chunk, table, purpose, part=number)) for number, chunk in parts]
        finally:
            if self.folder is not None and self.seals.noise is not None:
                write_spent(self.folder, self.channel, self.parties.names)
            for module in modules:
                module.train()
        outputs = [torch.cat(pieces) for pieces in zip(*chunks, strict=True)]
        self.channel.peaks.check(outputs, purpose, self.round)
        return outputs

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
            self.task.check(tables[0].labels)
            self.owner.tables[name] = tables[0].labels

    # state

    def _states(self) -> dict[str, Packed]:
        states = self.sides.states()
        states[OWNER] |= {} if self._taught is None else {"taught": self._taught}
        return states

    def _restore(self, states: dict[str, Packed]) -> None:
        self.sides.restore(states)
        if "taught" in states[OWNER]:
            self.teach(states[OWNER]["taught"])
