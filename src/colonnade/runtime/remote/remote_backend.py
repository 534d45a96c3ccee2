"""Parties in processes of their own, behind a transport that carries bytes; the owner's own columns stay here.

States never travel: a party keeps its own and tells a number, and goes back to a number when the run does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor

from colonnade.core.method import Turn
from colonnade.core.state import Packed
from colonnade.core.table import Table
from colonnade.errors import AwayError, MessageError, SealError
from colonnade.runtime.backend import Backend, Call, Fields
from colonnade.runtime.group import Group
from colonnade.runtime.local_backend import LocalBackend, heard
from colonnade.runtime.remote.remote_party import KEPT, RemoteParty, envelope_of
from colonnade.runtime.remote.reply_numbers import number_in
from colonnade.runtime.remote.transport import Transport
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.seal.key_agreement import Ticket
from colonnade.wire.ledger import Ledger
from colonnade.wire.message import Envelope, encode
from colonnade.wire.owner_half import SealedReply
from colonnade.wire.party_half import PartyHalf


@final
class RemoteBackend(Backend):
    """The parties as the owner reaches them; ``own`` are the groups of the owner's own columns, if it has some."""

    may_restart = True

    def __init__(
        self,
        own: Sequence[Group],
        halves: Sequence[PartyHalf],
        transport: Transport,
        schema: Schema,
        *,
        job: bytes = bytes(16),
        ledger: Ledger | None = None,
        goes_on: bool = False,
    ) -> None:
        """``goes_on``: an absent party is left out, and goes on from its last state when it is back."""
        self.halves, self.transport, self.schema, self.goes_on = list(halves), transport, schema, goes_on
        self.home = {0} if own else set()
        self.ledger = ledger
        self._local = LocalBackend(own, halves, self.home)
        agreed, blind = {"job": job, "plan": schema.digest}, halves[0].ends.seals.blind
        recovers = blind is not None and blind.recover
        self.parties = {
            half.name: RemoteParty(half.name, transport, agreed, goes_on=goes_on, recovers=recovers)
            for k, half in enumerate(halves)
            if k not in self.home
        }
        self._turns: dict[str, tuple[int, Turn]] = {}  # by leader, with its number: those of several overlap
        self._frame: tuple[Fields, Envelope, bytes] | None = None  # the last one made

    def carry(self, call: Call) -> dict[int, Any]:
        """Post the call to all parties at once, compute the owner's own part, and gather the replies."""
        kind, about = kinds_of(call.step)[1], self._about(call)
        others = [k for k in call.chosen if k not in self.home and k not in call.absent]
        if call.begin_sum is not None:
            return self._begin_sum(call, kind, about, others)
        silent = call.turn.training and kind is None
        posted = {k: self._post("step", k, about, call.wires.get(k), silent=silent) for k in others}
        own = self._own_replies(call)
        rows = call.turn.rows.shape[-1]
        came = self._replies([k for k in others if posted[k]], call.name, rows, replies=kind is not None)
        wires = {k: came.get(k) for k in others}
        answers = {k: None if wire is None else self._answer(k, wire, kind, call) for k, wire in wires.items()}
        return {k: own[k] if k in own else answers[k] for k in call.chosen if k not in call.absent}

    def _begin_sum(self, call: Call, kind: Any, about: dict[str, Any], others: list[int]) -> dict[int, Any]:
        """All compute and mask at once; what they sent is then opened as if each had been asked by itself."""
        rows, first = call.turn.rows.shape[-1], self.halves[others[0]].name
        form = self.schema.like(first, "up", call.name, rows)
        if form is None:
            raise SealError(
                f"no rehearsal showed what the parties send in step '{call.name}', so it cannot be blinded."
            )
        own = self._own_replies(call)
        assert call.begin_sum is not None
        bounds, serial = call.begin_sum(form)
        for k in others:
            self._post("sum", k, {**about, "serial": serial}, call.wires.get(k), bounds)
        for k, masked in self._replies(others, call.name, rows).items():
            self.parties[self.halves[k].name].masked = serial, masked or {}
        return own | {k: SealedReply({}, kind, form) for k in others}

    def _own_replies(self, call: Call) -> dict[int, Any]:
        """What the owner's own part replies; it hears what the others hear."""
        chosen = [k for k in call.chosen if k in self.home]
        if not chosen:
            return {}
        messages = call.messages | (heard(self.halves, call) if call.wires and call.shared else {})
        own = Call(call.step, call.name, call.turn, chosen, shared=call.shared)
        replies = self._local.compute(own, {k: messages[k] for k in chosen} if messages else {})
        return {k: reply and type(reply)(*(tensor.detach() for tensor in reply)) for k, reply in replies.items()}

    def _answer(self, k: int, wire: Fields, kind: Any, call: Call) -> SealedReply:
        form = self.schema.like(self.halves[k].name, "up", call.name, call.turn.rows.shape[-1]) or wire
        return SealedReply(wire, kind, {name: form.get(name, torch.empty(0)) for name in kind._fields})

    # requests

    def _about(self, call: Call) -> dict[str, Any]:
        """What a request says of a step; the steps of one turn have its number."""
        turn = call.turn
        if turn.leader not in self._turns or self._turns[turn.leader][1] is not turn:
            last = max((number for number, _ in self._turns.values()), default=0)
            self._turns[turn.leader] = last + 1, turn
        return {
            "step": call.name,
            "purpose": turn.purpose,
            "table": turn.table,
            "leader": turn.leader,
            "round": turn.round,
            "turn": self._turns[turn.leader][0],
            "part": turn.part,
        }

    def _post(
        self, kind: str, k: int, about: Mapping[str, Any], *messages: Fields | None, silent: bool = False
    ) -> bool:
        """Send a request with these messages in frames; a missing one has an empty frame, but none at the end."""
        frames = [self._encoded(fields, envelope_of(kind, about)) if fields else b"" for fields in messages]
        while frames and not frames[-1]:
            frames.pop()
        return self.parties[self.halves[k].name].post(kind, about, *frames, silent=silent)

    def _encoded(self, fields: Fields, envelope: Envelope) -> bytes:
        """A frame; one that goes to all parties is made once."""
        if self._frame is None or self._frame[0] is not fields or self._frame[1] != envelope:
            self._frame = fields, envelope, encode(fields, envelope)
        return self._frame[2]

    def _replies(self, asked: Sequence[int], step: str, rows: int, *, replies: bool = True) -> dict[int, Fields | None]:
        """Everybody's reply, logged, read and checked as it comes, while those of others are on their way."""
        waiting, came = {self.halves[k].name: k for k in asked}, {}
        while waiting:
            k = waiting.pop(self.transport.first([*waiting]) if len(waiting) > 1 else next(iter(waiting)))
            came[k] = self._reply(k, step, rows, replies=replies)
        return came

    def _reply(self, k: int, step: str, rows: int, *, replies: bool = True) -> Fields | None:
        name = self.halves[k].name
        form = self.schema.like(name, "up", step, rows) if rows else None
        return self.parties[name].reply(form=form, replies=replies)

    def phase(self, party: str, phase: str, message: Fields, ticket: Ticket | None) -> Fields:
        """What a party says in a phase; its masked values came with the step itself."""
        remote = self.parties[party]
        if ticket is None:
            return remote.call("blind", message, purpose=phase)
        if phase == "blind" and (ticket.serial, ticket.attempt) == (remote.masked[0], 0) and remote.masked[1]:
            return remote.masked[1]
        if phase == "opened":
            return {}  # the next sum says so: its serial is another
        about = {"round": ticket.round, "serial": ticket.serial, "attempt": ticket.attempt, "step": ticket.tensor}
        return remote.call("blind", message, purpose=phase, **about)

    def ask_all(self, kind: str, frames: Mapping[str, bytes] | None = None, **about: Any) -> dict[str, Fields]:
        """The same request to all, at once; an absent party has no answer, if the run goes on."""
        asked: list[RemoteParty] = []
        replies: dict[str, Fields] = {}
        for name in self.parties if frames is None else frames:
            with self._unless_absent():
                self.parties[name].post(kind, about, *([] if frames is None else [frames[name]]))
                asked.append(self.parties[name])
        for party in asked:
            with self._unless_absent():
                replies[party.name] = party.reply() or {}
        return replies

    @contextmanager
    def _unless_absent(self) -> Iterator[None]:
        try:
            yield
        except AwayError:
            if not self.goes_on:
                raise

    def settle(self) -> None:
        """Send what waits for a next request that will not come."""
        for party in [party for party in self.parties.values() if party.post_waiting()]:
            party.reply(replies=False)

    # tables and states

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Let every party put its own rows of this name in place; they must be as many as the owner's."""
        self._local.place(name, tables)
        for table in tables:
            if table.name in self.parties:
                self.transport.give(table.name, name, table)
        for party, reply in self.ask_all("place", table=name).items():
            rows = int(number_in(party, reply, "rows"))
            if rows != tables[0].rows:
                raise MessageError(
                    f"'{party}' has {rows} rows of '{name}' and the owner {tables[0].rows}; align again."
                )

    def states(self) -> list[Packed]:
        """The number under which each party keeps its state; the owner's own state as it is."""
        replies = self.ask_all("keep", {name: party.keep_request() for name, party in self.parties.items()})
        for name, reply in replies.items():
            self.parties[name].states.hear(reply, self.parties[name].session)
        numbers: dict[str, Tensor] = {}
        for name, party in self.parties.items():
            if party.states.newest is None:
                raise AwayError(f"'{name}' is absent and never kept a state; wait for it.", name)
            numbers[name] = party.states.newest
        own = self._local.grouping.states()
        return [own[k] if k in own else {KEPT: numbers[half.name]} for k, half in enumerate(self.halves)]

    def load(self, states: Mapping[int, Packed]) -> None:
        """Let these parties go back to the states of these numbers."""
        if own := {k: state for k, state in states.items() if k in self.home}:
            self._local.load(own)
        others = {self.halves[k].name: state[KEPT] for k, state in states.items() if k not in self.home}
        self.ask_all("back", {name: self.parties[name].go_back_request(state) for name, state in others.items()})
        for party in self.parties.values():
            party.budget.forget()

    def saved(self, states: Mapping[str, Packed]) -> None:
        """Note which states a checkpoint names: parties need no others, but those of the one before it."""
        named: dict[str, set[int]] = {name: set() for name in self.parties}
        for side, state in states.items():
            if KEPT in state:
                named[self.halves[int(side.rpartition("-")[2])].name].add(int(state[KEPT]))
        for name, numbers in named.items():
            self.parties[name].states.saved(numbers)

    def budgets(self) -> dict[str, dict[str, Any]]:
        """What each party says that its releases have cost."""
        ends = self.halves[0].ends
        sent = {} if self.ledger is None else {name: self.ledger.sent_by(name) for name in self.parties}
        return {
            name: self.parties[name].budget.check(reply, ends[name].budget, sent.get(name, 0))
            for name, reply in self.ask_all("spent").items()
        }

    def wait_for(self, party: str | None) -> bool:
        """Wait until an absent party is back."""
        for name in [party] if party in self.parties else self.parties:
            self.transport.wait_for(str(name))
        return True

    def close(self) -> None:
        """Tell all parties that this is the end, and hang up."""
        try:
            self.ask_all("end")
        finally:
            self.transport.close()
