"""The owner of a federation that trains: its tables, the plan, and the run.

What comes before, from the first connection to the common rows, and the end are :class:`.owner_session.OwnerSession`.
After a party, or the owner, came back as another process, the run goes back to its newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from colonnade import models
from colonnade.core.table import Table
from colonnade.federation.absence_notice import AbsenceNotice
from colonnade.federation.extended_job import ExtendedJob
from colonnade.federation.job_parts import labels_in, parts_at_owner, prepared, sheet_of
from colonnade.federation.network_sizes import check_networks
from colonnade.federation.owner_handshake import CommonRows
from colonnade.federation.owner_session import OwnerJob, OwnerSession
from colonnade.federation.owner_transport import Connections
from colonnade.federation.plan_document import plan_document
from colonnade.federation.prometheus import Metrics
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.terms import terms_of
from colonnade.federation.told_rows import digest_of_rows, told_rows
from colonnade.jobs.run_job import plan_of
from colonnade.report.summary import read_summary
from colonnade.run.make_plan import start
from colonnade.run.rehearsal import outputs_of, rehearse_tables
from colonnade.run.training import Run
from colonnade.runtime.plan import Plan
from colonnade.runtime.schema import Schema
from colonnade.store import checkpoint
from colonnade.tables.align.alignment_owner import Progress
from colonnade.wire.ledger import OWNER


class OwnerProcess:
    """One training of a federation, as its owner leads it."""

    def __init__(
        self, job_file: OwnerFile, folder: Path, metrics: Metrics | None = None, listener: Connections | None = None
    ) -> None:
        """``listener`` is what parties connect to; by default a port of this machine."""
        self.job_file, self.folder = job_file, folder
        sheet = sheet_of(job_file.own, job_file.beside, job_file.align.normalise)
        if job_file.prepare.by_date is not None:
            job_file.prepare.by_date.check(sheet)
        self.extended = ExtendedJob.of(job_file)
        terms = terms_of(job_file) if self.extended is None else self.extended.terms_of(job_file)
        rows = None if self.extended is None else self.extended.rows(sheet)
        job = OwnerJob(terms, sheet, folder, run_folder=folder, rows=rows)
        self.session = OwnerSession(job_file, job, metrics, listener)
        self.terms = job.terms
        if self.extended is not None:
            self.extended.hand_on(folder)

    def gather(self, on_progress: Progress | None = None) -> None:
        """From the first hello to everybody's common rows."""
        self.session.gather(on_progress)

    def train(self, on_round: Callable[[Run], None] | None = None) -> Run:
        """From the plan to the last round; in a folder with checkpoints, from the newest of them."""
        session = self.session
        with session.stopping():
            run, test = session.with_all(self._ready)
            session.status.state("training")
            absence = AbsenceNotice(run)

            def after(done: Run) -> None:
                absence.look(done)
                session.record.note()
                session.status.round(done.round)
                session.metrics.round_done(done.round)
                if on_round is not None:
                    on_round(done)

            run.fit(test or None, after)
            session.record.note()
            run.report(self.folder / "report.html")
            session.tell_end(run.parties)
        session.finish(rounds=run.round)
        return run

    def finished(self) -> dict[str, Any] | None:
        """The summary of a run that ended before; parties that were not told of the end are told now."""
        if not self.session.end.is_over:
            return None
        self.session.tell_end()
        self.session.status.state("finished")
        return read_summary(self.folder)

    def close(self) -> None:
        """Hang up and close all files."""
        self.session.close()

    # the run

    def _ready(self) -> tuple[Run, list[Table]]:
        """The run before its first round or at its newest checkpoint, and the tables to test on."""
        self.session.check_agreed()
        train, test = self._tables()
        return self._begin(train), test

    def _tables(self) -> tuple[list[Table], list[Table]]:
        """The owner's own tables, and for every party a table of its width without real values."""
        session, rows = self.session, self.session.aligned.rows
        kind = labels_in(session.sheet, self.terms)
        parts = parts_at_owner(session.sheet, rows, self.terms)
        told = {} if parts.dates is None else told_rows(parts, len(rows))
        own, test_rows = prepared(session.sheet, rows, parts, self.terms, kind), len(parts.test)
        session.handshake.prepare(CommonRows(session.aligned.proofs, own[0].rows, test_rows, told))
        places = parts.train, parts.test if test_rows else parts.both[:1]
        train, test = (
            [table, *(session.stand_in(party, table, where) for party in session.parties)]
            for table, where in zip(own, places, strict=True)
        )
        facts = {"job": self.terms["job"], "terms": session.handshake.job.hex()}
        split = self.terms["prepare"].get("split")
        origin = {"federation": facts | ({} if split is None else {"split": split})}
        train[0] = replace(train[0], origin=origin)
        return train, test if test_rows else []

    def _begin(self, tables: list[Table]) -> Run:
        session, handshake = self.session, self.session.handshake
        what = plan_of(self.job_file.job, tables, model=self._networks(tables[0]), runtime="federation")
        outputs = outputs_of(tables, what.settings.task)
        check_networks(tables, what.method, what.models, what.optimizers, outputs)
        schema = rehearse_tables(tables, what)
        session.status.describe(self.job_file.job.name, what.settings.rounds)
        handshake.sign_plan(self._planned(what, tables, schema))
        session.folder.keep_plan(handshake.plan)
        record = self.job_file.audit.of(OWNER)
        run = start(what, tables, self.folder, session.remote_setup(schema, session.folder.secret), record=record)
        if checkpoint.is_there(self.folder / "checkpoints"):
            run.load(self.folder)
        else:
            run.ledger.add(session.aligned.ledger)
            if self.extended is not None:
                run.owner.replies.update(self.extended.replies_of(self.terms))
        if run.model.witness is not None:
            session.record.follow(run.model.witness)
            session.folder.note_for_audit(self.job_file.path, {})
        return run

    def _networks(self, own: Table) -> Any:
        """The networks of the job file, or for each side the usual one for its columns."""
        codes = [own.cardinalities] if own.columns is not None else []
        codes += [tuple(self.session.shape_of(party)["cardinalities"]) for party in self.session.parties]
        return self.job_file.job.model or [models.default_for(cardinalities) for cardinalities in codes]

    def _planned(self, what: Plan, tables: list[Table], schema: Schema) -> dict[str, Any]:
        """The plan that everybody is asked to sign."""
        shapes = [[table.name, table.rows, list(table.shape)] for table in tables]
        outputs = outputs_of(tables, what.settings.task)
        test, told = int(self.session.shape_of(self.session.parties[0])["test"]), self.session.handshake.told
        split = digest_of_rows(told) if told else None
        return plan_document(self.terms, what, shapes, outputs, test, schema.to_json(), split)
