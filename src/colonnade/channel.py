"""The one place where a message gets its seals, its wire form and its line in the ledger.

Every runtime carries every message through here, so a simulated byte count *is* the deployed one.
"""

from __future__ import annotations

import hashlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.errors import AwayError, SealError, TrainingError
from colonnade.heard import Absence, Heard, Peaks, as_heard
from colonnade.ledger import OWNER, Ledger
from colonnade.message import Envelope, check, decode_fields, encode, fields_of, first_non_finite, size
from colonnade.randomness import Sources
from colonnade.schedule import Turn
from colonnade.seal import Seals
from colonnade.seal.blind import SPREAD
from colonnade.seal.blinding import Blinding, SumTask
from colonnade.seal.end import End, People
from colonnade.seal.subject import Subject, digest_of
from colonnade.table import Table

M = TypeVar("M")
Fields = dict[str, Tensor]


class Channel:
    """Carries messages between the owner and the parties, sealed, and writes the ledger.

    ``wire=True`` really encodes and decodes every message; ``wire=False`` hands the tensors over and
    only computes what the bytes would be. Both write the same ledger. ``opener`` opens blinded sums: the owner, or a
    helper that the owner must not be.
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        *,
        wire: bool = False,
        seals: Seals | None = None,
        parties: Sequence[str] = (),
        sources: Sources | None = None,
        opener: str = OWNER,
    ) -> None:
        self.ledger = ledger if ledger is not None else Ledger()
        self.wire = wire
        self.seals = seals or Seals()
        self.sources = sources or Sources(0)
        self.opener = opener
        self.tables: dict[str, People] = {}
        self.placed: dict[str, int] = {}  # how often rows were put under each name
        self.ends: dict[str, End] = {}
        self.heard, self.peaks = Heard(), Peaks()
        self.absence = Absence()  # who is left out, with a stand-in for every answer
        self.silent: frozenset[str] = frozenset()  # who does not answer if asked, as a simulation says
        self.blinding: Blinding | None = None
        self.blind_among(parties)

    def blind_among(self, parties: Sequence[str]) -> None:
        """Blind sums over exactly these parties from now on, with keys that they agree on at the next sum."""
        if self.seals.blind is not None:
            self.blinding = Blinding(self.seals.blind, parties, self.opener)

    # one message, either way: the sender's half, the wire, the receiver's half

    def to_party(self, message: M, *, party: str, step: str, turn: Turn) -> M:
        """Carry one message from whoever leads the turn to a party."""
        return self.broadcast(message, parties=[party], step=step, turn=turn)

    def broadcast(self, message: M, *, parties: Sequence[str], step: str, turn: Turn) -> M:
        """Carry the same message from whoever leads the turn to several parties; it is sealed once."""
        wire = self.seal_down(message, parties=parties, step=step, turn=turn)
        arrived = {party: self.carry(wire, turn.leader, party, step, turn) for party in parties}
        return self.open_down(message, arrived, step=step, turn=turn)

    def seal_down(self, message: Any, *, parties: Sequence[str], step: str, turn: Turn) -> Fields:
        """The leader's half of :meth:`broadcast`: what travels."""
        everybody = parties[0] if len(parties) == 1 else "all"
        fields = self._checked(message, turn.leader, step, turn)
        return self.end(turn.leader).compress(self.seals.down, fields, everybody, step, turn)

    def open_down(
        self,
        like: M,
        arrived: Mapping[str, Fields],
        *,
        step: str,
        turn: Turn,
        check: Callable[[Fields], None] | None = None,
    ) -> M:
        """The parties' half: the message as those hear it to whom it came, in the form of ``like``, if it is right.

        ``check``, of what came from another process, may refuse it; likewise below.
        """
        codec, form = self.seals.down, fields_of(like)
        # Without feedback all receivers make the same of it, so one may do it for all.
        receivers = list(arrived) if codec is not None and codec.feedback else list(arrived)[:1]
        heard = [self.end(one).expand(codec, arrived[one], form, turn.leader, step, turn, check) for one in receivers]
        if check is not None:
            self.peaks.note(turn.leader, step, heard[0], turn)
        return self._message(like, heard[0])

    def to_owner(self, message: M, *, party: str, step: str, turn: Turn) -> M:
        """Carry one message from a party to whoever leads the turn."""
        wire = self.seal_up(message, party=party, step=step, turn=turn)
        arrived = self.carry(wire, party, turn.leader, step, turn)
        return self.open_up(message, arrived, party=party, step=step, turn=turn)

    def seal_up(self, message: Any, *, party: str, step: str, turn: Turn) -> Fields:
        """The party's half of :meth:`to_owner`: what travels."""
        fields = self.release(message, party=party, step=step, turn=turn)
        return self.end(party).compress(self.seals.up, fields, turn.leader, step, turn)

    def open_up(
        self,
        like: M,
        arrived: Fields,
        *,
        party: str,
        step: str,
        turn: Turn,
        check: Callable[[Fields], None] | None = None,
    ) -> M:
        """The leader's half: the message as it hears it, in the form of ``like``; ``check`` may refuse it."""
        opened = self.end(turn.leader).expand(self.seals.up, arrived, fields_of(like), party, step, turn, check)
        if check is not None:
            self.peaks.note(party, step, opened, turn)
        heard = self._message(like, opened)
        self.note(party, step, heard, turn)
        return heard

    def release(self, message: Any, *, party: str, step: str, turn: Turn) -> Fields:
        """What a party lets go of, with noise on it if there is some."""
        fields = self._checked(message, party, step, turn)
        if party in self.ledger.owners:  # noise is for columns; owners' messages are made of noisy answers
            return fields
        return self.end(party).release(fields, step, turn)

    def note(self, party: str, step: str, message: Any, turn: Turn) -> None:
        """Let the owner remember an answer of a party."""
        self.heard.note(as_heard(party, turn), step, message, turn, whole=not self.absence.away)

    def sum(self, messages: Mapping[str, M], *, step: str, turn: Turn, told: Any = None) -> M:
        """Carry the parties' messages to the owner, who wants their sum; under Blind it gets nothing else.

        (But with few bits on a scale that follows the values, how far all of them reach together.)
        ``told`` is the message that they all answer.
        """
        if self.blinding is not None:
            return self._blinded_sum(self.blinding, messages, step, turn, None if told is None else fields_of(told))
        arrived = [self.to_owner(message, party=party, step=step, turn=turn) for party, message in messages.items()]
        return add(arrived)

    def know(self, name: str, table: Table) -> None:
        """Note whose rows a table's name stands for from now on: budgets and blinded sums are about people."""
        names = [str(one).encode() for one in table.ids]
        if self.seals.noise is None and self.seals.blind is None:
            numbers = torch.arange(table.rows)
        else:
            raw = b"".join(hashlib.blake2b(one, digest_size=8).digest() for one in names)
            numbers = torch.frombuffer(bytearray(raw), dtype=torch.int64)
        self.tables[name] = numbers
        self.placed[name] = self.placed.get(name, 0) + 1

    def end(self, name: str) -> End:
        """One side's end, made at its first use."""
        if name not in self.ends:
            self.ends[name] = End(name, self.seals, self.sources, self.tables)
        return self.ends[name]

    def check_told(self, step: str, each: Any) -> None:
        """Refuse a blinded sum of answers to different messages: what one party is told would show in the sum."""
        if self.blinding is not None and each is not None:
            raise SealError(
                f"step '{step}' tells every party something else and wants a blinded sum of their answers; parties "
                "share masks only if all are told the same, so tell them before the sum."
            )

    def _blinded_sum(
        self, blinding: Blinding, messages: Mapping[str, M], step: str, turn: Turn, told: Fields | None
    ) -> M:
        self.check_blinded(blinding, list(messages), step, turn)
        exact = {party: digest_of(fields_of(message)) for party, message in messages.items()}
        kept = {party: self.release(message, party=party, step=step, turn=turn) for party, message in messages.items()}
        task = self.sum_task(blinding, next(iter(kept.values())), step, turn, told)
        coded = {party: self.end(party).encode(task.expected, fields, step, turn) for party, fields in kept.items()}
        for party in blinding.parties:
            # Who is away has a place in the protocol, but what stands in it never travels.
            stand_in = next(iter(coded.values()))
            blinding.ends[party].hold(coded.get(party, stand_in), task.about, exact.get(party))
        return self.open_sum(blinding, next(iter(messages.values())), task)

    def check_blinded(self, blinding: Blinding, asked: Sequence[str], step: str, turn: Turn) -> None:
        """Refuse a blinded sum over others than those who agreed on its keys."""
        away = self.absence.away.intersection(blinding.parties)
        if away.union(asked) != set(blinding.parties):
            raise SealError(
                f"step '{step}' of round {turn.round} asks {', '.join(asked)} for a blinded sum that "
                f"{', '.join(blinding.parties)} agreed on; a sum over fewer would show the rest, so ask all of them."
            )
        blinding.check_enough(len(asked))

    def sum_task(self, blinding: Blinding, like: Fields, step: str, turn: Turn, told: Fields | None) -> SumTask:
        """What a sum of such fields is, as its opener sees it before it has any of them."""
        codes = self.end(self.opener).sum_codes(like, len(blinding.parties), step, turn)
        bounds = {f"{name}.bound": torch.tensor(code.bound) for name, code in codes.items() if name + SPREAD in codes}
        shapes = {name: tuple(like[name].shape) if name in like else () for name in codes}
        return SumTask(codes, shapes, bounds, self.about(step, turn, told), turn, step)

    def open_sum(self, blinding: Blinding, like: M, task: SumTask) -> M:
        """Run the sum with the parties' ends, which hold their values, and open it."""

        def carry(fields: Fields, sender: str, receiver: str, name: str, purpose: str) -> Fields:
            return self.carry(fields, sender, receiver, name, task.turn, purpose)

        totals, count = blinding.sum(task, carry)
        opened = {name: task.expected[name].decode(total, count) for name, total in totals.items()}
        return self._message(like, self.end(self.opener).open_sum(task.expected, opened, count, task.step, task.turn))

    def about(self, step: str, turn: Turn, told: Fields | None) -> Subject:
        """What a sum is about: two sums of the same people could tell something together."""
        return Subject(
            step=step,
            purpose=turn.purpose,
            table=turn.table,
            leader=turn.leader,
            round=turn.round,
            part=turn.part,
            people=tuple(self.tables[turn.table][turn.rows].tolist()),
            told=digest_of(told or {}),
            placed=self.placed[turn.table],
        )

    def _checked(self, message: Any, sender: str, step: str, turn: Turn) -> Fields:
        check(message)
        field = first_non_finite(message)
        if field is not None:
            raise TrainingError(
                self.peaks.said(
                    f"{sender} sent values that are not finite in '{field}' of step '{step}' in round {turn.round}; "
                    "lower the learning rate or check that party's columns (the last good checkpoint is kept)."
                )
            )
        # In the order of the wire, whether it is there or not: products of other layouts round otherwise.
        return {name: tensor.detach().contiguous() for name, tensor in fields_of(message).items()}

    def carry(self, fields: Fields, sender: str, receiver: str, step: str, turn: Turn, purpose: str = "") -> Fields:
        """The wire itself: what is sent as it arrives, and its line in the ledger."""
        check(fields)
        for party in (self.absence.away | self.silent) & {sender, receiver}:
            raise AwayError(f"'{party}' is away in round {turn.round}.", party)
        envelope = Envelope(step, sender, turn.round)
        self.ledger.record(purpose or turn.purpose, step, sender, receiver, size(fields, envelope))
        if self.wire:
            fields, _ = decode_fields(encode(fields, envelope))
        return fields

    @staticmethod
    def _message(like: M, fields: Fields) -> M:
        kinds = {name: tensor.dtype for name, tensor in fields_of(like).items()}
        return type(like)(**{name: tensor.to(kinds[name]) for name, tensor in fields.items()})


def add(messages: Sequence[M]) -> M:
    """The sum of messages field by field, in their order, so that every runtime rounds alike."""
    totals = [fields[0].clone() for fields in zip(*typing.cast(Any, messages), strict=True)]
    for message in messages[1:]:
        for total, value in zip(totals, typing.cast(Any, message), strict=True):
            total += value
    return type(messages[0])(*totals)
