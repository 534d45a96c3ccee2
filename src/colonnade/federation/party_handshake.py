"""The handshake as a party answers it: it signs what its operator allows, and opens what everybody has signed.

::

    hello   who is there                    signed   everybody signed the terms
    terms   what is to be done              align    find the common rows          (requests of an alignment)
    plan    what every message looks like   prepare  make inputs of the columns
                                            begin    everybody signed the plan      (requests of the run)

                                            end      the job is over

Which word may come when is the table of ``protocol``. Each may come again after a broken connection or a restart of
either side, and has the same effect.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.core.table import Table
from colonnade.errors import ManifestError, MessageError, printable, unknown
from colonnade.federation.alignment_server import AlignmentServer
from colonnade.federation.allow_list import check_allowed, check_described, check_pinned
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.handshake import Facts, hex_of, signatures_in
from colonnade.federation.hello import hello_of
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.job_folders import JobFolders
from colonnade.federation.job_parts import (
    check_enough,
    new_sheet,
    parts_at_party,
    preparation_in,
    prepared,
    session_of,
    sheet_of,
)
from colonnade.federation.party_counts import Alignments, OpenRows, Runs, question_of_parts
from colonnade.federation.party_job import PartyJob
from colonnade.federation.plan_check import check_description_plan, check_plan, check_prediction_plan, check_split
from colonnade.federation.side_sections import PartyFile
from colonnade.federation.terms import (
    check_signatures,
    digest,
    first_difference,
    job_id,
    outline,
    sign,
    signed_bytes,
    split_in,
)
from colonnade.federation.terms_forms import check_plan_form
from colonnade.federation.told_rows import LEFT_OUT, TEST, digest_of_rows
from colonnade.runtime.remote.request_server import RequestServer
from colonnade.signatures import verify
from colonnade.tables.prepare.prepare_tables import prepared_rows

log = logging.getLogger(__name__)


class PartyHandshake:
    """A party's answers to the words, and what they have led to: a signed job, rows, a plan, a server of requests."""

    def __init__(self, party_file: PartyFile, folder: Path) -> None:
        self.party_file, self.name, self.folder = party_file, party_file.party.name, folder
        self.identity = party_file.keys.identity
        sheet_of(party_file.party, party_file.beside, None)  # files that cannot be read are refused before anything
        self.incarnation = os.urandom(16)
        self.job: PartyJob | None = None
        self.server: RequestServer | None = None
        self.plan: dict[str, Any] = {}
        self._folders = JobFolders(folder, self.name)
        self._owner = b""  # the owner's incarnation
        self._visit = 0  # which of its sessions with us is open
        self._tables: tuple[Table, Table] | None = None
        self._test_rows = 0
        self._rows = np.empty(0, np.int64)  # of the tables, in this side's files
        self._told: str | None = None  # what stands for the test rows that the owner told, if its dates decide
        self._words: dict[str, Callable[[Facts], Facts]] = {
            "hello": self._hello,
            "terms": self._take_terms,
            "signed": self._see_signed,
            "align": self._align,
            "prepare": self._prepare,
            "plan": self._take_plan,
            "begin": self._begin,
            "end": self._end,
        }

    def check_word(self, word: str) -> None:
        """Refuse an unknown word."""
        if word not in self._words:
            raise unknown("word", word, self._words)

    def is_new_owner(self, word: str, facts: Facts) -> bool:
        """Whether another process of the owner says hello; everything begins again with it."""
        if word != "hello" or (owner := hex_of(facts, "incarnation", 16)) == self._owner:
            return False
        self._owner, self._visit = owner, 0
        return True

    def answer(self, word: str, facts: Facts) -> Facts:
        """Do what the word says, and answer it."""
        return self._words[word](facts)

    # who is there, and what is to be done

    def _hello(self, facts: Facts) -> Facts:
        return hello_of(self.name, self.identity, self.incarnation, self._owner)

    def _take_terms(self, facts: Facts) -> Facts:
        terms, run = facts.get("terms"), hex_of(facts, "run", 16)
        if not isinstance(terms, dict):
            raise MessageError("terms were expected, and something else came.")
        keys = {self.name: self.identity.public, **self.party_file.peers}
        check_allowed(terms, self.name, self.party_file.allow, self.party_file.owner, keys)
        signature = hex_of(facts, "signature", 64)
        verify(self.party_file.owner, signed_bytes("terms", terms), signature, "the owner's terms")
        check_pinned(terms, self.name, self.party_file.terms)
        difference = None if self.job is None else first_difference(self.job.terms, terms)
        if difference:
            raise ManifestError(
                f"the terms are not those that '{self.name}' has signed, in {difference}; undo that, or start both "
                "again."
            )
        self._take_run(terms, run)
        return {"signature": sign(self.identity, "terms", terms).hex()}

    def _take_run(self, terms: dict[str, Any], run: bytes) -> None:
        """Count the run before anything is signed, and open the job's folder."""
        place, trained, earlier, most = self._folders.of(terms), None, None, self.party_file.allow.runs
        if "describe" in terms:
            number = self._count_description(terms, run)
        elif "predict" in terms:
            if not self.party_file.predict:
                raise ManifestError(
                    f"'{self.name}' allows no prediction; write files = '...' in [predict] of its party file."
                )
            trained, number = self._folders.trained(terms, run)
            Runs(self.folder).allow(terms, run, most, self.name)
        else:
            earlier = self._folders.extended(terms)
            number = Runs(self.folder).allow(terms, run, most, self.name)
        job = self.job or self._open(terms, JobFolder(place), trained)
        if earlier is not None:
            earlier.hand_on(job.folder)
        self.job = replace(job, run=number, earlier=earlier)

    def _count_description(self, terms: dict[str, Any], run: bytes) -> int:
        """Descriptions have a count of their own: many runs of a training are not to mean many descriptions."""
        check_described(terms, self.name, self.party_file.describe)
        assert self.party_file.describe is not None
        counted = Runs(self.folder, "descriptions.json", "times in [describe]")
        return counted.allow(terms, run, self.party_file.describe.times, self.name)

    def _open(self, terms: dict[str, Any], folder: JobFolder, trained: JobFolder | None) -> PartyJob:
        """Keep the terms in the job's folder, and read the files that they are about."""
        party, beside, normalise = self.party_file.party, self.party_file.beside, terms["align"].get("normalise")
        if trained is not None:
            sheet = new_sheet(party, self.party_file.predict, beside, normalise)
        else:
            sheet = sheet_of(party, beside, normalise)
        folder.take_terms(terms)
        audit = AuditLog(folder.folder / "audit.jsonl", self.name, job_id(terms).hex())
        audit.event("terms signed", digest=digest(terms).hex())
        name, learnt = printable(terms["job"], 60), printable(" ".join(terms["learns"]), 2000)
        log.info("terms of '%s': %s; all in %s", name, printable(outline(terms)), folder.folder / "terms.json")
        log.info("signed the terms of '%s': %s", name, learnt)
        return PartyJob(self.party_file, terms, folder, trained, sheet, audit, run=1)

    # the common rows

    def _see_signed(self, facts: Facts) -> Facts:
        job = self._signed_job()
        check_signatures(job.keys, "terms", job.terms, signatures_in(facts))
        kept = job.folder.rows(job.sheet.digest)
        return {"aligned": kept[1]["proof"] if kept else ""}

    def _align(self, facts: Facts) -> Facts:
        job, session = self._signed_job(), self._session(facts)
        if not self._serves(session):
            Alignments(job.folder.folder).allow(self.party_file.allow.alignments, self.name)
            self.server = job.alignment_server(session)
        return {}

    def _prepare(self, facts: Facts) -> Facts:
        job = self._signed_job()
        open_rows = OpenRows(job.folder.folder)
        if isinstance(self.server, AlignmentServer) and self.server.group.peer.is_complete:
            peer = self.server.group.peer
            open_rows.check(peer.federation_rows, job.run, self.name)
            if job.earlier is not None:  # before they are kept for this job
                job.earlier.check_rows(peer.federation_rows, job.sheet.digest)
            job.folder.keep_rows(peer.federation_rows, {"proof": peer.proof, "files": job.sheet.digest})
        kept = job.folder.rows(job.sheet.digest)
        if kept is None or kept[1]["proof"] != facts.get("proof"):
            raise ManifestError(f"'{self.name}' has not aligned these rows; align again.")
        job.sheet.check_unchanged()
        if job.earlier is not None:
            job.earlier.check_rows(kept[0], job.sheet.digest)
        open_rows.open(kept[0], job.run, self.name)  # the shape already tells of these rows
        self._rows, self.plan = kept[0], {}  # a plan that was checked was checked with other rows
        return self._prepared(job, kept[0], facts)

    def _prepared(self, job: PartyJob, rows: np.ndarray, facts: Facts) -> Facts:
        """Make the tables, and tell their shape."""
        if job.trained is not None:
            preparation = preparation_in(job.run_folder.folder, self.name)
            preparation.check(job.sheet)
            table = prepared_rows(preparation, job.sheet, rows)
            self._tables = table, table
            return {"rows": table.rows, "test": 0, "shape": list(table.shape), "cardinalities": []}
        parts = parts_at_party(facts, rows, job.terms)
        check_enough(parts, rows, job.terms, self.name, self.party_file.allow.minimum)
        self._told = digest_of_rows(facts) if split_in(job.terms) else None
        if self.party_file.audit.record:
            told = {name: facts[name] for name in (TEST, LEFT_OUT) if name in facts}
            job.run_folder.note_for_audit(self.party_file.path, told)
        if self._told is not None:  # before anything is made of these rows
            question_of_parts(job.run_folder.folder, self.name)("prepare", bytes.fromhex(self._told))
        self._tables, self._test_rows = prepared(job.sheet, rows, parts, job.terms), len(parts.test)
        table = self._tables[0]
        if "describe" in job.terms:  # how many inputs a network would have is nobody's business here
            return {"rows": table.rows, "test": len(parts.test), "shape": [1], "cardinalities": []}
        return {
            "rows": table.rows,
            "test": len(parts.test),
            "shape": list(table.shape),
            "cardinalities": list(table.cardinalities),
        }

    # the plan and the run

    def _take_plan(self, facts: Facts) -> Facts:
        plan, job = facts.get("plan"), self._signed_job()
        if not isinstance(plan, dict) or self._tables is None:
            raise MessageError(f"a plan came to '{self.name}' that is none, or before it had prepared its rows.")
        check_plan_form(plan)
        signature = hex_of(facts, "signature", 64)
        verify(self.party_file.owner, signed_bytes("plan", plan), signature, "the owner's plan")
        if plan.get("terms") != digest(job.terms).hex():
            raise ManifestError(f"a plan of other terms came to '{self.name}' than it has signed; start over.")
        own, allow = self._tables[0], self.party_file.allow
        if job.trained is not None:
            check_prediction_plan(plan, job.run_folder.plan(), self.name, own.rows, allow)
        elif "describe" in job.terms:
            check_description_plan(plan, job.terms, self.name, own.rows, self._test_rows, allow)
            check_split(plan, self._told, job.folder.signed_plan, self.name)
        elif first_difference(self.plan, plan):
            check_plan(plan, job.terms, self.name, own, allow)
            check_split(plan, self._told, job.run_folder.signed_plan, self.name)
            if job.earlier is not None:
                job.earlier.check_plan(plan, own.preparation)
        self.plan = plan
        return {"signature": sign(self.identity, "plan", plan).hex()}

    def _begin(self, facts: Facts) -> Facts:
        job = self._signed_job()
        check_signatures(job.keys, "plan", self.plan, signatures_in(facts))
        if self._tables is None:
            raise MessageError(f"'{self.name}' was told to begin before it had prepared its rows.")
        session = self._session(facts)
        if not self._serves(session):
            OpenRows(job.folder.folder).open(self._rows, job.run, self.name)
            make = job.description_server if "describe" in job.terms else job.run_server
            self.server = make(self.plan, self._tables, session)
        return {}

    def _end(self, facts: Facts) -> Facts:
        """End the job by a word, when no request of a run could end it because a side was restarted."""
        job = hex_of(facts, "job", 16)
        due = signed_bytes("end", {"job": job.hex()})
        verify(self.party_file.owner, due, hex_of(facts, "signature", 64), "the owner's end of the job")
        if self.job is not None and self.job.job != job:
            raise MessageError(f"'{self.name}' was told the end of another job than it takes part in.")
        folder = self._folders.known(job)
        if folder.ended is None:
            folder.end()
        return {}

    # sessions

    def _session(self, facts: Facts) -> bytes:
        """The name of the session that the owner opens; an earlier one than the present is refused."""
        visit = facts.get("visit")
        if type(visit) is not int or visit < self._visit:
            raise MessageError(
                f"'{self.name}' was told to begin visit {visit!r:.20} and is at {self._visit}; it is stale."
            )
        self._visit = visit
        return session_of(self._signed_job().job, self._owner, self.incarnation, visit)

    def _serves(self, session: bytes) -> bool:
        """Whether the same word opened this session before; its requests are counted already."""
        return self.server is not None and self.server.agreed["session"] == session

    def _signed_job(self) -> PartyJob:
        if self.job is None or not self._owner:
            raise MessageError(f"'{self.name}' has signed no terms yet; begin with hello and terms.")
        return self.job
