"""A job that a party takes part in: what it has signed, where it keeps the job, and how it serves the owner's requests.

The servers are made here: of an alignment, of a training, of a prediction, of a description.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from colonnade.core.randomness import Randomness
from colonnade.core.table import Table
from colonnade.description.describe_party import DescribeParty
from colonnade.errors import ManifestError
from colonnade.federation.alignment_server import AlignmentServer
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.description_rules import rules_in
from colonnade.federation.description_server import DescriptionServer
from colonnade.federation.extended_job import EarlierRun
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_parts import align_terms_of, party_spec, stand_in
from colonnade.federation.packet_sample import PacketSample
from colonnade.federation.party_counts import question_of_a_description, question_of_a_run
from colonnade.federation.side_sections import PartyFile
from colonnade.federation.terms import job_id, keys_in
from colonnade.federation.view_record import ViewRecord
from colonnade.runtime.remote.packet import Packet, read_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.request_server import RequestServer
from colonnade.runtime.remote.scope import EVALUATION, PREDICTION, TRAINING
from colonnade.seal.sum_book import SumRules
from colonnade.store.budget_file import load_budgets, save_budgets
from colonnade.store.preparation_files import write_preparations
from colonnade.store.state_folder import StateFolder
from colonnade.tables.align.align_sheets import AlignmentGroup
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.tables.align.id_texts import texts
from colonnade.tables.align.mask_work import MaskWork, Workers
from colonnade.tables.sheets import Sheet
from colonnade.wire.ledger import OWNER, Ledger

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartyJob:
    """A job whose terms this party has signed."""

    party_file: PartyFile
    terms: dict[str, Any]
    folder: JobFolder
    trained: JobFolder | None
    """Of a prediction: the folder of the training whose model predicts."""
    sheet: Sheet
    audit: AuditLog
    run: int
    """Which run of the training it is, from 1."""
    earlier: EarlierRun | None = None
    """Of a job that extends another, if this party stays as that one left it: the run that it learnt in."""

    @property
    def name(self) -> str:
        """The party's name."""
        return self.party_file.party.name

    @property
    def job(self) -> bytes:
        """Sixteen bytes that name the job in every request."""
        return job_id(self.terms)

    @property
    def keys(self) -> dict[str, bytes]:
        """Every side's public identity key."""
        return keys_in(self.terms)

    @property
    def training(self) -> JobFolder:
        """The folder of the training: it has the model, the secret, the budget and the sums that were released."""
        return self.trained or self.folder

    @property
    def run_folder(self) -> JobFolder:
        """The folder of the run that is trained, or whose model predicts."""
        return self.training.of_run(self.run)

    @cached_property
    def view_record(self) -> ViewRecord:
        """What this party records of a training or of a prediction, if its file says so."""
        job, place = f"{self.job.hex()}/{self.run}", self.run_folder if self.trained is None else self.folder
        return ViewRecord(place.folder, self.audit, PacketSample([OWNER]), job)

    # servers

    def alignment_server(self, session: bytes) -> AlignmentServer:
        """What serves the requests of an alignment."""
        terms = align_terms_of(self.terms, self.name)
        member = terms.names.index(self.name)
        keys = {OWNER if name == self.terms["owner"] else name: key for name, key in self.keys.items()}
        ids = texts(self.sheet.ids, self.name)
        known = {name: keys[name] for name in terms.names}
        work = MaskWork(Workers())  # which end when this side drops the alignment
        peer = AlignmentParty(terms, member, ids, self.party_file.keys.identity, known, work)
        return AlignmentServer(AlignmentGroup(member, peer), self.job, session)

    def run_server(self, plan: Mapping[str, Any], tables: tuple[Table, Table], session: bytes) -> PartyServer:
        """What serves the requests of a training or a prediction, with the budget that was used before."""
        make = self._training_server if self.trained is None else self._prediction_server
        party = make(plan, tables, session)
        load_budgets(self.training.folder, party.ends, [self.name])
        return party

    def _training_server(self, plan: Mapping[str, Any], tables: tuple[Table, Table], session: bytes) -> PartyServer:
        """The server of a training, from the newest state of its run or from the beginning."""
        own = self.run_folder
        own.keep_plan(dict(plan))
        write_preparations(own.folder, {self.name: tables[0].preparation})
        spec = party_spec(self.terms, plan, self.name, self.party_file.keys.identity, *tables)
        secret, sums = self.training.secret_of(self.run), self._sum_rules()
        scope = TRAINING if self.earlier is None else EVALUATION
        record = self.party_file.audit.of(self.name)
        device = self.party_file.device
        spec = replace(spec, session=session, secret=secret, scope=scope, sums=sums, record=record, device=device)
        if spec.method.most_rounds == 1:
            spec = replace(spec, only_question=question_of_a_run(own.folder, self.name))
        party = PartyServer(spec, StateFolder(own.folder / "states"))
        if self.earlier is not None:
            party.take_over(self.earlier.state())
        if party.witness is not None:
            self.view_record.go_on(party.witness)
        party.take_up()
        log.info("begins with %d rows of shape %s", spec.table.rows, "x".join(map(str, spec.table.shape)))
        return party

    def _prediction_server(self, plan: Mapping[str, Any], tables: tuple[Table, Table], session: bytes) -> PartyServer:
        """The server of a prediction, with the model of its training, which is not changed."""
        rows, table = tables[0], stand_in(plan, self.name)
        spec = party_spec(self.terms, plan, self.name, self.party_file.keys.identity, table, table)
        secret, sums = self.training.secret_of(self.run), self._sum_rules()
        spec = replace(spec, session=session, tables={"predict": rows}, secret=secret, scope=PREDICTION, sums=sums)
        spec = replace(spec, device=self.party_file.device, record=self.party_file.audit.of(self.name))
        party = PartyServer(spec, StateFolder(self.run_folder.folder / "states"))
        if not party.keeping.numbers:
            raise ManifestError(f"'{self.name}' has kept no state of the model that is to predict; train first.")
        party.take_up()
        if party.witness is not None:
            self.view_record.follow(party.witness)
        log.info("predicts with %d new rows", rows.rows)
        return party

    def description_server(self, plan: Mapping[str, Any], tables: tuple[Table, Table], session: bytes) -> RequestServer:
        """The server of a description of this party's columns, as far as its operator allows."""
        allow, (own, later) = self.party_file.describe, tables
        assert allow is not None  # else the terms were not signed
        self.folder.keep_plan(dict(plan))
        rules = replace(rules_in(self.terms)[self.name], columns=allow.chosen)
        key = Randomness(0, self.folder.secret).key("describe", self.name)
        question = question_of_a_description(self.folder.folder, self.name)
        end = DescribeParty(
            self.name,
            own,
            later if plan["test"] else None,
            rules,
            key,
            lambda digest: question("describe", digest),
        )
        log.info("describes %d columns of %d rows", len(end.own.columns), own.rows)
        return DescriptionServer(end, plan["describe"], self.job, session)

    def _sum_rules(self) -> SumRules:
        """What the operator allows of blinded sums; a prediction is held to those of its training."""
        allow = self.party_file.allow
        return SumRules(self.training.folder / "sums.log", allow.changes, allow.mix, self.run)


