"""A party of a federation: it reads its own files, signs what its operator allows, and serves only that.

::

    hello   who is there                    signed   everybody signed the terms
    terms   what is to be done              align    find the common rows          (letters of an alignment)
    plan    what every message looks like   prepare  make inputs of the columns
                                            begin    everybody signed the plan      (letters of the run)

Each word may come again after a broken link or a restart of either side, and has the same effect.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from colonnade.align import steps
from colonnade.align.ids import texts
from colonnade.align.peer import Peer
from colonnade.alignment import Seat as AlignSeat
from colonnade.errors import ColonnadeError, ManifestError, MessageError, unknown
from colonnade.federation.agreed import (
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
from colonnade.federation.allowed import check_allowed, check_plan
from colonnade.federation.audit import AuditLog
from colonnade.federation.desk import Alignments, Desk, Runs
from colonnade.federation.hello import hello_of
from colonnade.federation.papers import PartyPaper
from colonnade.federation.talk import Facts, facts_in, hex_of, signatures_in
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
from colonnade.kept import KeptInFolder
from colonnade.ledger import OWNER
from colonnade.message import fields_of
from colonnade.method import Turn
from colonnade.prepared import write_preparations
from colonnade.runtime.letter import Letter, open_letter, title, write_letter
from colonnade.runtime.party import Party
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.runtime.server import Fields, Handler, Server, refusal
from colonnade.seal.keys import verify
from colonnade.seal.sum_book import SumRules
from colonnade.spent import read_spent, write_spent
from colonnade.step import steps_of
from colonnade.table import Table

log = logging.getLogger(__name__)
EARLY = 4  # letters that are remembered with their replies before there is a log


class AlignServer(Server):
    """A party's end of an alignment behind letters."""

    def __init__(self, seat: AlignSeat, job: bytes, session: bytes) -> None:
        super().__init__(seat.name, job, session, Schema().digest)
        self.seat = seat
        self._turn = Turn(0, torch.arange(0), purpose="align")

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The steps of an alignment, and no other."""
        return {"step": self._step}

    def _step(self, letter: Letter) -> Fields | None:
        known = steps_of("party", steps)
        if letter.step not in known:
            raise unknown(f"step of an alignment at '{self.name}'", letter.step, known)
        reads, _ = kinds_of(known[letter.step])
        received = [] if reads is None else [self.message(reads, letter)]
        (reply,) = self.seat.run(known[letter.step], self._turn, received, shared=False)
        return None if reply is None else fields_of(reply)


class Guest:
    """One party's process, from hello to the end of a job."""

    def __init__(self, paper: PartyPaper, folder: Path) -> None:
        self.paper, self.name, self.folder = paper, paper.party.name, folder
        self.sheet = sheet_of(paper.party, paper.beside, None)
        self.incarnation = os.urandom(16)
        self.server: Server | None = None
        self.terms: dict[str, Any] | None = None
        self.desk: Desk | None = None
        self.audit: AuditLog | None = None
        self._trained: Desk | None = None  # of the training, while its model predicts
        self._early: list[tuple[bytes, bytes]] = []
        self._owner = b""  # the owner's incarnation
        self._released: dict[str, int] = {}  # by purpose: what the budget on the disk has counted
        self._visit = 0  # which of its sessions with us is open
        self._plan: dict[str, Any] = {}
        self._tables: tuple[Table, Table] | None = None
        self._words: dict[str, Callable[[Facts], Facts]] = {
            "hello": self._hello,
            "terms": self._take_terms,
            "signed": self._signed,
            "align": self._align,
            "prepare": self._prepare,
            "plan": self._take_plan,
            "begin": self._begin,
        }

    @property
    def ended(self) -> bool:
        """Whether the owner said that this is the end."""
        return self.server is not None and self.server.ended

    def serve(self, request: bytes) -> bytes:
        """The reply to any letter."""
        return self.answer(open_letter(request), request)

    def answer(self, letter: Letter, request: bytes) -> bytes:
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

    def _served(self, letter: Letter, request: bytes) -> bytes:
        if self.server is None:
            error = MessageError(f"a letter '{letter.kind}' came to '{self.name}' before anything was signed.")
            return write_letter(letter.reply("refusal", self.name, refusal(error, self.name)))
        reply = self.server.answer(letter, request)
        if isinstance(self.server, Party):
            self._keep_budget(self.server)
        return reply

    def _keep_budget(self, party: Party) -> None:
        """Write down what the budget paid before that leaves: the owner says when states are kept, but not this."""
        budget = party.channel.end(self.name).budget
        if budget is not None and budget.releases != self._released:
            write_spent(self._desk().folder, party.channel, [self.name])
            self._released = budget.releases

    def _talked(self, letter: Letter) -> bytes:
        try:
            if letter.step not in self._words:
                raise unknown("word", letter.step, self._words)
            facts = self._words[letter.step](facts_in(letter))
            return write_letter(letter.reply("answer", self.name, json.dumps(facts).encode()))
        except ColonnadeError as error:
            return self._refused(letter, error)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            # Its words stay here: they may hold values of our columns.
            log.warning("'%s' failed: %s: %s", letter.step, type(error).__name__, str(error)[:200])
            what = f"'{letter.step:.40}' lacks something, or holds what does not belong there ({type(error).__name__})"
            return self._refused(letter, MessageError(f"{what}; do both sides run the same version?"))

    def _refused(self, letter: Letter, error: ColonnadeError) -> bytes:
        log.warning("refused '%s': %s", letter.step, error)
        return write_letter(letter.reply("refusal", self.name, refusal(error, self.name)))

    # words

    def _hello(self, facts: Facts) -> Facts:
        owner = hex_of(facts, "incarnation", 16)
        if owner != self._owner:
            self._owner, self._visit = owner, 0
        return hello_of(self.name, self.paper.keys.identity, self.incarnation, self._owner)

    def _take_terms(self, facts: Facts) -> Facts:
        terms = facts.get("terms")
        if not isinstance(terms, dict):
            raise MessageError("terms were expected, and something else came.")
        keys = {self.name: self.paper.keys.identity.public, **self.paper.peers}
        check_allowed(terms, self.name, self.paper.allow, self.paper.owner, keys)
        verify(self.paper.owner, signed_bytes("terms", terms), hex_of(facts, "signature", 64), "the owner's terms")
        self._check_pinned(terms)
        if self.terms is not None and terms != self.terms:
            found = first_difference(self.terms, terms)
            raise ManifestError(
                f"the terms are not those that '{self.name}' has signed, in {found}; undo that, or start both anew."
            )
        Runs(self.folder).allow(terms, self.paper.allow.runs, self.name)
        if self.terms is None:
            self._accept(terms)
        return {"signature": sign(self.paper.keys.identity, "terms", terms).hex()}

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

    def _accept(self, terms: dict[str, Any]) -> None:
        job, normalise = job_id(terms).hex(), terms["align"].get("normalise")
        if "predict" in terms:
            self._trained = self._desk_of(terms)
            desk = Desk(self._trained.folder / "predictions" / job[:8])
            self.sheet = new_sheet(self.paper.party, self.paper.predict, self.paper.beside, normalise)
        else:
            desk = Desk(self._place_of(terms["job"], job))
            self.sheet = sheet_of(self.paper.party, self.paper.beside, normalise)
        desk.take_terms(terms)
        self.terms, self.desk = terms, desk
        self.audit = AuditLog(desk.folder / "audit.jsonl", self.name, job)
        self.audit.event("terms signed", digest=digest(terms).hex())
        log.info("terms of '%s': %s; all in %s", terms["job"], outline(terms), desk.folder / "terms.json")
        log.info("signed the terms of '%s': %s", terms["job"], " ".join(terms["learns"]))

    def _place_of(self, name: str, job: str) -> Path:
        """The folder of a job: the owner chose its name, so it must not choose the folder."""
        return self.folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:60]}-{job[:8]}"

    def _desk_of(self, terms: dict[str, Any]) -> Desk:
        """The folder of the training whose model is to predict."""
        of = str(terms["predict"].get("of", ""))
        place = self._place_of(terms["job"], of)
        if not self.paper.predict:
            raise ManifestError(f"'{self.name}' allows no prediction; write files = '...' in [predict] of its paper.")
        if not place.is_dir() or digest(Desk(place).terms() or {}).hex() != of:
            raise ManifestError(f"'{self.name}' did not train the model that is to predict, or in another folder.")
        return Desk(place)

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
        peer = Peer(
            align_terms(terms), member, texts(self.sheet.ids, self.name), self.paper.keys.identity, identity_keys
        )
        self.server = AlignServer(AlignSeat(member, peer), job_id(terms), session)
        return {}

    def _prepare(self, facts: Facts) -> Facts:
        terms, desk = self._agreed(), self._desk()
        if isinstance(self.server, AlignServer) and self.server.seat.peer.proof:
            peer = self.server.seat.peer
            desk.keep_rows(peer.rows, {"proof": peer.proof, "files": self.sheet.digest})
        found = desk.rows(self.sheet.digest)
        if found is None or found[1]["proof"] != facts.get("proof"):
            raise ManifestError(f"'{self.name}' has not aligned these rows; align again.")
        self.sheet.check_unchanged()
        if self._trained is not None:
            preparation = preparation_in(self._trained.folder, self.name)
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
        verify(self.paper.owner, signed_bytes("plan", plan), hex_of(facts, "signature", 64), "the owner's plan")
        if plan.get("terms") != digest(terms).hex():
            raise ManifestError(f"a plan of other terms came to '{self.name}' than it has signed; start anew.")
        if self._trained is not None:
            self._check_same_plan(self._trained.plan(), plan, self._tables[0].rows)
        elif plan != self._plan:
            check_plan(plan, terms, self.name, self._tables[0], self.paper.allow)
        self._plan = plan
        return {"signature": sign(self.paper.keys.identity, "plan", plan).hex()}

    def _check_same_plan(self, trained: dict[str, Any], plan: dict[str, Any], rows: int) -> None:
        """A prediction's plan is that of the training, but for its terms and its rows."""
        due = {**trained, "terms": plan["terms"], "test": 0, "predict": rows}
        found = first_difference(due, plan)
        if found:
            raise ManifestError(f"the plan of the prediction is not that of the training, in {found}; do not sign it.")

    def _begin(self, facts: Facts) -> Facts:
        terms = self._agreed()
        check_signatures(keys_in(terms), "plan", self._plan, signatures_in(facts))
        if self._tables is None:
            raise MessageError(f"'{self.name}' was told to begin before it had prepared its rows.")
        session = self._session(facts)
        if self._serves(session):
            return {}
        if self._trained is not None:
            return self._begin_prediction(self._trained, self._tables[0], session)
        self._desk().keep_plan(self._plan)
        write_preparations(self._desk().folder, {self.name: self._tables[0].preparation})
        seat = seat_of(terms, self._plan, self.name, self.paper.keys.identity, *self._tables)
        seat = replace(seat, session=session, secret=self._desk().secret, sums=self._sums(self._desk()))
        party = Party(seat, KeptInFolder(self._desk().folder / "states"))
        party.take_up()
        read_spent(self._desk().folder, party.channel, [self.name])
        self.server, self._released = party, {}
        log.info("begins with %d rows of shape %s", seat.table.rows, "x".join(map(str, seat.table.shape)))
        return {}

    def _begin_prediction(self, trained: Desk, rows: Table, session: bytes) -> Facts:
        table = stand_in(self._plan, self.name)
        seat = seat_of(self._agreed(), self._plan, self.name, self.paper.keys.identity, table, table)
        seat = replace(seat, session=session, secret=trained.secret, tables={"predict": rows}, sums=self._sums(trained))
        self.server = Party(seat, KeptInFolder(trained.folder / "states"))
        log.info("predicts with %d new rows", rows.rows)
        return {}

    def _sums(self, desk: Desk) -> SumRules:
        """What the operator allows of blinded sums; a prediction is held to those of its training."""
        return SumRules(desk.folder / "sums.log", self.paper.allow.changes, self.paper.allow.mix)

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

    def _desk(self) -> Desk:
        assert self.desk is not None
        return self.desk
