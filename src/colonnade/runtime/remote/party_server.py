"""A party in a process of its own: it serves the owner's requests, one at a time, and sends nothing unasked.

It works out every turn's rows itself, so no row number travels and none is taken from the owner. It runs only the
steps of the agreed method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from colonnade.core.column_scale import evened
from colonnade.core.device import HOST, Device, repeatable
from colonnade.core.method import Method, Turn
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.randomness import Sources
from colonnade.core.schedule import PREDICT_ROWS, schedule_of
from colonnade.core.settings import Settings
from colonnade.core.state import Packed, under
from colonnade.core.table import Table
from colonnade.core.task import Task
from colonnade.errors import ColonnadeError, MessageError, SealError, TrainingError, unknown
from colonnade.models import ModelBuilder
from colonnade.runtime.build import Build, build_parts
from colonnade.runtime.loop import LoopGroup
from colonnade.runtime.remote.history import History
from colonnade.runtime.remote.packet import Packet
from colonnade.runtime.remote.request_server import Fields, RequestServer, log_failure
from colonnade.runtime.remote.run_position import RunPosition
from colonnade.runtime.remote.scope import ANYTHING, Scope
from colonnade.runtime.remote.state_store import MemoryStates, StateStore
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.seal import Seals
from colonnade.seal.blind_party import AGREEING, UNTOLD, BlindParty
from colonnade.seal.key_agreement import Ticket
from colonnade.seal.subject import digest_of
from colonnade.seal.sum_book import SumRules
from colonnade.signatures import Identity
from colonnade.wire.answer_memory import Peaks
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.message import Envelope, fields_of, size
from colonnade.wire.party_half import PartyHalf
from colonnade.wire.witness import Recording, witness_of

_TURN = ("step", "purpose", "table", "leader", "round", "turn", "part")
_READ: dict[str, tuple[int, tuple[str, ...]]] = {
    "step": (1, _TURN),
    "sum": (2, (*_TURN, "serial")),
    "blind": (1, ("step", "purpose", "round", "serial", "attempt")),
    "keep": (1, ()),
    "back": (1, ()),
    "place": (0, ("table",)),
    "spent": (0, ()),
    "end": (0, ()),
}
"""What is read of a request by its kind: so many frames, and these facts; the others must stand as in an empty one."""
_FACTS = (*_TURN, "serial", "attempt")
_NOTHING = Packet("step")
_turn_facts = attrgetter(*_TURN[1:])


@dataclass(frozen=True)
class PartySpec:
    """All that makes a party: its place among the others, its rows, and what was agreed on."""

    member: int
    names: tuple[str, ...]
    """All parties that have columns, in their order."""
    blinded: tuple[str, ...]
    """Those beside the owner, among whom sums are blinded."""
    table: Table
    method: Method
    model: ModelBuilder
    optimizer: OptimizerBuilder
    task: Task
    settings: Settings
    seals: Seals
    schema: Schema
    identity: Identity
    keys: Mapping[str, bytes]
    job: bytes
    session: bytes = bytes(16)
    secret: bytes | None = field(default=None, repr=False)
    """What all randomness of this party comes from, known to it alone; None in a simulation, which must repeat."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    folder: Path | None = None
    sums: SumRules = field(default_factory=SumRules)
    """What is allowed of blinded sums, and where they are noted."""
    leaders: Mapping[str, float] = field(default_factory=lambda: {OWNER: 1.0})
    """The owners by name, each with its share of the rows."""
    places: tuple[Tensor, ...] = ()
    """Which rows are whose, in the owners' order, if there are several."""
    scope: Scope = ANYTHING
    only_question: Callable[[str, bytes], None] | None = None
    """Between organisations, of a method of one round: notes what the round tells, and refuses anything else later."""
    extra_steps: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # to explain; a federation has none
    record: Recording | None = None  # of this party's own view; it changes no message
    device: Device = HOST  # where the party computes, which changes no message either

    @property
    def name(self) -> str:
        """The name of the party."""
        return self.names[self.member]