class BudgetKeeper:
    """Saves the privacy budget before a message that it paid for leaves; the owner decides when states are kept."""

    def __init__(self) -> None:
        self._server: PartyServer | None = None
        self._released: dict[str, int] = {}  # by purpose: what the budget on the disk has counted

    def keep(self, server: PartyServer, job: PartyJob) -> None:
        """Write the budget if it has paid for something since the last time."""
        if server is not self._server:
            self._server, self._released = server, {}
        budget = server.half.end.budget
        if budget is not None and budget.releases != self._released:
            save_budgets(job.training.folder, server.ends, [job.name])
            self._released = budget.releases


class ViewKeeper:
    """Samples the packets of a training whose view is recorded, and writes the view whenever a state is kept."""

    def before(self, packet: Packet, server: RequestServer, job: PartyJob) -> None:
        """Write what was seen before a state is kept, so that no state is newer than the view."""
        if packet.kind in ("keep", "end") and isinstance(server, PartyServer) and server.witness is not None:
            job.view_record.write(server.witness.rounds)

    def after(self, exchange: tuple[bytes, bytes], server: RequestServer | None, job: PartyJob) -> None:
        """Offer a request and its reply to the sample; one that was refused is no part of what was seen."""
        if not isinstance(server, PartyServer) or server.witness is None:
            return
        if read_packet(exchange[1]).kind != "refusal":
            for way, data in zip(("received", "sent"), exchange, strict=True):
                job.view_record.packets.offer(way, OWNER, data)


def ledger_of(server: RequestServer | None) -> Ledger:
    """The messages of the run that a party has served since it began; an alignment's are in the audit log alone."""
    return server.ledger if isinstance(server, PartyServer | DescriptionServer) else Ledger()
