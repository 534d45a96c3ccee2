"""A model over all sides: its parts at the owner and the parties, what can be asked of it, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from colonnade.channel import Channel
from colonnade.errors import TableError
from colonnade.evaluate import check_labels, metrics
from colonnade.heard import Absence, Heard
from colonnade.ledger import OWNER, Ledger
from colonnade.method import Method, Owner, Turn
from colonnade.missing import completed, find_absence, keeps_means
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.runtime import InProcess, make_parties, threads
from colonnade.schedule import Schedule, derive_seed
from colonnade.seal import Seals
from colonnade.settings import Settings
from colonnade.spent import write_spent
from colonnade.state import Packed, pack, under, unpack
from colonnade.table import Table, check_classes, check_federation, parties_of

PREDICT_ROWS = 4096  # rows per message when predicting; bounds memory, not bytes


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
    ) -> None:
        self.method, self.settings, self.folder = method, settings, folder
        self.ledger = Ledger()
        self.round = 0
        self.took_part: list[str] = []  # whose answers the last round, prediction or evaluation is made of
        self.schedule = Schedule(tables[0].rows, settings.batch, settings.seed, settings.valid, settings.shuffle)
        self._shapes = [table.shape for table in parties_of(tables)]
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
        self.channel.heard = Heard(means=keeps_means(method, settings), sample=method.refits)
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

    def teach(self, targets: Tensor) -> None:
        """Train on these soft targets [rows, classes] of the training table instead of its labels."""
        if tuple(targets.shape) != (self.owner.rows, self.owner.classes):
            raise TableError(
                f"soft targets of shape {tuple(targets.shape)} came for {self.owner.rows} rows and "
                f"{self.owner.classes} classes; give one distribution per row."
            )
        self.owner.soft = self._taught = targets

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

    def evaluate_each(
        self, tables: Sequence[Table], *, away: Sequence[str] = (), missing: str | None = None
    ) -> dict[str, dict[str, float]]:
        """Metrics of every party's own model on a federation with labels; see :meth:`predict_each`."""
        with self._asking("evaluate", tables, away, missing, labelled=True):
            each = self._logits_each("evaluate", torch.arange(tables[0].rows), "evaluate")
        return {name: metrics(logits, self.owner.tables["evaluate"]) for name, logits in each.items()}

    def predict_each(
        self, tables: Sequence[Table], *, away: Sequence[str] = (), missing: str | None = None
    ) -> dict[str, Tensor]:
        """Class probabilities by every party's own model, for methods that train one per party.

        Parties that are away (see :meth:`predict`) have no entry; the others' models do without their answers.
        """
        with self._asking("predict", tables, away, missing, labelled=False):
            each = self._logits_each("predict", torch.arange(tables[0].rows), "predict")
        return {name: torch.softmax(logits, dim=-1) for name, logits in each.items()}

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
        with threads(self.settings.threads), self._without(absence):
            yield
        self.took_part = names[:1] if self.method.predicts_alone else self._here(absence.away)

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
        return [name for name in self.parties.names if name not in away]

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
        named = dict(zip(self.parties.names, each, strict=True))
        return {name: named[name] for name in self._here(self.channel.absence.away)}

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

    # state

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
