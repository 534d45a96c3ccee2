"""The owner of a federation: waits for its parties, has everybody sign, aligns, plans, and trains.

All of it is asked of the parties in the same order whenever one of them, or the owner, comes back as another process:
hello, terms, signatures, rows, plan, signatures, begin. Then the run goes back to its newest checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from colonnade import models
from colonnade.core import optim
from colonnade.core.table import Table
from colonnade.errors import AwayError, ColonnadeError, ConfigError, FolderError, ManifestError, MessageError, printable
from colonnade.federation.absence_notice import Absent
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.end_of_job import EndOfJob
from colonnade.federation.handshake import Facts, hex_of, hexed
from colonnade.federation.hello import check_hello
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_parts import align_terms, held_out, prepared, session_of, sheet_of
from colonnade.federation.listener import Listener
from colonnade.federation.network_sizes import check_networks
from colonnade.federation.owner_transport import REFUSED, Connections, OwnerTransport
from colonnade.federation.prometheus import Metrics
from colonnade.federation.side_sections import OwnerFile
from colonnade.federation.status_file import StatusFile
from colonnade.federation.terms import LIMIT, check_signatures, digest, job_id, keys_in, sign, terms_of
from colonnade.jobs.run_job import plan_of
from colonnade.report.summary import read_summary
from colonnade.run.plan import Plan, start
from colonnade.run.rehearsal import outputs_of, rehearse_tables
from colonnade.run.training import Run
from colonnade.runtime.parties import Named
from colonnade.runtime.remote.remote_parties import RemoteParties
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.schema import Schema
from colonnade.store import checkpoint
from colonnade.tables.align.align_sheets import AlignmentGroup
from colonnade.tables.align.alignment_owner import AlignmentOwner, Progress
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.tables.align.id_texts import texts
from colonnade.tables.sheets import Sheet
from colonnade.wire.channel import Channel
from colonnade.wire.ledger import OWNER, Ledger

log = logging.getLogger(__name__)
R = TypeVar("R")


class OwnerProcess:
    """One run of a federation's job, as its owner leads it."""

    def __init__(
        self,
        paper: OwnerFile,
        folder: Path,
        metrics: Metrics | None = None,
        listener: Connections | None = None,
        *,
        terms: dict[str, Any] | None = None,
        sheet: Sheet | None = None,
    ) -> None:
        """``listener`` is what parties connect to; by default a port of this machine."""
        self.paper, self.folder, self.name = paper, folder, paper.own.name
        self.terms = terms or terms_of(paper)
        self.keys = keys_in(self.terms)
        self.sheet = sheet or sheet_of(paper.own, paper.beside, paper.align.normalise)
        self._check_maximum(paper.align.maximum)
        self.desk = JobFolder(folder)
        self.desk.take_terms(self.terms)
        self.job = job_id(self.terms)
        self.incarnation = os.urandom(16)
        self.audit = AuditLog(folder / "audit.jsonl", OWNER, self.job.hex())
        self.metrics = metrics or Metrics()
        self.listener: Connections = listener or Listener(
            paper.federation.listen,
            paper.keys.credentials,
            list(paper.others),
            limit=LIMIT,
            crl=paper.keys.crl,
            turned_away=self.metrics.turned_away,
        )
        self.status = StatusFile(folder, OWNER, paper.job.name, 0, list(paper.others))
        self.lines = OwnerTransport(
            self.listener,
            paper.federation.deadline,
            self.audit,
            self.metrics,
            self.status,
            self._enter,
            self._check_hello,
            self.incarnation,
        )
        self.end = EndOfJob(self.desk, self.lines, paper.keys.identity, self.job)
        self._signed: dict[str, dict[str, bytes]] = {"terms": {}, "plan": {}}
        self._shapes: dict[str, Facts] = {}
        self._incarnations: dict[str, bytes] = {}
        self._agreed_with: dict[str, bytes] = {}  # the incarnations that signed and aligned
        self._visits = 0
        self._rows, self._ledger, self._proof = np.empty(0, np.int64), Ledger(), ""
        self._plan: dict[str, Any] = {}

    def _check_maximum(self, most: int | None) -> None:
        """Say so before anybody signs terms under which we cannot take part."""
        if most is not None and len(self.sheet.ids) > most:
            raise ConfigError(
                f"'{self.name}' brings {len(self.sheet.ids)} ids and maximum = {most} in [align] is for every side; "
                "bring fewer rows, or raise it."
            )

    # the whole

    def gather(self, on_progress: Progress | None = None) -> None:
        """From the first hello to everybody's common rows."""
        with self._stopping():
            self.status.state("waiting")
            self._with_all(lambda: self._agree(on_progress))

    def train(self, on_round: Callable[[Run], None] | None = None) -> Run:
        """From the plan to the last round; in a folder with checkpoints, from the newest of them."""
        with self._stopping():
            run, test = self._with_all(self._ready)
            self.status.state("training")
            absent = Absent(run)

            def after(done: Run) -> None:
                absent.look(done)
                self.status.round(done.round)
                self.metrics.round_done(done.round)
                if on_round is not None:
                    on_round(done)

            run.fit(test or None, after)
            run.report(self.folder / "report.html")
            self._tell_end(run)
        self.status.state("finished")
        self.audit.event("finished", rounds=run.round)
        self.audit.seal(self.paper.keys.identity)
        return run

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Tell everybody why, if it ends here."""
        try:
            with self.status.beating():
                yield
        except ColonnadeError as error:
            self._stop(str(error))
            raise
        except KeyboardInterrupt:
            self._stop("the owner was interrupted.")
            raise

    def _stop(self, why: str) -> None:
        for party in self.paper.others:
            self.listener.hang_up(party, printable(f"the owner stopped: {why}"))
        self.listener.close()
        with suppress(FolderError):  # a full disk may be what it ends by
            self.status.state("stopped", why)
            self.audit.event("stopped", why=why)

    def close(self) -> None:
        """Hang up and close all files."""
        self.listener.close()
        self.audit.close()

    # who is there, and that everybody signed

    def _with_all(self, work: Callable[[], R]) -> R:
        """Do something with everybody, and from its beginning again if a party came back as another process."""
        while True:
            for party in self.paper.others:
                self.lines.meet(party)
            try:
                return work()
            except AwayError as error:
                if not self.lines.is_away(error.party):
                    raise
                log.warning("%s", error)

    def _agree(self, on_progress: Progress | None = None) -> None:
        """From terms to rows, with the very processes that are here."""
        self._agreed_with = dict(self._incarnations)
        self._gather_terms()
        self._rows, self._ledger = self._align(on_progress)

    def _ready(self) -> tuple[Run, list[Table]]:
        """The run before its first round, or where it was."""
        if self._agreed_with != self._incarnations:
            self._agree()
        train, test = self._tables(self._rows)
        return self._begin(train, self._ledger), test

    def finished(self) -> dict[str, Any] | None:
        """The summary of a run that came to its end before; whoever has not heard of that is told now."""
        if not self.end.came:
            return None
        with self._stopping():
            self.end.tell(self.paper.others)
        self.status.state("finished")
        return read_summary(self.folder)

    def _tell_end(self, run: Run) -> None:
        """Let everybody go; the run is done, so nobody is waited for longer than once."""
        assert isinstance(run.parties, RemoteParties)
        self.end.tell(run.parties.far, partial(run.parties.call, "end"))

    @property
    def run_number(self) -> bytes:
        """What parties know the run by: with another number it begins afresh."""
        return self.desk.run

    def _gather_terms(self) -> None:
        self._signed["terms"] = {self.name: sign(self.paper.keys.identity, "terms", self.terms)}
        for party in self.paper.others:
            self._sign_terms(party)
        check_signatures(self.keys, "terms", self.terms, self._signed["terms"])
        self.audit.event("terms signed by all", digest=digest(self.terms).hex())

    def _check_hello(self, party: str, said: Facts) -> None:
        try:
            self._incarnations[party] = check_hello(party, said, self.keys[party], self.incarnation)
        except ColonnadeError as error:
            self.listener.hang_up(party, printable(f"{REFUSED}: {error}"))
            raise

    def _sign_terms(self, party: str) -> None:
        own = self._signed["terms"][self.name].hex()
        said = self.lines.talk(party, "terms", {"terms": self.terms, "signature": own, "run": self.run_number.hex()})
        self._signed["terms"][party] = hex_of(said, "signature", 64)

    def _tell_signed(self, party: str) -> str:
        said = self.lines.talk(party, "signed", {"signatures": hexed(self._signed["terms"])})
        return str(said["aligned"])

    # rows

    def _align(self, on_progress: Progress | None) -> tuple[np.ndarray, Ledger]:
        """The owner's common rows: those that all sides have kept of an alignment before, or of a new one."""
        self.status.state("aligning")
        kept = self.desk.rows(self.sheet.digest)
        theirs = {party: self._tell_signed(party) for party in self.paper.others}
        if kept is not None and set(theirs.values()) == {kept[1]["proof"]}:
            rows, facts = kept
            ledger = Ledger()
            ledger.replace(facts["ledger"])
        else:
            for party in self.paper.others:
                self._open(party, "align", {})
            rows, facts, ledger = self._aligned(on_progress)
            self.desk.keep_rows(rows, facts)
        self._proof = facts["proof"]
        return rows, ledger

    def _aligned(self, on_progress: Progress | None) -> tuple[np.ndarray, dict[str, Any], Ledger]:
        terms = align_terms(self.terms)
        keys = {OWNER if name == self.name else name: key for name, key in self.keys.items()}
        seat = AlignmentGroup(
            0, AlignmentParty(terms, 0, texts(self.sheet.ids, self.name), self.paper.keys.identity, keys)
        )
        channel = Channel()
        sides: list[Named] = [seat, *(_RemoteName(name) for name in terms.names[1:])]
        AlignmentOwner(
            RemoteParties(sides, [seat], channel, self.lines, Schema(), job=self.job), terms, on_progress
        ).run()
        peer = seat.peer
        facts = {
            "proof": peer.proof,
            "files": self.sheet.digest,
            "ledger": channel.ledger.to_json(),
            "sizes": dict(zip([self.name, *terms.names[1:]], peer.sizes, strict=True)),
        }
        return peer.rows, facts, channel.ledger

    # tables

    def _tables(self, rows: np.ndarray) -> tuple[list[Table], list[Table]]:
        """The owner's own tables, and for every party one of its width in which nothing true stands."""
        kind = self.paper.job.train.task or ("several" if len(self.sheet.labels) > 1 else "classes")
        own = prepared(self.sheet, rows, self.terms, kind)
        for party in self.paper.others:
            self._shapes[party] = self._check_shape(party, own[0].rows, held_out(rows, self.terms))
        both = [[one, *(self._stand_in(party, one) for party in self.paper.others)] for one in own]
        both[0][0] = replace(both[0][0], origin={"federation": {"job": self.terms["job"], "terms": self.job.hex()}})
        return both[0], both[1] if held_out(rows, self.terms) else []

    def _check_shape(self, party: str, rows: int, test: int) -> Facts:
        said = self.lines.talk(party, "prepare", {"proof": self._proof})
        if (said["rows"], said["test"]) != (rows, test):
            raise MessageError(
                f"'{party}' has {said['rows']} 'rows' to train on and {said['test']} to 'test' on, and the owner "
                f"{rows} and {test}; align again."
            )
        known = self._shapes.get(party)
        if known is not None and known != said:
            raise ManifestError(f"'{party}' came back with rows of another shape; bring its files back.")
        return said

    def _stand_in(self, party: str, like: Table) -> Table:
        shape = self._shapes[party]["shape"]
        return Table(ids=like.ids, columns=torch.zeros(1, *shape).expand(like.rows, *shape), name=party)

    # the plan

    def _begin(self, tables: list[Table], ledger: Ledger) -> Run:
        job = self.paper.job
        own = [tables[0].cardinalities] if tables[0].columns is not None else []
        codes = [*own, *(tuple(self._shapes[party]["cardinalities"]) for party in self.paper.others)]
        usual = [models.default_for(one) for one in codes]
        what = plan_of(job, tables, model=job.model or usual, runtime="federation")
        outputs = outputs_of(tables, what.settings.task)
        check_networks(tables, what.method, what.models, what.optimizers, outputs)
        schema = rehearse_tables(tables, what.method, what.settings, what.models, what.optimizers)
        self._plan = self._planned(what, tables, schema)
        self.status.describe(job.name, what.settings.rounds)
        self._sign_plans()
        self.desk.keep_plan(self._plan)
        far = RemoteSetup(
            connect=lambda _: self.lines,
            schema=schema,
            job=self.job,
            keys={name: key for name, key in self.keys.items() if name != self.name},
            secrets=dict.fromkeys((OWNER, self.name), self.desk.secret),
        )
        run = start(what, tables, self.folder, far)
        if checkpoint.is_there(self.folder / "checkpoints"):
            run.load(self.folder)
        else:
            run.ledger.add(ledger)
        return run

    def _planned(self, what: Plan, tables: list[Table], schema: Schema) -> dict[str, Any]:
        found = {
            "terms": digest(self.terms).hex(),
            "tables": [[table.name, table.rows, list(table.shape)] for table in tables],
            "settings": asdict(what.settings),
            "model": [models.describe(one) for one in what.models],
            "optimizer": [optim.describe(one) for one in what.optimizers],
            "outputs": outputs_of(tables, what.settings.task),
            "test": int(next(iter(self._shapes.values()))["test"]),
            "schema": schema.to_json(),
        }
        return json.loads(json.dumps(found))  # type: ignore[no-any-return]  # as the parties will read it

    def _sign_plans(self) -> None:
        self._signed["plan"] = {self.name: sign(self.paper.keys.identity, "plan", self._plan)}
        for party in self.paper.others:
            self._sign_plan(party)
        check_signatures(self.keys, "plan", self._plan, self._signed["plan"])
        for party in self.paper.others:
            self._tell_plan(party)

    def _sign_plan(self, party: str) -> None:
        own = self._signed["plan"][self.name].hex()
        said = self.lines.talk(party, "plan", {"plan": self._plan, "signature": own})
        self._signed["plan"][party] = hex_of(said, "signature", 64)

    def _tell_plan(self, party: str) -> None:
        self._open(party, "begin", {"signatures": hexed(self._signed["plan"])})

    def _enter(self, party: str) -> None:
        """Lead a party in again that came back, through everything that was agreed before it went."""
        self._sign_terms(party)
        proof = self._tell_signed(party)
        if proof != self._proof:
            raise ManifestError(f"'{party}' came back without the rows that it had aligned; start the job anew.")
        known = next(iter(self._shapes.values()))
        self._check_shape(party, known["rows"], known["test"])
        self._sign_plan(party)
        self._tell_plan(party)

    def _open(self, party: str, word: str, facts: Facts) -> None:
        """Let a party begin with letters; they are counted from one again, so each session has its own name."""
        self._visits += 1
        self.lines.talk(party, word, {**facts, "visit": self._visits})
        self.lines.open(party, session_of(self.job, self.incarnation, self._incarnations[party], self._visits))


class _RemoteName:
    """A party of an alignment that is far away."""

    def __init__(self, name: str) -> None:
        self.name = name
