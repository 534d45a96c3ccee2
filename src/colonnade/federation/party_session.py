"""A party of a federation: it reads its own files, signs what its operator allows, and serves only that.

::

    hello   who is there                    signed   everybody signed the terms
    terms   what is to be done              align    find the common rows          (letters of an alignment)
    plan    what every message looks like   prepare  make inputs of the columns
                                            begin    everybody signed the plan      (letters of the run)

                                            end      the job is over

Which word may come when is the table of ``protocol``; each may come again after a broken link or a restart of either
side, and has the same effect.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.core.table import Table
from colonnade.errors import ColonnadeError, ManifestError, MessageError, printable, unknown
from colonnade.federation.alignment_server import AlignServer
from colonnade.federation.allow_list import check_allowed, check_plan
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.handshake import Facts, facts_in, hex_of, signatures_in
from colonnade.federation.hello import hello_of
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_folders import JobFolders
from colonnade.federation.job_parts import (
    align_names,
    align_terms,
    held_out,
    new_sheet,
    preparation_in,
    prepared,
    seat_of,
    session_of,
    sheet_of,
    stand_in,
)
from colonnade.federation.party_counts import Alignments, OpenRows, Runs
from colonnade.federation.protocol import ENDED, LETTER, NEW, after
from colonnade.federation.side_sections import PartyFile
from colonnade.federation.terms import (
    check_signatures,
    digest,
    first_difference,
    job_id,
    keys_in,
    outline,
    sign,
    signed_bytes,
)
from colonnade.federation.terms_forms import check_plan_form
from colonnade.runtime.remote.packet import Packet, read_packet, title, write_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.request_server import RequestServer, refusal, unexpected
from colonnade.runtime.remote.scope import PREDICTION, TRAINING
from colonnade.seal.key_agreement import verify
from colonnade.seal.sum_book import SumRules
from colonnade.store.budget_file import read_spent, write_spent
from colonnade.store.preparation_files import write_preparations
from colonnade.store.state_folder import StateFolder
from colonnade.tables.align.align_sheets import AlignmentGroup as AlignSeat
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.tables.align.id_texts import texts
from colonnade.wire.ledger import OWNER

log = logging.getLogger(__name__)
EARLY = 4  # letters that are remembered with their replies before there is a log


class PartySession:
    """One party's process, from hello to the end of a job."""

    def __init__(self, paper: PartyFile, folder: Path) -> None:
        self.paper, self.name, self.folder = paper, paper.party.name, folder
        self.sheet = sheet_of(paper.party, paper.beside, None)
        self.incarnation = os.urandom(16)
        self.server: RequestServer | None = None
        self.terms: dict[str, Any] | None = None
        self.desk: JobFolder | None = None
        self.audit: AuditLog | None = None
        self.stage = NEW
        self._folders = JobFolders(folder, self.name)
        self._trained: JobFolder | None = None  # of the training, while its model predicts
        self._run = 0  # which run of its job, or of the training whose model predicts
        self._early: list[tuple[bytes, bytes]] = []
        self._owner = b""  # the owner's incarnation
        self._released: dict[str, int] = {}  # by purpose: what the budget on the disk has counted
        self._visit = 0  # which of its sessions with us is open
        self._plan: dict[str, Any] = {}
        self._tables: tuple[Table, Table] | None = None
        self._rows = np.empty(0, np.int64)  # of the tables, in this side's files
        self._words: dict[str, Callable[[Facts], Facts]] = {
            "hello": self._hello,
            "terms": self._take_terms,
            "signed": self._signed,
            "align": self._align,
            "prepare": self._prepare,
            "plan": self._take_plan,
            "begin": self._begin,
            "end": self._end,
        }

    @property
    def ended(self) -> bool:
        """Whether the owner said that this is the end."""
        return self.stage == ENDED

    def serve(self, request: bytes) -> bytes:
        """The reply to any letter."""
        return self.answer(read_packet(request), request)

    def answer(self, letter: Packet, request: bytes) -> bytes:
        """The reply to a letter that was opened already; both are in the audit log before it leaves."""
        reply = self._talked(letter) if letter.kind == "talk" else self._served(letter, request)
        self.note(request, reply)
        return reply

    def note(self, request: bytes, reply: bytes) -> None:
        """Write both down; what came before the job was known is written when it is."""
        self._early = [*self._early, (request, reply)][-EARLY:]
        if self.audit is not None:
            for came, went in self._early:
                for note, raw in ((self.audit.received, came), (self.audit.sent, went)):
                    what, number = title(raw)
                    note(OWNER, what, raw, round=number)
            self._early = []

    def _served(self, letter: Packet, request: bytes) -> bytes:
        if self.server is None:
            error = MessageError(f"a letter '{letter.kind}' came to '{self.name}' before anything was signed.")
            return self._refused(letter, error)
        try:
            self.stage = after(self.stage, LETTER)
        except MessageError as error:
            return self._refused(letter, error)
        reply = self.server.answer(letter, request)
        if isinstance(self.server, PartyServer):
            self._keep_budget(self.server)
        if self.server.ended and not self.ended:
            self._desk().end()
            self.stage = ENDED
        return reply

    def _keep_budget(self, party: PartyServer) -> None:
        """Write down what the budget paid before that leaves: the owner says when states are kept, but not this."""
        budget = party.channel.end(self.name).budget
        if budget is not None and budget.releases != self._released:
            write_spent((self._trained or self._desk()).folder, party.channel, [self.name])
            self._released = budget.releases

    def _talked(self, letter: Packet) -> bytes:
        try:
            if letter.step not in self._words:
                raise unknown("word", letter.step, self._words)
            facts = facts_in(letter)
            self._meet(letter.step, facts)
            reached = after(self.stage, letter.step)
            answer = self._words[letter.step](facts)
            self.stage = reached
            return write_packet(letter.reply("answer", self.name, json.dumps(answer).encode()))
        except ColonnadeError as error:
            return self._refused(letter, error)
        except Exception as error:
            return self._refused(letter, unexpected(error, letter.step))

    def _refused(self, letter: Packet, error: ColonnadeError) -> bytes:
        log.warning("refused '%s': %s", printable(letter.step or letter.kind, 40), printable(error))
        return write_packet(letter.reply("refusal", self.name, refusal(error, self.name)))

    # words

    def _meet(self, word: str, facts: Facts) -> None:
        """Another process of the owner begins at the first word."""
        if word == "hello" and (owner := hex_of(facts, "incarnation", 16)) != self._owner:
            self._owner, self._visit, self.stage = owner, 0, NEW

    def _hello(self, facts: Facts) -> Facts:
        return hello_of(self.name, self.paper.keys.identity, self.incarnation, self._owner)

    def _take_terms(self, facts: Facts) -> Facts:
        terms, run = facts.get("terms"), hex_of(facts, "run", 16)
        if not isinstance(terms, dict):
            raise MessageError("terms were expected, and something else came.")
        keys = {self.name: self.paper.keys.identity.public, **self.paper.peers}
        check_allowed(terms, self.name, self.paper.allow, self.paper.owner, keys)
        verify(self.paper.owner, signed_bytes("terms", terms), hex_of(facts, "signature", 64), "the owner's terms")
        self._check_pinned(terms)
        found = None if self.terms is None else first_difference(self.terms, terms)
        if found:
            raise ManifestError(
                f"the terms are not those that '{self.name}' has signed, in {found}; undo that, or start both anew."
            )
        self._take_run(terms, run)
        return {"signature": sign(self.paper.keys.identity, "terms", terms).hex()}

    def _take_run(self, terms: dict[str, Any], run: bytes) -> None:
        """Count the run before anything is signed, and open the job's folder."""
        place, trained = self._folders.of(terms), None
        if "predict" in terms:
            if not self.paper.predict:
                raise ManifestError(
                    f"'{self.name}' allows no prediction; write files = '...' in [predict] of its paper."
                )
            trained, number = self._folders.trained(terms, run)
            Runs(self.folder).allow(terms, run, self.paper.allow.runs, self.name)
        else:
            number = Runs(self.folder).allow(terms, run, self.paper.allow.runs, self.name)
        if self.terms is None:
            self._accept(terms, JobFolder(place), trained)
        self._run = number

    def _check_pinned(self, terms: dict[str, Any]) -> None:
        """Refuse other terms than the operator has read; a prediction is of a job that was signed so."""
        if self.paper.terms is None or "predict" in terms:
            return
        found = first_difference(self.paper.terms, terms)
        if found:
            raise ManifestError(
                f"the terms are not those that [allow] of '{self.name}' names, in {found}; undo that, or read the new "
                "ones and put them there."
            )

    def _accept(self, terms: dict[str, Any], desk: JobFolder, trained: JobFolder | None) -> None:
        normalise = terms["align"].get("normalise")
        if trained is not None:
            sheet = new_sheet(self.paper.party, self.paper.predict, self.paper.beside, normalise)
        else:
            sheet = sheet_of(self.paper.party, self.paper.beside, normalise)
        desk.take_terms(terms)
        self.terms, self.desk, self._trained, self.sheet = terms, desk, trained, sheet
        self.audit = AuditLog(desk.folder / "audit.jsonl", self.name, job_id(terms).hex())
        self.audit.event("terms signed", digest=digest(terms).hex())
        name, learnt = printable(terms["job"], 60), printable(" ".join(terms["learns"]), 2000)
        log.info("terms of '%s': %s; all in %s", name, printable(outline(terms)), desk.folder / "terms.json")
        log.info("signed the terms of '%s': %s", name, learnt)

    def _signed(self, facts: Facts) -> Facts:
        terms = self._agreed()
        check_signatures(keys_in(terms), "terms", terms, signatures_in(facts))
        kept = self._desk().rows(self.sheet.digest)
        return {"aligned": kept[1]["proof"] if kept else ""}

    def _align(self, facts: Facts) -> Facts:
        terms, session = self._agreed(), self._session(facts)
        if self._serves(session):
            return {}
        Alignments(self._desk().folder).allow(self.paper.allow.alignments, self.name)
        keys, names = keys_in(terms), align_names(terms)
        member = names.index(self.name)
        identity_keys = {OWNER if name == terms["owner"] else name: key for name, key in keys.items()}
        peer = AlignmentParty(
            align_terms(terms), member, texts(self.sheet.ids, self.name), self.paper.keys.identity, identity_keys
        )
        self.server = AlignServer(AlignSeat(member, peer), job_id(terms), session)
        return {}

    def _prepare(self, facts: Facts) -> Facts:
        terms, desk = self._agreed(), self._desk()
        if isinstance(self.server, AlignServer) and self.server.seat.peer.proof:
            peer = self.server.seat.peer
            OpenRows(desk.folder).check(peer.rows, self._run, self.name)
            desk.keep_rows(peer.rows, {"proof": peer.proof, "files": self.sheet.digest})
        found = desk.rows(self.sheet.digest)
        if found is None or found[1]["proof"] != facts.get("proof"):
            raise ManifestError(f"'{self.name}' has not aligned these rows; align again.")
        self.sheet.check_unchanged()
        OpenRows(desk.folder).open(found[0], self._run, self.name)  # the shape already tells of these rows
        self._rows, self._plan = found[0], {}  # a plan that was checked was checked with other rows
        if self._trained is not None:
            preparation = preparation_in(self._trained.of_run(self._run).folder, self.name)
            preparation.check(self.sheet)
            first = preparation.table(self.sheet, found[0])
            self._tables = first, first
            return {"rows": first.rows, "test": 0, "shape": list(first.shape), "cardinalities": []}
        self._tables = prepared(self.sheet, found[0], terms)
        first = self._tables[0]
        return {
            "rows": first.rows,
            "test": held_out(found[0], terms),
            "shape": list(first.shape),
            "cardinalities": list(first.cardinalities),
        }

    def _take_plan(self, facts: Facts) -> Facts:
        plan, terms = facts.get("plan"), self._agreed()
        if not isinstance(plan, dict) or self._tables is None:
            raise MessageError(f"a plan came to '{self.name}' that is none, or before it had prepared its rows.")
        check_plan_form(plan)
        verify(self.paper.owner, signed_bytes("plan", plan), hex_of(facts, "signature", 64), "the owner's plan")
        if plan.get("terms") != digest(terms).hex():
            raise ManifestError(f"a plan of other terms came to '{self.name}' than it has signed; start anew.")
        if self._trained is not None:
            self._check_same_plan(self._trained.of_run(self._run).plan(), plan, self._tables[0].rows)
        elif first_difference(self._plan, plan):
            check_plan(plan, terms, self.name, self._tables[0], self.paper.allow)
        self._plan = plan
        return {"signature": sign(self.paper.keys.identity, "plan", plan).hex()}

    def _check_same_plan(self, trained: dict[str, Any], plan: dict[str, Any], rows: int) -> None:
        """A prediction's plan is that of the training, but for its terms and its rows."""
        due = {**trained, "terms": plan["terms"], "test": 0, "predict": rows}
        found = first_difference(due, plan)
        if found:
            raise ManifestError(f"the plan of the prediction is not that of the training, in {found}; do not sign it.")
        if self.paper.allow.rows is not None and rows > self.paper.allow.rows:
            raise ManifestError(
                f"the plan has {rows} rows, '{self.name}' allows {self.paper.allow.rows}; change the job or [allow]."
            )

    def _begin(self, facts: Facts) -> Facts:
        terms = self._agreed()
        check_signatures(keys_in(terms), "plan", self._plan, signatures_in(facts))
        if self._tables is None:
            raise MessageError(f"'{self.name}' was told to begin before it had prepared its rows.")
        session = self._session(facts)
        if self._serves(session):
            return {}
        OpenRows(self._desk().folder).open(self._rows, self._run, self.name)
        party = self._predictor(self._trained, session) if self._trained else self._trainer(terms, session)
        read_spent((self._trained or self._desk()).folder, party.channel, [self.name])
        self.server, self._released = party, {}
        return {}

    def _trainer(self, terms: dict[str, Any], session: bytes) -> PartyServer:
        """What serves a training: from the newest state of its run, or afresh."""
        assert self._tables is not None
        own = self._desk().of_run(self._run)
        own.keep_plan(self._plan)
        write_preparations(own.folder, {self.name: self._tables[0].preparation})
        seat = seat_of(terms, self._plan, self.name, self.paper.keys.identity, *self._tables)
        secret, sums = self._desk().secret_of(self._run), self._sums(self._desk())
        seat = replace(seat, session=session, secret=secret, scope=TRAINING, sums=sums)
        party = PartyServer(seat, StateFolder(own.folder / "states"))
        party.take_up()
        log.info("begins with %d rows of shape %s", seat.table.rows, "x".join(map(str, seat.table.shape)))
        return party

    def _predictor(self, trained: JobFolder, session: bytes) -> PartyServer:
        """What serves a prediction: the model as its training kept it, which is not changed."""
        assert self._tables is not None
        rows, table = self._tables[0], stand_in(self._plan, self.name)
        seat = seat_of(self._agreed(), self._plan, self.name, self.paper.keys.identity, table, table)
        secret, sums = trained.secret_of(self._run), self._sums(trained)
        seat = replace(seat, session=session, tables={"predict": rows}, secret=secret, scope=PREDICTION, sums=sums)
        party = PartyServer(seat, StateFolder(trained.of_run(self._run).folder / "states"))
        if not party.keeping.numbers:
            raise ManifestError(f"'{self.name}' has kept no state of the model that is to predict; train first.")
        party.take_up()
        log.info("predicts with %d new rows", rows.rows)
        return party

    def _end(self, facts: Facts) -> Facts:
        """The job is over, though a letter could not say so: the owner or this side came back only for that."""
        job = hex_of(facts, "job", 16)
        due = signed_bytes("end", {"job": job.hex()})
        verify(self.paper.owner, due, hex_of(facts, "signature", 64), "the owner's end of the job")
        if self.terms is not None and job_id(self.terms) != job:
            raise MessageError(f"'{self.name}' was told the end of another job than it takes part in.")
        desk = self._folders.known(job)
        if desk.ended is None:
            desk.end()
        return {}

    def _sums(self, desk: JobFolder) -> SumRules:
        """What the operator allows of blinded sums; a prediction is held to those of its training."""
        return SumRules(desk.folder / "sums.log", self.paper.allow.changes, self.paper.allow.mix, self._run)

    def _session(self, facts: Facts) -> bytes:
        visit = facts.get("visit")
        if type(visit) is not int or visit < self._visit:
            raise MessageError(
                f"'{self.name}' was told to begin visit {visit!r:.20} and is at {self._visit}; it is stale."
            )
        self._visit = visit
        return session_of(job_id(self._agreed()), self._owner, self.incarnation, visit)

    def _serves(self, session: bytes) -> bool:
        """Whether the word came before; its letters are counted already."""
        return self.server is not None and self.server.agreed["session"] == session

    def _agreed(self) -> dict[str, Any]:
        if self.terms is None or not self._owner:
            raise MessageError(f"'{self.name}' has signed no terms yet; begin with hello and terms.")
        return self.terms

    def _desk(self) -> JobFolder:
        assert self.desk is not None
        return self.desk
