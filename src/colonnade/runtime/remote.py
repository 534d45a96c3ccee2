"""Parties in processes of their own, behind lines that carry bytes; the owner's own columns stay here.

The owner's half of every message is done here, the party's half by :class:`colonnade.runtime.party.Party`. States never
travel: a party keeps its own and tells a number, and goes back to a number when the run does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from colonnade.channel import Channel, add
from colonnade.errors import AwayError, MessageError, SealError, naming
from colonnade.ledger import OWNER
from colonnade.message import Envelope, decode_fields, encode, fields_of
from colonnade.method import Turn
from colonnade.runtime.blinded_far import BlindedFar
from colonnade.runtime.in_process import InProcess, Named
from colonnade.runtime.letter import Letter, open_letter, write_letter
from colonnade.runtime.lines import Lines
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.runtime.server import refused
from colonnade.runtime.site import Site
from colonnade.runtime.told import Budgets, Kept, check_empty, check_said, largest, number_in
from colonnade.seal.blinding import Blinding
from colonnade.state import Packed
from colonnade.table import Table

Fields = dict[str, Tensor]
KEPT = "kept"


class Remote(InProcess):
    """The parties of a federation as its owner reaches them."""

    def __init__(
        self,
        tables: Sequence[Named],
        home: Sequence[Site],
        channel: Channel,
        lines: Lines,
        schema: Schema,
        *,
        job: bytes = bytes(16),
        keys: Mapping[str, bytes] | None = None,
        goes_on: bool = False,
    ) -> None:
        """``goes_on``: who is away is left out, and goes on from its last state when it is back."""
        super().__init__(tables, home, channel, owner_is_first=bool(home))
        self.lines, self.schema = lines, schema
        self.stamp = Letter("step", job=job, plan=schema.digest)
        self._asked: dict[str, Letter] = {}  # the last letter to each
        self._held: dict[str, bytes] = {}  # by party: a letter that wants no reply and waits for the next one
        self._kinds: dict[str, Any] = {}  # by step: the class of its reply
        self._frame: tuple[Fields, Envelope, bytes] | None = None  # the last one made
        self._turns: dict[str, tuple[int, Turn]] = {}  # by leader, with its number: those of several overlap
        self.goes_on = goes_on
        self._amid: dict[str, int] = {}  # by party: the number of the last turn that it heard of
        self._state_of: dict[str, Tensor] = {}  # by party: the number of the state that it last kept or went back to
        self._kept, self._budgets = Kept(), Budgets()
        self._needed: deque[dict[str, set[int]]] = deque(maxlen=2)
        if channel.blinding is not None:
            blinded = channel.blinding.parties
            self.ends = {party: BlindedFar(self.call, party) for party in blinded}
            channel.blinding = Blinding(
                channel.blinding.blind, blinded, channel.opener, job=job, manifest=keys, ends=self.ends
            )
            channel.blinding.leaves_out = goes_on

    @property
    def far(self) -> list[str]:
        """Those in other processes."""
        return [name for k, name in enumerate(self.names) if k not in self.at_home]

    # a step

    def _delivered(
        self, step: Callable[..., Any], turn: Turn, chosen: list[int], all: Any, each: Sequence[Any] | None
    ) -> dict[int, Any]:
        self._kinds[step.__name__] = kinds_of(step)[1]
        if turn.leader not in self._turns or self._turns[turn.leader][1] is not turn:
            last = max((number for number, _ in self._turns.values()), default=0)
            self._turns[turn.leader] = last + 1, turn
        return super()._delivered(step, turn, chosen, all, each)

    def _deliver(
        self, step: str, turn: Turn, chosen: list[int], all: Any, each: Sequence[Any] | None
    ) -> dict[int, Any]:
        """What each chosen party is sent: tensors of the wire for those far away, the message for the owner's own."""
        if all is None and each is None:
            return {}
        here = [k for k in chosen if k not in self._gone]
        far = [k for k in here if k not in self.at_home]
        if each is not None:
            messages = dict(zip(chosen, each, strict=True))
            return messages | {k: self._sealed(messages[k], [k], step, turn) for k in far}
        if not far:
            return dict.fromkeys(chosen, all)
        wire = self._sealed(all, far, step, turn)
        sent: dict[int, Any] = dict.fromkeys(far, wire)
        if self.at_home.intersection(chosen):
            # The owner's own part hears what the others hear.
            arrived = {self.names[k]: wire for k in far}
            sent |= dict.fromkeys(self.at_home, self.channel.open_down(all, arrived, step=step, turn=turn))
        return sent

    def _sealed(self, message: Any, far: list[int], step: str, turn: Turn) -> Fields:
        parties = [self.names[k] for k in far]
        for party in parties:
            self.schema.check(party, "down", step, fields_of(message), turn.rows.shape[-1], turn.round)
        wire = self.channel.seal_down(message, parties=parties, step=step, turn=turn)
        for party in parties:
            self.channel.carry(wire, turn.leader, party, step, turn)
        return wire

    def _compute(
        self, step: Callable[..., Any], turn: Turn, chosen: list[int], received: dict[int, Any], shared: bool
    ) -> dict[int, Any]:
        far = [k for k in chosen if k not in self.at_home | self._gone]
        home = [k for k in chosen if k in self.at_home]
        about, silent = self._about(step.__name__, turn), turn.training and self._kinds[step.__name__] is None
        posted = {k: self._post("step", self.names[k], about, received.get(k), silent=silent) for k in far}
        found = super()._compute(step, turn, home, received, shared) if home else {}
        found |= {k: self._reply(self.names[k]) if posted[k] else None for k in far}
        return {k: found[k] for k in chosen if k in found}

    def _collect(self, k: int, reply: Any, step: str, turn: Turn) -> Any:
        if k in self.at_home:
            return super()._collect(k, reply, step, turn)
        return None if reply is None else self._opened(self.names[k], reply, step, turn)

    def _opened(self, party: str, wire: Fields, step: str, turn: Turn) -> Any:
        self.channel.carry(wire, party, turn.leader, step, turn)
        like = self._like(party, step, turn, wire)
        rows = turn.rows.shape[-1]

        def check(opened: Fields) -> None:
            self.schema.check(party, "up", step, opened, rows, turn.round)

        with naming(party, step, f" of round {turn.round}"):
            return self.channel.open_up(like, wire, party=party, step=step, turn=turn, check=check)

    def _like(self, party: str, step: str, turn: Turn, wire: Fields) -> Any:
        """Something of the form that a reply has."""
        kind = self._kinds[step]
        form = self.schema.like(party, "up", step, turn.rows.shape[-1]) or wire
        return kind(*(form.get(name, torch.empty(0)) for name in kind._fields))

    def _gathered(
        self, step: Callable[..., Any], turn: Turn, chosen: list[int], all: Any, each: Sequence[Any] | None
    ) -> tuple[list[Any], list[Any]]:
        far = [k for k in chosen if k not in self.at_home]
        if self.channel.blinding is None or not far:
            replies = self._replies(step, turn, chosen, all, each)
            heard = [self._collect(k, replies[k], step.__name__, turn) for k in far if k in replies]
            return [replies[k] for k in chosen if k in self.at_home], [add(heard)] if heard else []
        received = self._delivered(step, turn, chosen, all, each)
        home = [k for k in chosen if k in self.at_home]
        own = super()._compute(step, turn, home, received, each is None) if home else {}
        return list(own.values()), [self._blinded_sum(self.channel.blinding, step, turn, far, received)]

    def _blinded_sum(
        self, blinding: Blinding, step: Callable[..., Any], turn: Turn, far: list[int], received: dict[int, Any]
    ) -> Any:
        """All compute and mask at once; what they sent is then opened as if each had been asked by itself."""
        name = step.__name__
        here = [self.names[k] for k in far if k not in self._gone]
        self.channel.check_blinded(blinding, here, name, turn)
        form = self.schema.like(here[0], "up", name, turn.rows.shape[-1])
        if form is None:
            raise SealError(f"no rehearsal showed what the parties send in step '{name}', so it cannot be blinded.")
        task = self.channel.sum_task(blinding, form, name, turn, next(iter(received.values()), None))

        def carry(fields: Fields, sender: str, receiver: str, of: str, purpose: str) -> Fields:
            return self.channel.carry(fields, sender, receiver, of, turn, purpose)

        blinding.ready(carry)
        about = {**self._about(name, turn), "serial": blinding.serial + 1}
        for k in far:
            if k not in self._gone:
                self._post("sum", self.names[k], about, received.get(k), task.bounds)
        for party in here:
            self.ends[party].masked = (blinding.serial + 1, self._reply(party) or {})
        like = self._kinds[name](*(form[field] for field in self._kinds[name]._fields))
        return self.channel.open_sum(blinding, like, task)

    # letters

    def _about(self, step: str, turn: Turn) -> dict[str, Any]:
        """What a letter says of a step."""
        return {
            "step": step,
            "purpose": turn.purpose,
            "table": turn.table,
            "leader": turn.leader,
            "round": turn.round,
            "turn": self._turns[turn.leader][0],
            "part": turn.part,
        }

    def _post(
        self, kind: str, party: str, about: Mapping[str, Any], *messages: Fields | None, silent: bool = False
    ) -> bool:
        """Send a letter with these messages in frames; a missing one has an empty frame, but none at the end.

        A ``silent`` one, that wants no reply, travels with the next letter to that party: one message instead of two.
        Whether it was sent, and so will be replied to.
        """
        told = list(messages)
        while told and not told[-1]:
            told.pop()
        envelope = Envelope(about.get("step") or kind, about.get("leader", OWNER), about.get("round", 0))
        session = self.lines.session(party)
        self._take_back(party, session, kind, about.get("turn", 0))
        last = self._asked[party].sequence if party in self._asked else 0
        agreed: dict[str, Any] = {"job": self.stamp.job, "session": session, "plan": self.stamp.plan}
        frames = tuple(self._encoded(fields, envelope) if fields else b"" for fields in told)
        before = self._held.pop(party, b"")
        letter = Letter(kind, **about, **agreed, sequence=last + 1, before=before, frames=frames)
        self._asked[party] = letter
        if silent and not before:
            self._held[party] = write_letter(letter)
            return False
        self.lines.post(party, write_letter(letter))
        return True

    def settle(self) -> None:
        """Send what waits for a next letter that will not come."""
        held, self._held = self._held, {}
        for party, letter in held.items():
            self.lines.post(party, letter)
        for party in held:
            self._reply(party)

    def _take_back(self, party: str, session: bytes, kind: str, turn: int) -> None:
        """A new session's letters count from 1; the party begins where it kept its state, or all go back with it."""
        amid, self._amid[party] = self._amid.get(party, 0), turn or self._amid.get(party, 0)
        if party in self._asked and self._asked[party].session != session:
            del self._asked[party]
            self._held.pop(party, None)
            if party in self._state_of and kind != "back":
                if not self.goes_on or (turn and turn == amid):
                    raise AwayError(f"'{party}' came back as another process amid a round.", party)
                self.call("back", party, {KEPT: self._state_of[party]})

    def _encoded(self, fields: Fields, envelope: Envelope) -> bytes:
        """A frame; one that goes to all parties is made once."""
        if self._frame is None or self._frame[0] is not fields or self._frame[1] != envelope:
            self._frame = fields, envelope, encode(fields, envelope)
        return self._frame[2]

    def _reply(self, party: str) -> Fields | None:
        """The tensors of the reply to the last letter, or the error that the party had."""
        asked, raw = self._asked[party], self.lines.reply(party)
        try:
            letter = open_letter(raw)
        except MessageError as error:
            raise MessageError(f"'{party}' sent what is no letter: {error}") from None
        if letter.sender != party or letter.sequence != asked.sequence:
            raise MessageError(
                f"a reply of '{letter.sender}' to letter {letter.sequence} came from '{party}', which was asked "
                f"{asked.sequence}; it is stale or forged."
            )
        if (letter.job, letter.session, letter.plan) != (asked.job, asked.session, asked.plan):
            raise MessageError(f"'{party}' replied for another job, session or plan; it is stale or foreign.")
        more = len(letter.before) or len(letter.frames) > 1
        if not letter.is_about(asked) or letter.kind not in ("answer", "refusal") or more:
            raise MessageError(f"'{party}' replied with a {letter.kind} that is not about what it was asked.")
        what = asked.step or asked.kind
        if letter.kind == "refusal":
            with naming(party, what):
                refusal = refused(letter.frames[0] if letter.frames else b"", party)
            raise refusal
        check_said(party, asked, bool(letter.frames), asked.kind != "step" or self._kinds[asked.step] is not None)
        if not letter.frames:
            return None
        with naming(party, what, f" of round {asked.round}"):
            fields, about = decode_fields(letter.frames[0], largest(asked, self._form(party, asked)))
        if about != Envelope(what, party, asked.round):
            raise MessageError(
                f"'{party}' replied with a frame of '{about.sender}', step '{about.step}', round {about.round}."
            )
        check_empty(party, asked, fields, self.channel.blinding is not None and self.channel.blinding.blind.recover)
        return fields

    def _form(self, party: str, asked: Letter) -> Fields | None:
        """What the answer to a step will look like, if that is known."""
        rows = self._turns[asked.leader][1].rows.shape[-1] if asked.kind in ("step", "sum") else 0
        return self.schema.like(party, "up", asked.step, rows) if rows else None

    def call(self, kind: str, party: str, message: Fields | None = None, **about: Any) -> Fields:
        """One letter to one party and its answer."""
        self._post(kind, party, about, message)
        return self._reply(party) or {}

    def everybody(self, kind: str, messages: Mapping[str, Fields] | None = None, **about: Any) -> dict[str, Fields]:
        """The same letter to all who are far away, at once; who is away has no answer, if the run goes on."""
        asked: list[str] = []
        found: dict[str, Fields] = {}
        for party in self.far if messages is None else messages:
            with self._unless_away():
                self._post(kind, party, about, (messages or {}).get(party))
                asked.append(party)
        for party in asked:
            with self._unless_away():
                found[party] = self._reply(party) or {}
        return found

    @contextmanager
    def _unless_away(self) -> Iterator[None]:
        try:
            yield
        except AwayError:
            if not self.goes_on:
                raise

    # tables and states

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Let every party put its own rows of this name in place; they must be as many as the owner's."""
        self.channel.know(name, tables[0])
        for site in self.sites:
            site.place(name, tables)
        for table in tables:
            if table.name in self.far:
                self.lines.give(table.name, name, table)
        for party, found in self.everybody("place", table=name).items():
            rows = int(number_in(party, found, "rows"))
            if rows != tables[0].rows:
                raise MessageError(
                    f"'{party}' has {rows} rows of '{name}' and the owner {tables[0].rows}; align again."
                )

    def states(self) -> list[Packed]:
        """The number under which each party keeps its state; the owner's own state as it is."""
        needed = {name: {*()}.union(*(one.get(name, ()) for one in self._needed)) for name in self.far}
        for name in needed.keys() & self._state_of.keys():
            needed[name].add(int(self._state_of[name]))  # the only one, until the new number is heard
        told = {name: {"needed": torch.tensor(sorted(numbers), dtype=torch.int64)} for name, numbers in needed.items()}
        self._kept.ask(told)
        for name, came in self.everybody("keep", told).items():
            session = self._asked[name].session
            self._state_of[name] = self._kept.check(name, came, session, self._state_of.get(name))
        if unknown := needed.keys() - self._state_of.keys():
            raise AwayError(f"'{min(unknown)}' is away and never kept a state; wait for it.", min(unknown))
        own: dict[int, Packed] = {}
        for site in self.sites:
            own |= site.states()
        return [own[k] if k in self.at_home else {KEPT: self._state_of[name]} for k, name in enumerate(self.names)]

    def load(self, states: Sequence[Packed]) -> None:
        """Let every party go back to the state of this number."""
        self.put_back(dict(enumerate(states)))

    def put_back(self, states: Mapping[int, Packed]) -> None:
        """Let some parties go back to an earlier state."""
        for site in self.sites:
            if site.members[0] in states:
                site.load(dict(states))
        told = {self.names[k]: {KEPT: state[KEPT]} for k, state in states.items() if k not in self.at_home}
        self._state_of |= {name: state[KEPT] for name, state in told.items()}
        self.everybody("back", told)
        self._budgets.forget()
        if self.channel.blinding is not None:
            self.channel.blinding.roster = b""  # who went back may be another process; agree on keys anew

    def saved(self, states: Mapping[str, Packed]) -> None:
        """Note which states a checkpoint names: parties need no others, but those of the one before it."""
        named: dict[str, set[int]] = {}
        for side, state in states.items():
            if KEPT in state:
                name = self.names[int(side.rpartition("-")[2])]
                named.setdefault(name, set()).add(int(state[KEPT]))
        self._needed.append(named)

    def spent(self) -> dict[str, dict[str, Any]]:
        """What each party says that its releases have cost."""
        told, end, sent = self.everybody("spent"), self.channel.end, self.channel.ledger.sent_by
        return {name: self._budgets.check(name, came, end(name).budget, sent(name)) for name, came in told.items()}

    def wait_for(self, party: str | None) -> bool:
        """Wait until a party that was away is back; whether going back to a checkpoint is worth a try."""
        if party in self.channel.silent:
            return False  # a simulated drop-out would drop out again
        for name in [party] if party in self.far else self.far:
            self.lines.wait_for(str(name))
        return True

    def close(self) -> None:
        """Tell all parties that this is the end, and hang up."""
        try:
            self.everybody("end")
        finally:
            self.lines.close()
