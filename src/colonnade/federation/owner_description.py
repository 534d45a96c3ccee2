"""The owner of a federation that describes columns: what every party's columns say about its labels.

A description is a job of its own, with terms of its own, which every party signs and counts. What comes before, from
the first connection to the common rows, and the end are :class:`.owner_session.OwnerSession`. The owner's keys and
ciphertexts follow from its folder's secret and its labels: an owner that is started again sends the same, because a
party answers one set of labels in a job.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from colonnade.core.randomness import Randomness
from colonnade.core.table import Table
from colonnade.description.describe_owner import DescribeOwner
from colonnade.description.describe_tables import least_of, put_together, targets_under
from colonnade.description.description_result import Description
from colonnade.description.label_targets import LabelTargets
from colonnade.disk.small_files import read_kept
from colonnade.disk.whole_files import write_text
from colonnade.errors import CheckpointError
from colonnade.federation.description_rules import rules_in
from colonnade.federation.job_parts import labels_in, parts_at_owner, prepared, sheet_of
from colonnade.federation.owner_handshake import CommonRows
from colonnade.federation.owner_session import OwnerJob, OwnerSession
from colonnade.federation.owner_transport import Connections
from colonnade.federation.prometheus import Metrics
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.terms import description_terms, digest
from colonnade.federation.told_rows import digest_of_rows, told_rows
from colonnade.report.description_page import description_page
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.schema import Schema
from colonnade.runtime.setup import remote_parties
from colonnade.seal.elgamal import check_elgamal
from colonnade.tables.align.alignment_owner import Progress
from colonnade.wire.ends import Ends
from colonnade.wire.owner_half import OwnerHalf

FILE = "description.json"


class OwnerDescription:
    """One description of a federation's columns, as its owner leads it."""

    def __init__(
        self, job_file: OwnerFile, folder: Path, metrics: Metrics | None = None, listener: Connections | None = None
    ) -> None:
        """``listener`` is what parties connect to; by default a port of this machine."""
        check_elgamal()
        self.job_file, self.folder = job_file, folder
        sheet = sheet_of(job_file.own, job_file.beside, job_file.align.normalise)
        if job_file.prepare.by_date is not None:
            job_file.prepare.by_date.check(sheet)
        self.terms = description_terms(job_file)
        self.rules = rules_in(self.terms)
        self.session = OwnerSession(job_file, OwnerJob(self.terms, sheet, folder, folder), metrics, listener)

    def gather(self, on_progress: Progress | None = None) -> None:
        """From the first hello to everybody's common rows."""
        self.session.gather(on_progress)

    def describe(self) -> Description:
        """What all columns say; the result is in the folder before the parties are told that the job is over."""
        session = self.session
        with session.stopping():
            found, parties = session.with_all(self._described)
            self._keep(found)
            session.tell_end(parties)
        session.finish(rows=found.rows)
        return found

    def finished(self) -> Description | None:
        """The result of a description that ended before; parties that were not told of the end are told now."""
        if not self.session.end.is_over:
            return None
        kept = read_kept(self.folder / FILE, dict, "; describe again in another folder")
        if kept is None:
            raise CheckpointError(f"{self.folder} has no {FILE} any more; describe again in another folder.")
        self.session.tell_end()
        self.session.status.state("finished")
        return Description.from_json(kept)

    def close(self) -> None:
        """Hang up and close all files."""
        self.session.close()

    def _keep(self, found: Description) -> None:
        """Write the result, for machines and for people."""
        write_text(self.folder / FILE, json.dumps({**found.to_json(), "ledger": found.ledger.to_json()}), durable=True)
        write_text(self.folder / "report.html", description_page(found, self.terms["job"]))
        for table in ("columns", "bins"):
            write_text(self.folder / f"{table}.csv", found.to_csv(table))

    def _described(self) -> tuple[Description, AllParties]:
        """The description, by the parties' present processes."""
        session, began = self.session, time.process_time()
        session.check_agreed()
        own, later = self._tables()
        targets = targets_under(own, self.job_file.job.train.task, self.rules)
        half = OwnerHalf(Ends())
        setup = RemoteSetup(connect=lambda _: session.transport, schema=Schema.unchecked(), job=session.handshake.job)
        parties = remote_parties(session.parties, [], half, setup, session.transport)
        secret = Randomness(0, session.folder.secret).key("describe labels")
        owner = DescribeOwner(parties, targets, least=least_of(own.name, self.rules), secret=secret)
        session.handshake.sign_plan(self._plan(own, later, targets))
        session.folder.keep_plan(session.handshake.plan)
        session.status.state("describing")
        told = owner.run()
        seconds = time.process_time() - began
        return put_together(own, later, targets, self.rules, told, half.ledger, seconds), parties

    def _tables(self) -> tuple[Table, Table | None]:
        """The owner's rows to describe, and later ones if there are some; everybody prepares its own."""
        session, rows = self.session, self.session.aligned.rows
        kind = labels_in(session.sheet, self.terms)
        parts = parts_at_owner(session.sheet, rows, self.terms)
        told = {} if parts.dates is None else told_rows(parts, len(rows))
        own, later = prepared(session.sheet, rows, parts, self.terms, kind)
        session.handshake.prepare(CommonRows(session.aligned.proofs, own.rows, len(parts.test), told))
        return own, later if len(parts.test) else None

    def _plan(self, own: Table, later: Table | None, targets: LabelTargets) -> dict[str, Any]:
        """What everybody is asked to sign: how many rows, and which numbers the encrypted labels may be."""
        told = self.session.handshake.told
        labels = {"targets": len(targets.names), "bound": targets.bound, "together": targets.together}
        return {
            "terms": digest(self.terms).hex(),
            "describe": {"rows": own.rows, **labels},
            "test": 0 if later is None else later.rows,
            **({"split": digest_of_rows(told)} if told else {}),
        }