class PartyServer(RequestServer):
    """One party's process: rows, networks, and its end of the channel."""

    def __init__(self, spec: PartySpec, keeping: StateStore | None = None) -> None:
        handlers = {"step": self._step, "sum": self._sum, "blind": self._blind, "place": self._placed}
        handlers |= {"keep": self._keep, "back": self._back, "spent": self._spent, "end": self._end}
        super().__init__(spec.name, {"job": spec.job, "session": spec.session, "plan": spec.schema.digest}, handlers)
        self.spec = spec
        self.keeping = MemoryStates() if keeping is None else keeping
        how, leaders = spec.settings, spec.leaders
        self.leaders = list(dict.fromkeys([OWNER, *leaders]))
        sources = Sources(how.seed, None if spec.secret is None else {self.name: spec.secret})
        draws = sources.of(self.name)
        table = evened(spec.table)
        build = Build(spec.model, table, spec.member, list(leaders))
        parts = build_parts(spec.method, build, spec.optimizer, spec.task.outputs, draws)
        how_built: dict[str, Any] = {"task": spec.task.public, "leaders": leaders, "device": spec.device}
        self.group = LoopGroup(spec.member, table, parts, draws, **how_built)
        self.ledger, self.ends = Ledger(), Ends(spec.seals, sources)
        self.ends.know("train", spec.table)
        self.blinded, self._steps = _blind_party(spec), spec.method.steps()
        rows = spec.table.rows
        self.schedule = schedule_of(how, rows, several_owners=spec.method.several_owners, places=spec.places)
        self.witness = witness_of(rows, self.schedule, spec.record) if spec.record else None
        self.half = PartyHalf(self.name, self.ends, blind=self.blinded, witness=self.witness)
        self.history, self.position, self.peaks = History(spec.schema, self.blinded), RunPosition(self.name), Peaks()
        for name, table in spec.tables.items():
            self.place(name, table)
        self._turns: dict[str, tuple[int, Any, Turn]] = {}  # by leader, as those of several overlap: number and facts

    def place(self, name: str, table: Table) -> None:
        """Put another table's rows here."""
        self.ends.know(name, table)
        self.group.put(name, table)

    def check_read(self, packet: Packet) -> None:
        """Refuse a request that says more than anybody reads, or that this session is not for."""
        _check_read(packet)
        self.spec.scope.check(packet, self.name)

    def wants_reply(self, packet: Packet) -> bool:
        """Only steps that reply with nothing do not."""
        return packet.kind != "step" or kinds_of(self._step_of(packet))[1] is not None

    # the method's steps

    def _step(self, packet: Packet) -> Fields | None:
        step, turn = self._step_of(packet), self._turn_of(packet)
        self._check_open(packet.step, step)
        reply = self._run(step, turn, packet)
        if reply is None:
            return None
        if self.blinded is not None and not self.spec.schema.has_rows(self.name, packet.step):
            self.blinded.book.tell(packet.step, digest_of(fields_of(reply)))
        rows = turn.rows.shape[-1]
        self.spec.schema.check(self.name, "up", packet.step, fields_of(reply), rows, turn.round)
        with self.peaks.naming():
            wire = self.half.say(reply, packet.step, turn)
        self._count(wire, self.name, turn.leader, packet.step, turn)
        return wire

    def _count(self, fields: Fields, sender: str, receiver: str, step: str, turn: Turn) -> None:
        """A message's line in this party's own ledger."""
        self.ledger.record(turn.purpose, step, sender, receiver, size(fields, Envelope(step, sender, turn.round)))

    def _check_open(self, name: str, step: Callable[..., Any]) -> None:
        """Under Blind, refuse a step whose reply is to be summed, or that the agreed method never has answered."""
        schema, replies = self.spec.schema, kinds_of(step)[1] is not None
        if self.blinded is not None and schema.is_summed(self.name, name):
            raise SealError(f"'{self.name}' answers step '{name}' only as a blinded sum, and was asked openly.")
        if self.blinded is not None and replies and not schema.is_known(self.name, "up", name):
            raise SealError(f"'{self.name}' was asked for step '{name}', whose answer is no part of what was agreed.")

    def _sum(self, packet: Packet) -> Fields:
        """A step whose reply may leave only under masks."""
        blinded, step, turn = self.half.masked_by, self._step_of(packet), self._turn_of(packet)
        form = self.spec.schema.like(self.name, "up", packet.step, turn.rows.shape[-1])
        if form is None or not self.spec.schema.is_summed(self.name, packet.step):
            raise MessageError(f"step '{packet.step}' of '{self.name}' has no reply that could be summed.")
        codes = self.half.sum_codes(form, self.frame(packet, 1), packet.step, turn)
        subject = self.ends.subject(packet.step, turn, self.frame(packet, 0))._replace(history=self.history.digest)
        reply = self._run(step, turn, packet)
        self.spec.schema.check(self.name, "up", packet.step, fields_of(reply), turn.rows.shape[-1], turn.round)
        with self.peaks.naming():
            self.half.hold(reply, codes, subject, packet.step, turn)
        if blinded.recover:
            return {}
        masked = blinded.answer("blind", {}, self._ticket(packet))
        self._count(masked, self.name, turn.leader, packet.step, turn)
        self.half.masked(masked, packet.step, turn)
        return masked

    def _blind(self, packet: Packet) -> Fields:
        """A phase of the key agreement or of a sum that was begun."""
        return self.half.masked_by.answer(packet.purpose, self.frame(packet, 0), self._ticket(packet))

    def _run(self, step: Callable[..., Any], turn: Turn, packet: Packet) -> Any:
        reads, _ = kinds_of(step)
        if reads is None and self.frame(packet, 0):
            raise MessageError(f"step '{packet.step}' came to '{self.name}' with a message, and reads none.")
        received = [] if reads is None else [self._message(reads, packet, turn)]
        self.group.begin(turn)
        try:
            with self.history.hears(packet, lambda: self.frame(packet, 0)), repeatable([self.group.device]):
                return self.group.run(step, turn, received, shared=False)[0]
        except ColonnadeError:
            raise
        except Exception as error:
            # Its words stay here: they may hold values of our columns.
            log_failure(step.__name__, error)
            said = f"step '{step.__name__}' failed at {self.name} in round {turn.round} with {len(turn.rows)} rows "
            said += f"in the batch ({type(error).__name__}); its log says why."
            raise TrainingError(self.peaks.said(said)) from error

    def _message(self, kind: Any, packet: Packet, turn: Turn) -> Any:
        wire, rows = self.frame(packet, 0), turn.rows.shape[-1]
        if not wire:
            raise MessageError(f"step '{packet.step}' came to '{self.name}' without its message.")
        self._count(wire, turn.leader, self.name, packet.step, turn)
        form = self.spec.schema.like(self.name, "down", packet.step, rows) or wire
        form = {name: form.get(name, torch.empty(0)) for name in kind._fields}

        def check(opened: Fields) -> None:
            self.spec.schema.check(self.name, "down", packet.step, opened, rows, turn.round)

        message = self.half.hear(wire, kind, form, packet.step, turn, check)
        if self.spec.only_question is not None and turn.training:
            self.spec.only_question(packet.step, digest_of(wire))
        self.peaks.note(turn.leader, packet.step, fields_of(message), turn)
        return message

    def _step_of(self, packet: Packet) -> Callable[..., Any]:
        if packet.purpose == "explain" and packet.step in self.spec.extra_steps:
            return self.spec.extra_steps[packet.step]
        if packet.step in self._steps:
            if packet.purpose != "train" and not self.spec.schema.may_ask(packet.step):
                raise MessageError(
                    f"step '{packet.step}' came to '{self.name}' to {packet.purpose}, and belongs to training alone."
                )
            return getattr(self.spec.method, packet.step)  # type: ignore[no-any-return]
        if packet.step in self.spec.method.owner_steps():
            served = ", ".join(self._steps) or "none"
            raise MessageError(f"step '{packet.step}' came to '{self.name}' and is an owner's; parties serve {served}.")
        raise unknown(f"step of {self.spec.method.name} at '{self.name}'", packet.step, self._steps)

    def _turn_of(self, packet: Packet) -> Turn:
        """The turn as this party works it out; the steps of one turn share one object, and with it their notes."""
        facts, owner = _turn_facts(packet), self._owner(packet)
        _, known, turn = self._turns.get(packet.leader, (0, None, None))
        if turn is None or known != facts:
            rows = self._rows(packet, owner)
            turn = Turn(packet.round, rows, packet.table, packet.purpose, packet.leader, packet.part)
            self._turns[packet.leader] = packet.turn, facts, turn
        return turn

    def _owner(self, packet: Packet) -> int | None:
        """Which owner leads, by its number; none if several let a party work by itself, as when it averages."""
        for leader, (number, _, _) in self._turns.items():
            if number == packet.turn and leader != packet.leader:
                raise MessageError(
                    f"turn {number} came to '{self.name}' for '{packet.leader}', and '{leader}' leads it."
                )
        owners = list(self.spec.leaders)
        if packet.leader in owners:
            return owners.index(packet.leader)
        if packet.purpose != "train" or any(kinds_of(self._step_of(packet))):
            raise MessageError(
                f"step '{packet.step}' came to '{self.name}' for '{packet.leader}'; {' or '.join(owners)} may ask it."
            )
        return None

    def _rows(self, packet: Packet, owner: int | None) -> Tensor:
        if packet.table not in self.group.tables:
            raise unknown(f"table at '{self.name}'", packet.table, self.group.tables)
        if packet.purpose == "train":
            # A part would be read by nobody but the book of sums, and make each of them another sum.
            if packet.table != "train" or packet.round >= self.spec.settings.rounds or packet.part:
                raise MessageError(
                    f"part {packet.part} of round {packet.round} on '{packet.table}' came to '{self.name}', which "
                    f"agreed to {self.spec.settings.rounds} rounds on 'train', each in one part."
                )
            self.position.begin(packet.round)
            return self.schedule.batch_of(packet.round) if owner is None else self.schedule.rows_of(packet.round, owner)
        if packet.round > self.spec.settings.rounds:
            raise MessageError(
                f"round {packet.round} came to '{self.name}', which agreed to {self.spec.settings.rounds} rounds."
            )
        if packet.purpose == "explain":
            return torch.arange(self.group.tables[packet.table].rows if packet.step in self.spec.extra_steps else 0)
        whole = self.schedule.held_out[owner or 0]
        if packet.table != "train":
            whole = torch.arange(self.group.tables[packet.table].rows)
        parts: Sequence[Tensor] = whole.split(PREDICT_ROWS)
        if packet.part >= len(parts):
            raise MessageError(f"part {packet.part} of '{packet.table}' came to '{self.name}'; it has {len(parts)}.")
        return parts[packet.part]

    # state

    def states(self) -> Packed:
        """This party's own state, with that of its end of the channel."""
        (state,) = self.group.states().values()
        return state | {f"seal/{key}": value for key, value in self.half.end.state().items()}

    def _keep(self, packet: Packet) -> Fields:
        """Keep the present state on this party's own disk; only its number travels."""
        needed = self._numbers(packet, "needed")
        state = self.states() | self.history.state() | self.position.state()
        return {"kept": torch.tensor([self.keeping.keep(state, needed)])}

    def take_up(self) -> None:
        """After a restart: begin where the newest state was kept, if one was."""
        if self.keeping.numbers:
            self._go_back(self.keeping.numbers[-1])

    def _back(self, packet: Packet) -> None:
        """Go back to a state that was kept."""
        numbers = self._numbers(packet, "kept")
        if len(numbers) != 1:
            raise MessageError(f"'{self.name}' was told to go back without a number of a state that it kept.")
        self._go_back(numbers[0])

    def _go_back(self, number: int) -> None:
        self.take_over(self.keeping.get(number))

    def take_over(self, state: Packed) -> None:
        """Be as this state says, which this party kept in this run or in an earlier one."""
        self.group.load({self.spec.member: state})
        self.half.end.load(under(state, "seal"))
        self.history.load(state)
        self.position.load(state)
        self._turns = {}
        if self.witness is not None:
            self.witness.go_back()

    def _placed(self, packet: Packet) -> Fields:
        """Say how many rows a table has that the owner wants to ask about."""
        if packet.table not in self.group.tables:
            raise unknown(f"table at '{self.name}'", packet.table, self.group.tables)
        return {"rows": torch.tensor([self.group.tables[packet.table].rows])}

    def _spent(self, packet: Packet) -> Fields:
        """What this party's releases have cost."""
        budget = self.half.end.budget
        if budget is None:
            return {}
        summary = budget.summary()
        numbers = {key: value for key, value in summary.items() if isinstance(value, int | float)}
        numbers |= {f"messages.{purpose}": count for purpose, count in summary["messages"].items()}
        return {key: torch.tensor([value], dtype=torch.float64) for key, value in numbers.items()}

    def _end(self, packet: Packet) -> None:
        self.ended = True

    def _numbers(self, packet: Packet, name: str) -> list[int]:
        """Whole numbers in a frame of its own; none if it is not there."""
        fields = self.frame(packet, 0)
        numbers = fields.get(name, torch.arange(0))
        if len(fields) > (name in fields) or numbers.dtype != torch.int64 or numbers.ndim > 1:
            raise MessageError(f"{sorted(fields)} came to '{self.name}' where whole numbers '{name}' were expected.")
        return numbers.flatten().tolist()

    def _ticket(self, packet: Packet) -> Ticket:
        return Ticket(packet.round, packet.serial, packet.attempt, packet.step)


def _blind_party(spec: PartySpec) -> BlindParty | None:
    blind = spec.seals.blind
    if blind is None or spec.name not in spec.blinded:
        return None
    return BlindParty(
        spec.job, spec.name, spec.blinded, spec.identity, spec.keys, recover=blind.recover, rules=spec.sums
    )


def _check_read(packet: Packet) -> None:
    """Refuse a request that says more than anybody reads: it is not the owner's."""
    frames, facts = _READ[packet.kind]
    if packet.kind == "blind":
        frames = int(packet.purpose not in UNTOLD)
        facts = ("purpose",) if packet.purpose in AGREEING else facts
    unread = [name for name in _FACTS if name not in facts and getattr(packet, name) != getattr(_NOTHING, name)]
    if unread or len(packet.frames) > frames or (packet.frames and not len(packet.frames[-1])):
        raise MessageError(f"a request of the kind '{packet.kind}' came with more than it has: {unread or 'a frame'}.")
