"""Audit a run folder, or rehearse a job or a method and audit that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colonnade.core.method import Method
from colonnade.core.settings import TrainOptions
from colonnade.core.table import Table
from colonnade.data import load, reload
from colonnade.errors import ConfigError
from colonnade.jobs.job_file import Job
from colonnade.jobs.run_job import gather, plan_of, selected_as
from colonnade.methods import make_method
from colonnade.privacy.audit import Progress, audit
from colonnade.privacy.audit_file import write_audit
from colonnade.privacy.audit_result import Audit
from colonnade.report.summary import read_summary
from colonnade.run.make_plan import make_plan, start
from colonnade.run.train import resume
from colonnade.run.training import Run
from colonnade.runtime.plan import Plan
from colonnade.seal import make_seal
from colonnade.wire.witness import Recording


@dataclass(frozen=True)
class Rehearsal:
    """A training that is done only to be audited."""

    tables: Sequence[Table]
    plan: Plan
    test: Sequence[Table] | None = None
    """Rows that are held out, for what predictions tell of membership."""

    @classmethod
    def of_job(cls, job: Job) -> Rehearsal:
        """The training of a job file, on all its parties."""
        gathered = gather(job)
        return cls(gathered.train, plan_of(job, gathered.train), gathered.tested)

    @classmethod
    def of_method(
        cls,
        name: str,
        options: dict[str, Any],
        seals: Sequence[dict[str, Any]],
        data: dict[str, Any],
        epochs: int | None,
        seed: int,
    ) -> Rehearsal:
        """A method on a named data set."""
        method = make_method(name, **options)
        owner = "first" if method.needs_owner_columns else "labels"
        owners = 2 if method.several_owners else None
        tables, test = load(data["load"], data.get("parties"), rows=data.get("rows"), owner=owner, owners=owners)
        asked = TrainOptions(epochs=epochs, seed=seed).filled()
        return cls(tables, make_plan(tables, method, asked, seal=[make_seal(**entry) for entry in seals]), test)

    @property
    def method(self) -> Method:
        """What is trained."""
        return self.plan.method

    def train(self, on_round: Callable[[Run], None] | None = None) -> Run:
        """Train it, recorded."""
        return start(self.plan, self.tables, record=Recording()).fit(on_round=on_round)

    def audit(self, run: Run, on_progress: Progress | None, **how: Any) -> Audit:
        """The audit of the training; it is kept nowhere."""
        return audit(run, self.tables, test=self.test, progress=on_progress, **how)


def audit_run(folder: Path, job: Job | None, on_progress: Progress | None, **how: Any) -> Audit:
    """The audit of a run folder, which keeps it; ``job`` is needed if the run was trained on files."""
    description = read_summary(folder)["description"]
    tables, test = _tables_of(description, job)
    if tables is None:
        how_else = (
            "pass its --job" if "files" in (description["data"] or {}) else "audit it with cn.audit and its tables"
        )
        raise ConfigError(
            f"the run in {folder} was trained on files or tables, and guesses are judged by those; {how_else}."
        )
    found = audit(resume(folder, tables, train=False), tables, test=test, progress=on_progress, **how)
    return replace(found, written=str(write_audit(found, folder)))


def _tables_of(description: dict[str, Any], job: Job | None) -> tuple[list[Table] | None, list[Table] | None]:
    """The tables that a run was trained on, and those that were held out, as far as they can be had."""
    if job is not None:
        gathered = gather(job, None, description)
        tested = None if gathered.tested is None else selected_as(description, gathered.tested)
        return selected_as(description, gathered.train), tested
    origin = description["data"] or {}
    return (reload(origin), reload(origin | {"part": "test"})) if "load" in origin else (None, None)
