"""Parties in processes of their own, behind lines that carry bytes; the owner's own columns stay here.

The owner's half of every message is done here, the party's half by :class:`colonnade.runtime.party.Party`. States never
travel: a party keeps its own and tells a number, and goes back to a number when the run does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.channel import Channel, add
from colonnade.errors import AwayError, MessageError, SealError
from colonnade.ledger import OWNER
from colonnade.message import Envelope, decode_fields, encode, fields_of
from colonnade.method import Turn
from colonnade.runtime.in_process import InProcess, Named
from colonnade.runtime.letter import Letter, open_letter, write_letter
from colonnade.runtime.lines import Lines
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.runtime.server import refused
from colonnade.runtime.site import Site
from colonnade.seal.blind import Coded
from colonnade.seal.blinding import Blinding
from colonnade.seal.keys import Ticket
from colonnade.seal.secure_sum import Subject
from colonnade.state import Packed
from colonnade.table import Table

R = TypeVar("R")
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
        self._sequences: dict[str, tuple[bytes, int]] = {}  # by party: its session, and the last letter of it
        self._kinds: dict[str, Any] = {}  # by step: the class of its reply
        self._turns = 0
        self._turn: Turn | None = None
        self.goes_on = goes_on
        self._state_of: dict[str, Tensor] = {}  # by party: the number of the state that it last kept or went back to
        self._needed: deque[dict[str, set[int]]] = deque(maxlen=2)
        if channel.blinding is not None:
            blinded = channel.blinding.parties
            self.ends = {party: _BlindedFar(self, party) for party in blinded}
            channel.blinding = Blinding(
                channel.blinding.blind, blinded, channel.opener, job=job, manifest=keys, ends=self.ends
            )

    @property
    def far(self) -> list[str]:
        """Those in other processes."""
        return [name for k, name in enumerate(self.names) if k not in self.at_home]

    # a step

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
        for k in far:
            self._post(self._letter("step", step.__name__, turn), self.names[k], received.get(k))
        found = super()._compute(step, turn, home, received, shared) if home else {}
        found |= {k: self._reply(self.names[k]) for k in far}
        return {k: found[k] for k in chosen if k in found}

    def _collect(self, k: int, reply: Any, step: str, turn: Turn) -> Any:
        if k in self.at_home or reply is None:
            return super()._collect(k, reply, step, turn)
        return self._opened(self.names[k], reply, step, turn)

    def _opened(self, party: str, wire: Fields, step: str, turn: Turn) -> Any:
        self.channel.carry(wire, party, turn.leader, step, turn)
        like = self._like(party, step, turn, wire)
        rows = turn.rows.shape[-1]

        def check(opened: Fields) -> None:
            self.schema.check(party, "up", step, opened, rows, turn.round)

        return self.channel.open_up(like, wire, party=party, step=step, turn=turn, check=check)

    def _like(self, party: str, step: str, turn: Turn, wire: Fields) -> Any:
        """Something of the form that a reply has."""
        kind = self._kinds[step]
        form = self.schema.like(party, "up", step, turn.rows.shape[-1]) or wire
        return kind(*(form.get(name, torch.empty(0)) for name in kind._fields))

    def ask(self, step: Callable[..., R], turn: Turn, **how: Any) -> list[R]:
        """Run ``step`` at the parties and give one reply per party asked, in their order."""
        self._begin(step, turn)
        return super().ask(step, turn, **how)

    def sum(
        self,
        step: Callable[..., R],
        turn: Turn,
        *,
        all: Any = None,
        each: Sequence[Any] | None = None,
        to: Iterable[int] | None = None,
    ) -> R:
        """Run ``step`` at the parties; only the sum of their replies is given on."""
        self._begin(step, turn)
        chosen = self._chosen(to)
        far = [k for k in chosen if k not in self.at_home]
        if self.channel.blinding is None or not far:
            replies = self._replies(step, turn, chosen, all, each)
            heard = [self._collect(k, reply, step.__name__, turn) for k, reply in replies.items() if k in far]
            total = [add(heard)] if heard else []
        else:
            self._check_somebody(step, turn, chosen)
            received = self._deliver(step.__name__, turn, chosen, all, each)
            home = [k for k in chosen if k in self.at_home]
            replies = super()._compute(step, turn, home, received, each is None) if home else {}
            total = [self._blinded_sum(self.channel.blinding, step, turn, far, received)]
            replies |= dict.fromkeys((k for k in far if k not in self._gone), None)
        parts: list[Any] = [self._at_home(replies[k]) for k in chosen if k in self.at_home] + total
        parts += [self._instead(k, step.__name__, parts[0], turn) for k in chosen if k not in replies]
        return add(parts)  # type: ignore[no-any-return]

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
        task = self.channel.sum_task(blinding, form, name, turn)

        def carry(fields: Fields, sender: str, receiver: str, of: str, purpose: str) -> Fields:
            return self.channel.carry(fields, sender, receiver, of, turn, purpose)

        blinding.ready(carry)
        letter = replace(self._letter("sum", name, turn), serial=blinding.serial + 1)
        for k in far:
            if k not in self._gone:
                self._post(letter, self.names[k], received.get(k), task.bounds)
        for party in here:
            self.ends[party].masked = (blinding.serial + 1, self._reply(party) or {})
        like = self._kinds[name](*(form[field] for field in self._kinds[name]._fields))
        return self.channel.open_sum(blinding, like, task)

    def _begin(self, step: Callable[..., Any], turn: Turn) -> None:
        self._kinds[step.__name__] = kinds_of(step)[1]
        if turn is not self._turn:
            self._turn, self._turns = turn, self._turns + 1

    # letters

    def _letter(self, kind: str, step: str = "", turn: Turn | None = None) -> Letter:
        if turn is None:
            return replace(self.stamp, kind=kind, step=step)
        return replace(
            self.stamp,
            kind=kind,
            step=step,
            purpose=turn.purpose,
            table=turn.table,
            round=turn.round,
            turn=self._turns,
            part=turn.part,
        )

    def _post(self, letter: Letter, party: str, *messages: Fields | None) -> None:
        """Send a letter with these messages in frames; one that is None or empty has an empty frame."""
        frames = tuple(
            encode(fields, Envelope(letter.step or letter.kind, OWNER, letter.round)) if fields else b""
            for fields in messages
        )
        session = self.lines.session(party)
        known, last = self._sequences.get(party, (session, 0))
        if known != session:
            self._sequences[party] = session, (last := 0)
            if party in self._state_of and letter.kind != "back":
                last += 1
                self.call("back", party, {KEPT: self._state_of[party]})
        self._sequences[party] = session, last + 1
        stamped = replace(letter, session=session, sequence=self._sequences[party][1], frames=frames)
        self.lines.post(party, write_letter(stamped))

    def _reply(self, party: str) -> Fields | None:
        """The tensors of the reply to the last letter, or the error that the party had."""
        letter = open_letter(self.lines.reply(party))
        session, last = self._sequences[party]
        if letter.sender != party or letter.sequence != last:
            raise MessageError(
                f"a reply of '{letter.sender}' to letter {letter.sequence} came from '{party}', which was asked "
                f"{last}; it is stale or forged."
            )
        if (letter.job, letter.session, letter.plan) != (self.stamp.job, session, self.stamp.plan):
            raise MessageError(f"'{party}' replied for another job, session or plan; it is stale or foreign.")
        if letter.kind == "refusal":
            raise refused(letter, party)
        if not letter.frames:
            return None
        fields, about = decode_fields(letter.frames[0])
        if letter.kind != "answer" or about.sender != party or about.round != letter.round:
            raise MessageError(f"'{party}' replied with a {letter.kind} of '{about.sender}', round {about.round}.")
        return fields

    def call(self, kind: str, party: str, message: Fields | None = None, **about: Any) -> Fields:
        """One letter to one party and its answer."""
        self._post(replace(self._letter(kind), **about), party, message)
        return self._reply(party) or {}

    def everybody(self, kind: str, messages: Mapping[str, Fields] | None = None, **about: Any) -> dict[str, Fields]:
        """The same letter to all who are far away, at once; who is away has no answer, if the run goes on."""
        asked: list[str] = []
        found: dict[str, Fields] = {}
        for party in self.far if messages is None else messages:
            with self._unless_away():
                self._post(replace(self._letter(kind), **about), party, (messages or {}).get(party))
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
            rows = int(found["rows"]) if found.keys() == {"rows"} and found["rows"].numel() == 1 else -1
            if rows != tables[0].rows:
                raise MessageError(
                    f"'{party}' has {rows} rows of '{name}' and the owner {tables[0].rows}; align again."
                )

    def states(self) -> list[Packed]:
        """The number under which each party keeps its state; the owner's own state as it is."""
        needed = {name: {*()}.union(*(one.get(name, ()) for one in self._needed)) for name in self.far}
        for name in needed.keys() & self._state_of.keys():
            needed[name].add(int(self._state_of[name]))  # the only one, until the new number is heard
        told = {name: {"needed": torch.tensor(sorted(numbers))} for name, numbers in needed.items()}
        for name, came in self.everybody("keep", told).items():
            self._state_of[name] = _number_in(name, came)
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
        return {party: _budget(told) for party, told in self.everybody("spent").items()}

    def wait_for(self, party: str | None) -> bool:
        """Wait until a party that was away is back; whether going back to a checkpoint is worth a try."""
        for name in [party] if party in self.far else self.far:
            self.lines.wait_for(str(name))
        return True

    def close(self) -> None:
        """Tell all parties that this is the end, and hang up."""
        try:
            self.everybody("end")
        finally:
            self.lines.close()


