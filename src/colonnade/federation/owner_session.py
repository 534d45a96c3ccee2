"""One job as its owner leads it, be it a training, a prediction or a description: gather, sign, align, stop, end.

:class:`.owner_process.OwnerProcess` trains with it, :class:`.prediction.Prediction` predicts, and
:class:`.owner_description.OwnerDescription` describes columns.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from colonnade.core.table import Table
from colonnade.errors import AwayError, ConfigError, FolderError, printable
from colonnade.federation.audit_log import AuditLog, Fact
from colonnade.federation.end_of_job import EndOfJob
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.listener import Listener
from colonnade.federation.owner_alignment import AlignedRows, align_rows
from colonnade.federation.owner_handshake import OwnerHandshake
from colonnade.federation.owner_transport import Connections, OwnerRecords, OwnerTransport
from colonnade.federation.packet_sample import PacketSample
from colonnade.federation.prometheus import Metrics
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.status_file import StatusFile
from colonnade.federation.terms import LIMIT, job_id
from colonnade.federation.view_record import ViewRecord
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote.remote_backend import RemoteBackend
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.schema import Schema
from colonnade.tables.align.alignment_owner import Progress
from colonnade.tables.sheets import Sheet
from colonnade.wire.ledger import OWNER

log = logging.getLogger(__name__)
R = TypeVar("R")


@dataclass(frozen=True)
class OwnerJob:
    """What is to be done, on which rows of the owner, and where it is kept."""

    terms: dict[str, Any]
    sheet: Sheet
    folder: Path
    """The job's own folder."""
    run_folder: Path
    """The folder of the run that is trained, or that was trained and predicts."""
    rows: np.ndarray | None = None
    """The owner's rows that must be common, in their order, if the job goes on from another."""


class OwnerSession:
    """The owner's end of one job, over all connections and all processes of its parties."""

    def __init__(
        self, job_file: OwnerFile, job: OwnerJob, metrics: Metrics | None = None, connections: Connections | None = None
    ) -> None:
        """``connections`` is what parties connect to; by default a port of this machine."""
        self.job_file, self.name, self.parties = job_file, job_file.own.name, list(job_file.others)
        self.terms, self.sheet, self.identity = job.terms, job.sheet, job_file.keys.identity
        self._due = job.rows
        _check_maximum(job.sheet, self.name, job_file.align.maximum)
        self.folder = JobFolder(job.folder)
        self.folder.take_terms(job.terms)
        self.audit = AuditLog(job.folder / "audit.jsonl", OWNER, job_id(job.terms).hex())
        self.metrics = metrics or Metrics()
        self.connections = connections or _listener(job_file, self.metrics)
        self.status = StatusFile(job.folder, OWNER, job_file.job.name, 0, self.parties)
        self.transport = OwnerTransport(
            self.connections,
            job_file.others,
            os.urandom(16),
            job_file.federation.deadline,
            OwnerRecords(self.audit, self.metrics, self.status, PacketSample(self.parties)),
            enter=lambda party: self.handshake.enter(party),
        )
        self.handshake = OwnerHandshake(job.terms, self.identity, JobFolder(job.run_folder), self.transport)
        self.end = EndOfJob(self.folder, self.transport, self.identity, self.handshake.job)
        self.aligned = AlignedRows()
        self.record = ViewRecord(job.folder, self.audit, self.transport.packets, job_id(job.terms).hex())

    # from the first connection to the common rows

    def gather(self, on_progress: Progress | None = None) -> None:
        """Wait for everybody, have everybody sign the terms, and find the common rows."""
        with self.stopping():
            self.status.state("waiting")
            self.with_all(partial(self._agree, on_progress))

    def with_all(self, work: Callable[[], R]) -> R:
        """Do something with everybody, and do it again from its beginning if a party came back as another process."""
        while True:
            for party in self.parties:
                self.transport.meet(party)
            try:
                return work()
            except AwayError as error:
                if not self.transport.is_absent(error.party):
                    raise
                log.warning("%s", error)

    def check_agreed(self) -> None:
        """Sign and align again, unless the very processes that are here have done so."""
        if not self.handshake.all_agreed:
            self._agree()

    def _agree(self, on_progress: Progress | None = None) -> None:
        """Sign the terms and align rows with the parties' present processes; only complete agreements count."""
        for link in self.handshake.links:
            link.agreed_as = None
        self.handshake.sign_terms()
        self.status.state("aligning")
        self.aligned = align_rows(self.handshake, self.sheet, self.folder, on_progress, self._due)
        for link in self.handshake.links:
            link.agreed_as = link.incarnation

    # what the owner knows of the parties' rows

    def stand_in(self, party: str, like: Table, places: np.ndarray | None = None) -> Table:
        """A table with a party's row shape and the owner's ids, without real values.

        In a left join it says which rows the party has, of those at these ``places`` in the common order, or of all.
        """
        shape, known = self.shape_of(party)["shape"], self.aligned.known.get(party)
        if known is not None and places is not None:
            known = known[places]
        columns = torch.zeros(1, *shape).expand(like.rows, *shape)
        return Table(ids=like.ids, columns=columns, name=party, known=known)

    def shape_of(self, party: str) -> dict[str, Any]:
        """What a party answered to ``prepare``."""
        shape = self.transport.links[party].shape
        assert shape is not None, f"'{party}' was not asked to prepare its rows"
        return shape

    def remote_setup(self, schema: Schema, secret: bytes) -> RemoteSetup:
        """How a run reaches the parties; what the owner's process draws follows from its secret."""
        keys = {name: key for name, key in self.handshake.keys.items() if name != self.name}
        secrets = dict.fromkeys((OWNER, self.name), secret)
        return RemoteSetup(lambda _: self.transport, schema, self.handshake.job, keys=keys, secrets=secrets)

    # the end

    def stopping(self) -> AbstractContextManager[None]:
        """Give signs of life during the work; if it ends with an error, tell everybody why."""
        return self.status.working(self._stop, "the owner was interrupted.")

    def tell_end(self, parties: AllParties | None = None) -> None:
        """Tell everybody that the job is over: by a request of the run, or by a word if there is no run any more."""
        if parties is None:
            with self.stopping():
                self.end.tell(self.parties)
            return
        backend = parties.backend
        assert isinstance(backend, RemoteBackend)
        self.end.tell(backend.parties, lambda party: backend.parties[party].end())

    def finish(self, **facts: Fact) -> None:
        """Note that the job is finished, and seal the audit log."""
        self.status.state("finished")
        self.audit.event("finished", **facts)
        self.audit.seal(self.identity)

    def close(self) -> None:
        """Hang up and close all files."""
        self.connections.close()
        self.audit.close()

    def _stop(self, why: str) -> None:
        for party in self.parties:
            self.connections.hang_up(party, printable(f"the owner stopped: {why}"))
        self.connections.close()
        with suppress(FolderError):  # a full disk may be what it ends by
            self.status.state("stopped", why)
            self.audit.event("stopped", why=why)


def _check_maximum(sheet: Sheet, name: str, most: int | None) -> None:
    """Refuse terms under which this owner cannot take part, before anybody signs them."""
    if most is not None and len(sheet.ids) > most:
        raise ConfigError(
            f"'{name}' brings {len(sheet.ids)} ids and maximum = {most} in [align] is for every side; "
            "bring fewer rows, or raise it."
        )


def _listener(job_file: OwnerFile, metrics: Metrics) -> Listener:
    return Listener(
        job_file.federation.listen,
        job_file.keys.credentials,
        list(job_file.others),
        limit=LIMIT,
        crl=job_file.keys.crl,
        turned_away=metrics.turned_away,
    )
