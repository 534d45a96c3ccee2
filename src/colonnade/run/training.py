"""A run: its model, its history, its ledger, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from torch import Tensor

from colonnade.core.option_names import accepts_old_names
from colonnade.core.settings import Settings
from colonnade.core.state import Packed
from colonnade.core.table import Table, owners_of
from colonnade.core.table_outline import html_of_outline
from colonnade.errors import ConfigError, TableError
from colonnade.run import run_files, training_loop
from colonnade.run.absence import DropOuts
from colonnade.run.findings import map_findings
from colonnade.run.model import Model, Question
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.store.view_files import ViewFolder, has_view, read_view
from colonnade.tables.sheets import Sheet
from colonnade.wire.view import View
from colonnade.wire.witness import Recording

__all__ = ["Run", "Settings"]

R = TypeVar("R")


@final
class Run:
    """A training run: its history, its ledger, its model, and what can be asked of them."""

    def __init__(
        self,
        tables: Sequence[Table],
        plan: Plan,
        *,
        folder: Path | None = None,
        description: dict[str, Any] | None = None,
        remote: RemoteSetup | None = None,
        secrets: Mapping[str, bytes] | None = None,
        opened: bool = False,
    ) -> None:
        """``opened``: without the tables that it was trained on, to predict only."""
        self.description = description or {}
        asked = None if remote is None else remote.record
        record = Recording(**self.description["record"]) if "record" in self.description and not opened else asked
        self.model = model = Model(tables, plan, remote=remote, secrets=secrets, record=record)
        self.method, self.task, self.seals, self.names = model.method, model.task, model.seals, model.names
        self.owner, self.parties, self.ledger, self.schedule = model.owner, model.parties, model.ledger, model.schedule
        self.settings, self.folder, self.opened = plan.settings, folder, opened
        self.preparations = {table.name: table.preparation for table in tables if table.preparation is not None}
        self.dates: np.ndarray | None = None if len(owners_of(tables)) > 1 else tables[0].dates  # of the training rows
        self.ids: np.ndarray = tables[0].ids  # of the training rows
        self.history: list[dict[str, float]] = []
        self.findings: dict[str, Any] = {}  # what a report shows of the model that is kept
        self.seconds = 0.0
        self.stopped = False
        self.skipped = 0  # rounds that were left out because a party was absent
        self.without = 0  # rounds that went on without a party
        self.missed = dict.fromkeys(self.parties.names, 0)  # how many rounds each party was absent from
        self.losses: list[float] = []  # of the rounds since the last evaluation
        self.best: dict[str, Packed] = {}  # the states of the best model, if early stopping keeps one
        self.last_states: dict[str, Packed] = {}  # where training would go on, while the best is in place
        self.loaded_states: dict[str, Packed] = {}  # what the newest checkpoint said, as it was taken back
        self.evaluated: dict[str, Any] = {}  # what a report shows of the last evaluation
        self.test_tables: Sequence[Table] | None = None
        self.view_folders: dict[Path, ViewFolder] = {}  # where its view was written, with what is there

    def __repr__(self) -> str:
        return f"Run({', '.join(f'{what}: {said}' for what, said in self._outline())})"

    def _repr_html_(self) -> str:
        return html_of_outline("Run", self._outline())

    def _outline(self) -> list[tuple[str, str]]:
        """What a notebook shows of the run."""
        metrics = self.history[-1] if self.history else {}
        said = [(name, f"{value:.4g}") for name, value in metrics.items() if name not in ("round", "seconds")]
        parties = ("parties", ", ".join(self.parties.names))
        rounds = ("rounds", f"{self.round:,} of {self.settings.rounds:,}")
        return [("method", self.method.name), parties, rounds, *said, ("bytes sent", f"{self.ledger.total:,}")]

    # what the run is made of

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return self.model.round

    @property
    def took_part(self) -> list[str]:
        """Whose answers the last round, prediction or evaluation is made of."""
        return self.model.took_part

    @property
    def privacy(self) -> dict[str, dict[str, Any]]:
        """What each party's releases have cost, for runs with noise: epsilon granted and spent, messages."""
        return self.model.privacy

    @property
    def is_recorded(self) -> bool:
        """Whether there is a view of this run."""
        return self.model.witness is not None or (self.folder is not None and has_view(self.folder))

    @property
    def view(self) -> View:
        """What travelled, as far as it was recorded: of a sample of rows, in some epochs; see ``record`` of train."""
        if self.model.witness is not None:
            return self.model.witness.view()
        if self.folder is not None and self.is_recorded:
            return read_view(self.folder)[0]
        raise ConfigError(
            "nothing was recorded of this run; train it with record=True, or give its tables to "
            "colonnade.privacy.replay.replayed."
        )

    def teach(self, targets: Tensor) -> None:
        """Train on these soft targets of the training table instead of its labels: [rows, classes], for instance."""
        self.model.teach(targets)

    # asking

    @accepts_old_names
    def evaluate(
        self,
        tables: Sequence[Table],
        *,
        absent: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> dict[str, float]:
        """Metrics on a federation with labels; see :meth:`predict` for parties that are absent and several owners."""
        with self.releasing():
            return self.model.evaluate(Question("evaluate", tables, absent, missing, owner))

    @accepts_old_names
    def predict(
        self,
        tables: Sequence[Table],
        *,
        absent: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> Tensor:
        """What the model says of a federation, with or without labels.

        That is probabilities [rows, classes] of classes, values [rows] in the labels' own units, or the probability
        [rows, labels] of each of several labels.
        Parties named in ``absent``, or whose table is not there, are not asked; ``missing`` says what stands for their
        answers ("refuse", "zero", "mean", "refit"; by default the run's policy). ``run.took_part`` says who answered.
        ``owner`` names which of several owners predicts, by default the first.
        """
        return self.task.predictions(self.outputs(tables, absent=absent, missing=missing, owner=owner))

    @accepts_old_names
    def outputs(
        self,
        tables: Sequence[Table],
        *,
        absent: Sequence[str] = (),
        missing: str | None = None,
        owner: str | None = None,
    ) -> Tensor:
        """What :meth:`predict` makes its predictions of: the model's own numbers, such as logits [rows, classes]."""
        if any(isinstance(table, Sheet) for table in tables):
            raise TableError("sheets came where tables were expected; colonnade.score(run, sheets) aligns them first.")
        with self.releasing():
            return self.model.outputs(Question("predict", tables, absent, missing, owner))

    @accepts_old_names
    def evaluate_each(
        self, tables: Sequence[Table], *, absent: Sequence[str] = (), missing: str | None = None
    ) -> dict[str, dict[str, float]]:
        """Metrics of every party's own model on a federation with labels; see :meth:`predict_each`."""
        with self.releasing():
            return self.model.evaluate_each(Question("evaluate", tables, absent, missing))

    @accepts_old_names
    def predict_each(
        self, tables: Sequence[Table], *, absent: Sequence[str] = (), missing: str | None = None
    ) -> dict[str, Tensor]:
        """What :meth:`predict` gives, by every party's own model, for methods that train one per party.

        Parties that are absent (see :meth:`predict`) have no entry; the others' models do without their answers.
        """
        with self.releasing():
            each = self.model.outputs_each(Question("predict", tables, absent, missing))
        return {name: self.task.predictions(logits) for name, logits in each.items()}

    def importance(self) -> dict[str, float]:
        """One number per party that says how much it matters, for methods that have heads."""
        numbers = self.model.importance()
        self.findings["importance"] = dict(numbers)  # some methods ask the parties for it, and a report asks nobody
        return numbers

    def ask(self, step: Callable[..., R], tables: Sequence[Table], all: Any = None) -> list[R]:
        """Every party's reply to a step beside the method's own, about these tables; the purpose is to explain."""
        return self.model.ask(step, tables, all)

    @contextmanager
    def releasing(self) -> Iterator[None]:
        """Write down what the parties' budgets paid, however asking them ends."""
        try:
            yield
        finally:
            run_files.write_budgets(self)

    # training

    @accepts_old_names
    def fit(
        self,
        test: Sequence[Table] | None = None,
        on_round: Callable[[Run], None] | None = None,
        absent: DropOuts | None = None,
    ) -> Run:
        """Train from the present round to the last one, evaluating and saving on the way.

        ``absent`` simulates drop-outs: called with a round's number, from 0, it gives the names of absent parties.
        """
        return training_loop.fit(self, test, on_round, absent)

    def use_best(self) -> Run:
        """Put the best model in place, if early stopping kept one."""
        return training_loop.use_best(self)

    def prolong(self, rounds: int) -> None:
        """Let training go on to a later last round."""
        self.settings = replace(self.settings, rounds=max(rounds, self.settings.rounds))
        self.method.check_batch(self.schedule.smallest_batch(self.settings.rounds))

    # saving

    @property
    def states_to_save(self) -> dict[str, Packed]:
        """Where training would go on."""
        return self.last_states or self.model.states()

    def save(self, path: str | Path) -> Path:
        """Write the run to a folder from which :func:`colonnade.resume` reads it."""
        return run_files.save(self, Path(path))

    def load(self, folder: Path) -> None:
        """Take back the newest checkpoint of a folder."""
        states, facts = run_files.read(self, folder)
        self.loaded_states = {name: state for name, state in states.items() if not name.startswith("best-")}
        self.model.restore(self.loaded_states)
        self.best = {name.removeprefix("best-"): state for name, state in states.items() if name.startswith("best-")}
        self.ledger.replace(facts["ledger"])
        self.history, self.losses = facts["history"], facts["losses"]
        self.model.round, self.seconds, self.stopped = facts["round"], facts["seconds"], facts["stopped"]
        self.skipped, self.without = facts.get("skipped", 0), facts.get("without", 0)
        self.missed |= facts.get("missed", {})
        self.findings = facts.get("findings", {})
        run_files.read_budgets(self, folder)
        run_files.go_on_with_view(self, folder)

    def report(self, path: str | Path, *, maps: Any = None, pictures: bool = False) -> Path:
        """Write one self-contained HTML page about this run; it is the owner's, made of its labels.

        ``maps`` are embedding maps to show, with ``points`` per party and ``labels``; they stay with the run.
        ``pictures`` puts every picture as SVG and its numbers as CSV beside the page.
        """
        from colonnade.report.run_pages import write_report  # the edge draws pictures; the loop must not depend on it

        if maps is not None:
            self.findings |= map_findings(maps)
        return write_report([self.summary()], path, pictures=pictures)

    def summarise(self, tables: Sequence[Table], keep: float = 0.5, **options: Any) -> Run:
        """Train once more with the parties that matter most, or least; see :func:`colonnade.summarise`."""
        from colonnade.study.summarisation import summarise  # it trains, which is above a run

        return summarise(self, tables, keep, **options)

    def summary(self) -> dict[str, Any]:
        """What a report needs to know, as plain data."""
        return {**run_files.facts_of(self), "ledger": self.ledger.to_json(), "parties": self.parties.names}