class _BlindedFar:
    """A blinded party's end in another process."""

    def __init__(self, remote: Remote, party: str) -> None:
        self.remote, self.party = remote, party
        self.masked: tuple[int, Fields] = 0, {}  # what came with the step itself, by the sum's serial

    def answer(self, phase: str, told: Fields, ticket: Ticket | None = None) -> Fields:
        """What the party says in a phase."""
        if ticket is None:
            return self.remote.call("blind", self.party, told, purpose=phase)
        if phase == "blind" and (ticket.serial, ticket.attempt) == (self.masked[0], 0) and self.masked[1]:
            return self.masked[1]
        if phase == "opened":
            return {}  # the next sum says so: its serial is another
        about = {"round": ticket.round, "serial": ticket.serial, "attempt": ticket.attempt, "step": ticket.tensor}
        return self.remote.call("blind", self.party, told, purpose=phase, **about)

    def hold(self, coded: dict[str, Coded], about: Subject) -> None:
        """It has its values itself."""


def _number_in(party: str, came: Fields) -> Tensor:
    if came.keys() != {KEPT} or came[KEPT].numel() != 1 or came[KEPT].is_floating_point():
        raise MessageError(f"'{party}' was to tell the number of a state that it keeps, and told something else.")
    return came[KEPT]


def _budget(told: Fields) -> dict[str, Any]:
    """A budget's numbers as its summary has them, with the messages by purpose."""
    numbers = {key: value.item() for key, value in told.items() if value.numel() == 1}
    found: dict[str, Any] = {key: value for key, value in numbers.items() if not key.startswith("messages.")}
    found["messages"] = {
        key.removeprefix("messages."): int(value) for key, value in numbers.items() if key.startswith("messages.")
    }
    return found
