"""A party in a process of its own: it serves the owner's letters, one at a time, and sends nothing unasked.

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

from colonnade.channel import Channel
from colonnade.errors import ColonnadeError, MessageError, SealError, TrainingError, unknown
from colonnade.ledger import OWNER, Ledger
from colonnade.message import fields_of
from colonnade.method import Method, Turn
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.randomness import Sources
from colonnade.runtime.build import build_parts
from colonnade.runtime.history import History
from colonnade.runtime.keeping import Keeping
from colonnade.runtime.letter import Letter
from colonnade.runtime.loop import LoopSite
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.runtime.scope import ANYTHING, Scope
from colonnade.runtime.server import Fields, Handler, Server, log_failure
from colonnade.schedule import PREDICT_ROWS, Schedule, SharedSchedule
from colonnade.seal import Seals
from colonnade.seal.bits import LARGEST_SCALE
from colonnade.seal.blind import SPREAD, SumCode
from colonnade.seal.blinded import AGREEING, UNTOLD, BlindedEnd
from colonnade.seal.keys import Identity, Ticket
from colonnade.seal.subject import digest_of
from colonnade.seal.sum_book import SumRules
from colonnade.settings import Settings
from colonnade.state import Packed, under
from colonnade.table import Table
from colonnade.task import Task

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
_NOTHING = Letter("step")
_turn_facts = attrgetter(*_TURN[1:])


@dataclass(frozen=True)
class Seat:
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

    @property
    def name(self) -> str:
        """Whose seat it is."""
        return self.names[self.member]


class Party(Server):
    """One party's process: rows, networks, and its end of the channel."""

    def __init__(self, seat: Seat, keeping: Keeping | None = None) -> None:
        super().__init__(seat.name, seat.job, seat.session, seat.schema.digest)
        self.seat = seat
        self.keeping = Keeping() if keeping is None else keeping
        how, leaders = seat.settings, seat.leaders
        self.leaders = list(dict.fromkeys([OWNER, *leaders]))
        sources = Sources(how.seed, None if seat.secret is None else {self.name: seat.secret})
        built, draws = (seat.model, seat.optimizer, seat.task.outputs), sources.of(self.name)
        parts = build_parts(seat.method, seat.table, seat.member, *built, draws, list(leaders))
        self.site = LoopSite(seat.member, seat.table, parts, draws)
        self.site.leaders, self.site.task = leaders, seat.task.public
        self.channel = Channel(Ledger(), seals=Seals(), sources=sources)
        self.channel.seals = seat.seals  # its sums are blinded by the end below, not by a channel to others
        self.channel.know("train", seat.table)
        self.blinded, self._steps = _blinded_end(seat), seat.method.steps()
        self.history = History(seat.schema, self.blinded)
        rows = seat.table.rows
        self.schedule = (
            SharedSchedule(seat.places or (torch.arange(rows),), how.batch, how.seed, how.valid, how.shuffle)
            if seat.method.several_owners
            else Schedule(rows, how.batch, how.seed, how.valid, how.shuffle)
        )
        for name, table in seat.tables.items():
            self.place(name, table)
        self._turns: dict[str, tuple[int, Any, Turn]] = {}  # by leader, as those of several overlap: number and facts

    def place(self, name: str, table: Table) -> None:
        """Put another table's rows here."""
        self.channel.know(name, table)
        self.site.tables[name] = table

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Steps, sums and their phases, states, tables, budgets, the end."""
        return {
            "step": self._step,
            "sum": self._sum,
            "blind": self._blind,
            "keep": self._keep,
            "back": self._back,
            "place": self._placed,
            "spent": self._spent,
            "end": self._end,
        }

    def check_read(self, letter: Letter) -> None:
        """Refuse a request that says more than anybody reads, or that this session is not for."""
        _check_read(letter)
        self.seat.scope.check(letter, self.name)

    def wants_reply(self, letter: Letter) -> bool:
        """Only steps that reply with nothing do not."""
        return letter.kind != "step" or kinds_of(self._step_of(letter))[1] is not None

    # the method's steps

    def _step(self, letter: Letter) -> Fields | None:
        step, turn = self._step_of(letter), self._turn_of(letter)
        self._check_open(letter.step, step)
        reply = self._run(step, turn, letter)
        if reply is None:
            return None
        if self.blinded is not None and not self.seat.schema.has_rows(self.name, letter.step):
            self.blinded.book.tell(letter.step, digest_of(fields_of(reply)))
        rows = turn.rows.shape[-1]
        self.seat.schema.check(self.name, "up", letter.step, fields_of(reply), rows, turn.round)
        wire = self.channel.seal_up(reply, party=self.name, step=letter.step, turn=turn)
        return self.channel.carry(wire, self.name, turn.leader, letter.step, turn)

    def _check_open(self, name: str, step: Callable[..., Any]) -> None:
        """Under Blind, refuse a step whose reply is to be summed, or that the agreed method never has answered."""
        schema, replies = self.seat.schema, kinds_of(step)[1] is not None
        if self.blinded is not None and schema.is_summed(self.name, name):
            raise SealError(f"'{self.name}' answers step '{name}' only as a blinded sum, and was asked openly.")
        if self.blinded is not None and replies and not schema.is_known(self.name, "up", name):
            raise SealError(f"'{self.name}' was asked for step '{name}', whose answer is no part of what was agreed.")

    def _sum(self, letter: Letter) -> Fields:
        """A step whose reply may leave only under masks."""
        blinded, step, turn = self._blinded(), self._step_of(letter), self._turn_of(letter)
        codes = self._sum_codes(letter, turn)
        about = self.channel.about(letter.step, turn, self.frame(letter, 0))._replace(history=self.history.digest)
        reply = self._run(step, turn, letter)
        self.seat.schema.check(self.name, "up", letter.step, fields_of(reply), turn.rows.shape[-1], turn.round)
        released = self.channel.release(reply, party=self.name, step=letter.step, turn=turn)
        with self.channel.end(self.name).scales_if_kept():
            coded = self.channel.end(self.name).encode(codes, released, letter.step, turn)
            blinded.hold(coded, about, digest_of(fields_of(reply)))
        if self.seat.seals.blind is not None and self.seat.seals.blind.recover:
            return {}
        return blinded.answer("blind", {}, self._ticket(letter))

    def _sum_codes(self, letter: Letter, turn: Turn) -> dict[str, SumCode]:
        """How this step's reply becomes ring elements, on the scales that the owner told and is to remember."""
        form = self.seat.schema.like(self.name, "up", letter.step, turn.rows.shape[-1])
        if form is None or not self.seat.schema.is_summed(self.name, letter.step):
            raise MessageError(f"step '{letter.step}' of '{self.name}' has no reply that could be summed.")
        told, end = self.frame(letter, 1), self.channel.end(self.name)
        right = all(
            one.dtype == torch.float32 and not one.ndim and 0 < float(one) <= LARGEST_SCALE for one in told.values()
        )
        if right:
            end.bounds = {f"{letter.step}/{name.removesuffix('.bound')}": bound for name, bound in told.items()}
            codes = end.sum_codes(form, len(self.seat.blinded), letter.step, turn)
            end.bounds = {}
            if set(told) == {f"{name}.bound" for name in codes if name + SPREAD in codes}:
                end.check_scales(codes, letter.step, turn, gaps=self._blinded().recover)
                return codes
        raise MessageError(f"scales {sorted(told)} came to '{self.name}' for a sum that has others, or are none.")

    def _blind(self, letter: Letter) -> Fields:
        """A phase of the key agreement or of a sum that was begun."""
        return self._blinded().answer(letter.purpose, self.frame(letter, 0), self._ticket(letter))

    def _run(self, step: Callable[..., Any], turn: Turn, letter: Letter) -> Any:
        reads, _ = kinds_of(step)
        if reads is None and self.frame(letter, 0):
            raise MessageError(f"step '{letter.step}' came to '{self.name}' with a message, and reads none.")
        received = [] if reads is None else [self._message(reads, letter, turn)]
        self.site.begin(turn)
        try:
            with self.history.hears(letter, lambda: self.frame(letter, 0)):
                return self.site.run(step, turn, received, shared=False)[0]
        except ColonnadeError:
            raise
        except Exception as error:
            # Its words stay here: they may hold values of our columns.
            log_failure(step.__name__, error)
            said = f"step '{step.__name__}' failed at {self.name} in round {turn.round} with {len(turn.rows)} rows "
            said += f"in the batch ({type(error).__name__}); its log says why."
            raise TrainingError(self.channel.peaks.said(said)) from error

    def _message(self, kind: Any, letter: Letter, turn: Turn) -> Any:
        wire, rows = self.frame(letter, 0), turn.rows.shape[-1]
        if not wire:
            raise MessageError(f"step '{letter.step}' came to '{self.name}' without its message.")
        self.channel.carry(wire, turn.leader, self.name, letter.step, turn)
        form = self.seat.schema.like(self.name, "down", letter.step, rows) or wire
        like = kind(*(form.get(name, torch.empty(0)) for name in kind._fields))

        def check(opened: Fields) -> None:
            self.seat.schema.check(self.name, "down", letter.step, opened, rows, turn.round)

        return self.channel.open_down(like, {self.name: wire}, step=letter.step, turn=turn, check=check)

    def _step_of(self, letter: Letter) -> Callable[..., Any]:
        if letter.step in self._steps:
            if letter.purpose != "train" and not self.seat.schema.may_ask(letter.step):
                raise MessageError(
                    f"step '{letter.step}' came to '{self.name}' to {letter.purpose}, and belongs to training alone."
                )
            return getattr(self.seat.method, letter.step)  # type: ignore[no-any-return]
        if letter.step in self.seat.method.owner_steps():
            served = ", ".join(self._steps) or "none"
            raise MessageError(f"step '{letter.step}' came to '{self.name}' and is an owner's; parties serve {served}.")
        raise unknown(f"step of {self.seat.method.name} at '{self.name}'", letter.step, self._steps)

    def _turn_of(self, letter: Letter) -> Turn:
        """The turn as this party works it out; the steps of one turn share one object, and with it their notes."""
        facts, owner = _turn_facts(letter), self._owner(letter)
        _, known, turn = self._turns.get(letter.leader, (0, None, None))
        if turn is None or known != facts:
            rows = self._rows(letter, owner)
            turn = Turn(letter.round, rows, letter.table, letter.purpose, letter.leader, letter.part)
            self._turns[letter.leader] = letter.turn, facts, turn
        return turn

    def _owner(self, letter: Letter) -> int | None:
        """Which owner leads, by its number; none if several let a party work by itself, as when it averages."""
        for leader, (number, _, _) in self._turns.items():
            if number == letter.turn and leader != letter.leader:
                raise MessageError(
                    f"turn {number} came to '{self.name}' for '{letter.leader}', and '{leader}' leads it."
                )
        owners = list(self.seat.leaders)
        if letter.leader in owners:
            return owners.index(letter.leader)
        if letter.purpose != "train" or any(kinds_of(self._step_of(letter))):
            raise MessageError(
                f"step '{letter.step}' came to '{self.name}' for '{letter.leader}'; {' or '.join(owners)} may ask it."
            )
        return None

    def _rows(self, letter: Letter, owner: int | None) -> Tensor:
        if letter.table not in self.site.tables:
            raise unknown(f"table at '{self.name}'", letter.table, self.site.tables)
        if letter.purpose == "train":
            # A part would be read by nobody but the book of sums, and make each of them another sum.
            if letter.table != "train" or letter.round >= self.seat.settings.rounds or letter.part:
                raise MessageError(
                    f"part {letter.part} of round {letter.round} on '{letter.table}' came to '{self.name}', which "
                    f"agreed to {self.seat.settings.rounds} rounds on 'train', each in one part."
                )
            return self.schedule.batch_of(letter.round) if owner is None else self.schedule.rows_of(letter.round, owner)
        if letter.round > self.seat.settings.rounds:
            raise MessageError(
                f"round {letter.round} came to '{self.name}', which agreed to {self.seat.settings.rounds} rounds."
            )
        if letter.purpose == "explain":
            return torch.arange(0)
        whole = self.schedule.held_out[owner or 0]
        if letter.table != "train":
            whole = torch.arange(self.site.tables[letter.table].rows)
        parts: Sequence[Tensor] = whole.split(PREDICT_ROWS)
        if letter.part >= len(parts):
            raise MessageError(f"part {letter.part} of '{letter.table}' came to '{self.name}'; it has {len(parts)}.")
        return parts[letter.part]

    # state

    def states(self) -> Packed:
        """This party's own state, with that of its end of the channel."""
        (state,) = self.site.states().values()
        return state | {f"seal/{key}": value for key, value in self.channel.end(self.name).state().items()}

    def _keep(self, letter: Letter) -> Fields:
        """Keep the present state on this party's own disk; only its number travels."""
        needed = self._numbers(letter, "needed")
        return {"kept": torch.tensor([self.keeping.keep(self.states() | self.history.state(), needed)])}

    def take_up(self) -> None:
        """After a restart: begin where the newest state was kept, if one was."""
        if self.keeping.numbers:
            self._go_back(self.keeping.numbers[-1])

    def _back(self, letter: Letter) -> None:
        """Go back to a state that was kept."""
        numbers = self._numbers(letter, "kept")
        if len(numbers) != 1:
            raise MessageError(f"'{self.name}' was told to go back without a number of a state that it kept.")
        self._go_back(numbers[0])

    def _go_back(self, number: int) -> None:
        state = self.keeping.get(number)
        self.site.load({self.seat.member: state})
        self.channel.end(self.name).load(under(state, "seal"))
        self.history.load(state)
        self._turns = {}

    def _placed(self, letter: Letter) -> Fields:
        """Say how many rows a table has that the owner wants to ask about."""
        if letter.table not in self.site.tables:
            raise unknown(f"table at '{self.name}'", letter.table, self.site.tables)
        return {"rows": torch.tensor([self.site.tables[letter.table].rows])}

    def _spent(self, letter: Letter) -> Fields:
        """What this party's releases have cost."""
        budget = self.channel.end(self.name).budget
        if budget is None:
            return {}
        found = budget.summary()
        numbers = {key: value for key, value in found.items() if isinstance(value, int | float)}
        numbers |= {f"messages.{purpose}": count for purpose, count in found["messages"].items()}
        return {key: torch.tensor([value], dtype=torch.float64) for key, value in numbers.items()}

    def _end(self, letter: Letter) -> None:
        self.ended = True

    def _numbers(self, letter: Letter, name: str) -> list[int]:
        """Whole numbers in a frame of its own; none if it is not there."""
        fields = self.frame(letter, 0)
        numbers = fields.get(name, torch.arange(0))
        if len(fields) > (name in fields) or numbers.dtype != torch.int64 or numbers.ndim > 1:
            raise MessageError(f"{sorted(fields)} came to '{self.name}' where whole numbers '{name}' were expected.")
        return numbers.flatten().tolist()

    def _ticket(self, letter: Letter) -> Ticket:
        return Ticket(letter.round, letter.serial, letter.attempt, letter.step)

    def _blinded(self) -> BlindedEnd:
        if self.blinded is None:
            raise MessageError(f"'{self.name}' was asked for a blinded sum and agreed to none.")
        return self.blinded


def _blinded_end(seat: Seat) -> BlindedEnd | None:
    blind = seat.seals.blind
    if blind is None or seat.name not in seat.blinded:
        return None
    return BlindedEnd(
        seat.job, seat.name, seat.blinded, seat.identity, seat.keys, recover=blind.recover, rules=seat.sums
    )


def _check_read(letter: Letter) -> None:
    """Refuse a request that says more than anybody reads: it is not the owner's."""
    frames, facts = _READ[letter.kind]
    if letter.kind == "blind":
        frames = int(letter.purpose not in UNTOLD)
        facts = ("purpose",) if letter.purpose in AGREEING else facts
    unread = [name for name in _FACTS if name not in facts and getattr(letter, name) != getattr(_NOTHING, name)]
    if unread or len(letter.frames) > frames or (letter.frames and not len(letter.frames[-1])):
        raise MessageError(f"a letter of the kind '{letter.kind}' came with more than it has: {unread or 'a frame'}.")
