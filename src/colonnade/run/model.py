"""A model over all sides: its parts at the owner and the parties, what can be asked of it, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, final

import torch
from torch import Tensor

from colonnade.core.device import repeatable
from colonnade.core.method import Turn
from colonnade.core.schedule import PREDICT_ROWS
from colonnade.core.state import Packed, pack
from colonnade.core.table import Table, check_federation, is_partial, owners_of, parties_of
from colonnade.core.task import Task, make_task
from colonnade.data.sharing import all_labels, schedule_for
from colonnade.errors import SealError, TableError
from colonnade.run.absence import check_known_rows, completed, find_absence
from colonnade.run.sides import make_sides
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.setup import threads
from colonnade.wire.answer_memory import Absence
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.witness import Recording, witness_of

R = TypeVar("R")


class Question:
    """What is asked of a model, and of whom: rows of a federation, for a purpose, without those who are absent."""

    def __init__(
        self,
        purpose: str,
        tables: Sequence[Table],
        absent: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> None:
        self.purpose, self.tables, self.absent, self.missing, self.owner = purpose, tables, absent, missing, owner
        self.labelled = purpose == "evaluate"

    @property
    def rows(self) -> Tensor:
        """All rows of the federation."""
        return torch.arange(self.tables[0].rows)


@final
class Model:
    """The owner and the parties, with a method's model in place."""

    def __init__(
        self,
        tables: Sequence[Table],
        plan: Plan,
        *,
        remote: RemoteSetup | None = None,
        secrets: Mapping[str, bytes] | None = None,
        record: Recording | None = None,
    ) -> None:
        self.plan, self.method, self.settings, self.seals = plan, plan.method, plan.settings, plan.seals
        self.ledger = Ledger()
        self.round = 0
        self.took_part: list[str] = []  # whose answers the last round, prediction or evaluation is made of
        how = self.settings.batch, self.settings.seed, self.settings.valid, self.settings.shuffle
        self.schedule = schedule_for(tables, self.method, *how)
        self.names = tables[0].classes  # those of the classes or labels, if the owner's table has them
        self.witness = witness_of(parties_of(tables)[0].rows, self.schedule, record) if record else None
        self.sides = make_sides(tables, plan, self._task(tables), self.ledger, remote, secrets, self.witness)
        self.owner, self.parties, self.half = self.sides.owner, self.sides.parties, self.sides.half
        self.owner.held_out = self.schedule.valid_rows
        self._note_known("train", tables)
        self._shapes = [table.shape for table in parties_of(tables)]
        self._taught: Tensor | None = None  # a teacher's targets, which nobody could compute again

    def _task(self, tables: Sequence[Table]) -> Task:
        """What is learnt, with what the owner finds in the labels of rows that are not held out."""
        labels = all_labels(tables)
        trained = torch.ones(len(labels), dtype=torch.bool)
        trained[self.schedule.valid_rows] = False
        return make_task(
            self.settings.task,
            labels,
            self.settings.weights,
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
        targets = targets.cpu() if isinstance(targets, Tensor) else targets
        self._taught = self.task.check_targets(targets, self.owner.rows)
        self.sides.teach(self.task.inside(self._taught))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Compute within the settings: torch's threads, and kernels that repeat on the devices of this process."""
        with threads(self.settings.threads), repeatable([*self.plan.devices, self.owner.device]):
            yield

    # asking

    def evaluate(self, question: Question) -> dict[str, float]:
        """Metrics on a federation with labels."""
        with self._asking(question):
            outputs, labels = self.judged("evaluate", question.rows, self.sides.leader(question.owner))
            return self.task.metrics(outputs, labels)

    def outputs(self, question: Question) -> Tensor:
        """The model's own numbers for a federation's rows, such as logits [rows, classes]."""
        with self._asking(question):
            leader = self.sides.leader(question.owner)
            return self._logits("predict", question.rows, "predict", leader)

    def outputs_each(self, question: Question) -> dict[str, Tensor]:
        """The outputs of every party's own model; parties that are absent have no entry."""
        purpose = question.purpose
        with self._asking(question):
            each = self._in_chunks(
                lambda turn: self.method.predict_each(self.owner, self.parties, turn), purpose, question.rows, purpose
            )
            absent = self.parties.presence.absence.absent
            named = dict(zip(self.parties.names, each, strict=True))
            return {name: logits for name, logits in named.items() if name not in absent}

    def outputs_of_subsets(self, question: Question) -> list[Tensor]:
        """The outputs of every set of the parties, for methods that predict from any; the set of nobody first."""
        purpose = question.purpose
        with self._asking(question):
            return self._in_chunks(
                lambda turn: self.method.predict_subsets(self.owner, self.parties, turn),
                purpose,
                question.rows,
                purpose,
            )

    def evaluate_each(self, question: Question) -> dict[str, dict[str, float]]:
        """Metrics of every party's own model."""
        each = self.outputs_each(question)
        return {name: self.task.metrics(logits, self.owner.tables["evaluate"]) for name, logits in each.items()}

    def importance(self) -> dict[str, float]:
        """One number per party that says how much it matters, for methods that have heads."""
        turn = Turn(self.round, torch.arange(0), purpose="explain")
        with torch.no_grad():
            numbers = self.method.importance(self.owner, self.parties, turn)
        return dict(zip(self.parties.names, numbers.tolist(), strict=True))

    def ask(self, step: Callable[..., R], tables: Sequence[Table], all: Any = None) -> list[R]:
        """Every party's reply to a step beside the method's own, about these tables; the purpose is to explain."""
        self.place("explain", tables, labelled=True)
        turn = Turn(self.round, torch.arange(tables[0].rows), "explain", "explain", self.sides.leader())
        with self.working(), torch.no_grad():
            return [self.owner.device.give(reply) for reply in self.parties.ask(step, turn, all=all)]

    @property
    def privacy(self) -> dict[str, dict[str, Any]]:
        """What each party's releases have cost, for runs with noise: epsilon granted and spent, messages."""
        budgets = {name: self.half.ends[name].budget for name in self.parties.names}
        reported = self.parties.backend.budgets() if self.seals.noise is not None else {}
        return {
            name: {**budget.summary(), **reported.get(name, {})}
            for name, budget in budgets.items()
            if budget is not None
        }

    @contextmanager
    def _asking(self, question: Question) -> Iterator[None]:
        """Place a federation some of whose parties may be absent, and do without them for the duration."""
        tables, labelled = question.tables, question.labelled
        check_federation(tables, labelled=labelled)
        policy = self.settings.missing if question.missing is None else question.missing
        absence = find_absence(self.method, self.seals, self.parties, tables, question.absent, policy)
        whole = completed(tables, self.parties.names, self._shapes, absence.absent)
        self.place(question.purpose, whole, labelled=labelled)
        self.took_part = []
        self.parties.forget_asked()
        with self.working(), self.without(absence):
            yield
        self.took_part = self.present(absence.absent)

    @contextmanager
    def without(self, absence: Absence) -> Iterator[None]:
        """Leave out those who are absent for the duration; refitted heads are put back as they were."""
        names = self.parties.names
        if self.method.any_subset:
            absence = replace(absence, policy="zero")  # the method ignores what stands for the absent
        here = [k for k, name in enumerate(names) if name not in absence.absent]
        refits = absence.policy == "refit" and not absence.training and len(here) < len(names) and self.method.refits
        before = pack(self.owner.kept()) if refits else {}
        with self.parties.presence.leaving_out(absence):
            self.owner.absent = frozenset(range(len(names))) - frozenset(here)
            try:
                if refits:
                    memory = self.half.memory
                    outputs = self.owner.device.bring(memory.outputs(names))
                    self.method.refit(self.owner, outputs, Turn(self.round, memory.rows), here)
                yield
            finally:
                self.owner.absent = frozenset()
                if refits:
                    self.owner.restore(before)

    def present(self, absent: frozenset[str]) -> list[str]:
        """Those who were asked and are not absent."""
        return [name for name in self.parties.asked if name not in absent]

    def judged(self, table: str, rows: Tensor, leader: str) -> tuple[Tensor, Tensor]:
        """Outputs for rows that have labels, and these labels."""
        return self._logits(table, rows, "evaluate", leader), self.owner.tables[table][rows]

    def judged_held_out(self) -> tuple[Tensor, Tensor]:
        """Outputs and labels of the rows that are held out, each owner's by itself."""
        each = zip(self.sides.leaders, self.schedule.held_out, strict=True)
        logits = [self._logits("train", rows, "evaluate", leader) for leader, rows in each if len(rows)]
        return torch.cat(logits), self.owner.tables["train"][self.schedule.valid_rows]

    def _logits(self, table: str, rows: Tensor, purpose: str, leader: str) -> Tensor:
        def predict(turn: Turn) -> list[Tensor]:
            return [self.method.predict(self.owner, self.parties, replace(turn, leader=leader))]

        return self._in_chunks(predict, table, rows, purpose)[0]

    def _in_chunks(
        self, predict: Callable[[Turn], list[Tensor]], table: str, rows: Tensor, purpose: str
    ) -> list[Tensor]:
        modules = [thing for thing in self.owner.kept().values() if isinstance(thing, torch.nn.Module)]
        for module in modules:
            module.eval()
        try:
            with torch.no_grad(), self.half.peaks.naming():
                parts = enumerate(rows.split(PREDICT_ROWS))
                turns = (Turn(self.round, chunk, table, purpose, part=number) for number, chunk in parts)
                chunks = [[output.cpu() for output in predict(turn)] for turn in turns]
        finally:
            for module in modules:
                module.train()
        outputs = [torch.cat(pieces) for pieces in zip(*chunks, strict=True)]
        self.half.peaks.check(outputs, purpose, self.round)
        return outputs

    def place(self, name: str, tables: Sequence[Table], *, labelled: bool) -> None:
        """Put a federation's rows under a name at every side; they must be those of the trained parties."""
        check_federation(tables, labelled=labelled)
        parties = parties_of(tables)
        for what, given, expected in (
            ("names", [table.name for table in parties], self.parties.names),
            ("row shapes", [table.shape for table in parties], self._shapes),
        ):
            if given != expected:
                raise TableError(f"the parties have {what} {given}, but the model was trained on {expected}.")
        check_known_rows(self.method, tables)
        self.parties.place(name, parties)
        self._note_known(name, tables)
        if tables[0].labels is not None:
            self.task.check(tables[0].labels)
            self.owner.tables[name] = tables[0].labels

    def _note_known(self, name: str, tables: Sequence[Table]) -> None:
        """Tell the owner which of a table's rows each party has, as it learnt when the rows were aligned."""
        self.owner.masks.pop(name, None)
        if is_partial(tables):
            self.owner.masks[name] = torch.stack([table.known_rows for table in parties_of(tables)])

    # state

    def states(self) -> dict[str, Packed]:
        """The state of every side, by the name of the side."""
        states = self.sides.states()
        states[OWNER] |= {} if self._taught is None else {"taught": self._taught}
        return states

    def restore(self, states: dict[str, Packed]) -> None:
        """Take back what :meth:`states` gave."""
        self.sides.restore(states)
        if "taught" in states[OWNER]:
            self.teach(states[OWNER]["taught"])
