"""What a job will cost between organisations, before it is done: a rehearsal in this process, over any line."""

from __future__ import annotations

import time

from colonnade.core.table import parties_of
from colonnade.jobs.job_file import Job
from colonnade.jobs.run_job import Gathered, gather, plan_of
from colonnade.jobs.table_sections import Files, Progress
from colonnade.study.cost.estimate import BeforeTraining, CostEstimate
from colonnade.study.cost.timed_rounds import timed_parts
from colonnade.wire.ledger import OWNER


def plan_job(job: Job, on_progress: Progress | None = None) -> CostEstimate:
    """The cost of a job: its tables are gathered, aligned and prepared as it says, and a few rounds are timed."""
    began = time.perf_counter()
    tables = gather(job, on_progress)
    computing = time.perf_counter() - began if isinstance(job.data, Files) else 0.0
    plan = plan_of(job, tables.train, runtime="apart")
    parts = timed_parts(plan, tables.train, tables.tested)
    return CostEstimate(plan.settings.rounds, _before(tables, computing), parts)


def assumptions(job: Job) -> list[str]:
    """What an estimate takes for granted, one sentence each."""
    said = [
        "Every side computes as fast as this machine and by itself; all parties share the owner's line.",
        "Not counted: starting processes, TLS and audit logs, TCP's slow start and headers, lost packets.",
    ]
    if job.train.stop_drop is not None:
        said.append("Early stopping cannot be known before: all rounds are counted, which is the most there can be.")
    if isinstance(job.data, Files):
        said.append("Reading, alignment and preparation are counted as they went here, one side after the other.")
    else:
        said.append("The job has a named data set: alignment and preparation are not counted.")
    if job.select is not None:
        said.append("[select] is not counted: the rounds are those of all parties.")
    return said


def _before(tables: Gathered, computing: float) -> BeforeTraining:
    names = [table.name for table in parties_of(tables.train)]
    others = len(names) - (tables.train[0].columns is not None)
    if tables.alignment is None:
        return BeforeTraining(others)
    lines = tables.alignment.ledger.rows
    asked = [line for line in lines if line.sender == OWNER]
    down = sum(line.total for line in asked)
    up = sum(line.total for line in lines) - down
    return BeforeTraining(others, sum(line.messages for line in asked), down, up, computing)
