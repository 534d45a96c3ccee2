"""The owner's half of a message: it seals and counts what it sends, and counts, checks and opens what it gets.

Every runtime runs this half, so that a simulated byte is a deployed one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from colonnade.core.schedule import OWNER, Turn
from colonnade.errors import SealError, naming
from colonnade.seal.blind import SPREAD
from colonnade.seal.blind_owner import BlindOwner, Carry, SumTask
from colonnade.wire.answer_memory import AnswerMemory, Peaks, Presence, memory_name
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import Ledger
from colonnade.wire.message import MAX_TENSORS, Envelope, as_message, check, fields_of, sendable, size
from colonnade.wire.witness import SUM, Placed, Transfer, Witness

Fields = dict[str, Tensor]


class SealedReply(NamedTuple):
    """A party's reply as it arrived, the class of its message, and tensors of the shapes that it must have."""

    wire: Fields
    kind: Any
    form: Fields


class Checks(Protocol):
    """What every message must look like, as all sides agreed."""

    def check(self, party: str, way: str, step: str, fields: Mapping[str, Tensor], rows: int, round: int) -> None:
        """Refuse a message of another form."""


class OwnerHalf:
    """The half of a turn's leader. ``opener`` opens blinded sums: the owner, or a helper that is not the owner.

    ``classes`` gives the labels of a turn's rows to seals that hide them; only the owner has them.
    """

    def __init__(
        self,
        ends: Ends,
        ledger: Ledger | None = None,
        memory: AnswerMemory | None = None,
        *,
        checks: Checks | None = None,
        opener: str = OWNER,
        witness: Witness | None = None,
        classes: Callable[[Turn], Tensor] | None = None,
    ) -> None:
        self.ends, self.seals, self.checks, self.opener = ends, ends.seals, checks, opener
        self.classes = classes
        self.ledger = Ledger() if ledger is None else ledger
        self.memory = AnswerMemory() if memory is None else memory
        self.presence, self.peaks, self.witness = Presence(), Peaks(), witness

    def seal(self, message: Any, parties: Sequence[str], step: str, turn: Turn) -> Fields:
        """What travels of one message to these parties; it is sealed once."""
        fields = sendable(message, turn.leader, step, turn.round)
        if self.checks is not None:
            for party in parties:
                self.checks.check(party, "down", step, fields, turn.rows.shape[-1], turn.round)
        receiver = parties[0] if len(parties) == 1 else "all"
        down = self.seals.down
        if self.seals.gradients is not None and turn.training:
            fields = self.ends[turn.leader].disguise(fields, self._classes_of(turn), receiver, step, turn)
        wire = fields if down is None else self.ends[turn.leader].compress(down, fields, receiver, step, turn)
        for party in parties:
            self.count(wire, turn.leader, party, step, turn)
        if self.witness is not None and self.witness.records:
            read = self.ends[turn.leader].read_back(down, fields, wire, receiver, step, turn)
            self.witness.note(read, self._transfer(step, turn.leader, parties, turn))
        return wire

    def _classes_of(self, turn: Turn) -> Tensor:
        """The classes of a turn's rows, which a seal on gradients must have: without them nothing may be sent."""
        if self.classes is None:
            raise SealError("a seal on gradients needs the rows' classes, and this side of the channel has none.")
        return self.classes(turn)

    def open(self, answer: SealedReply, party: str, step: str, turn: Turn, *, summed: bool = False) -> Any:
        """A party's reply as the leader of the turn reads it, counted, checked and remembered.

        ``summed`` says that only the sum of such replies was asked for.
        """
        wire, kind, form = answer
        self.count(wire, party, turn.leader, step, turn, "", summed)
        end = self.ends[turn.leader]
        if self.checks is None and self.seals.up is None and wire.keys() == form.keys():
            fields = wire
        else:
            with naming(party, step, f" of round {turn.round}"):
                fields = end.expand(self.seals.up, wire, form, party, step, turn, self._check_of(party, step, turn))
        if self.checks is not None:
            self.peaks.note(party, step, fields, turn)
        message = kind(**fields) if fields is wire else as_message(kind, form, fields)
        self.note(party, step, message, turn)
        if self.witness is not None and self.witness.records:
            self.witness.note(fields_of(message), self._transfer(step, party, [turn.leader], turn))
        return message

    def _transfer(self, step: str, sender: str, receivers: Sequence[str], turn: Turn) -> Transfer:
        return Transfer(step, sender, receivers, turn, Placed(*self.ends.placed(turn.table)))

    def _check_of(self, party: str, step: str, turn: Turn) -> Callable[[Fields], None] | None:
        """What refuses a reply of another form than was agreed on; None where nothing was."""
        checks, rows = self.checks, turn.rows.shape[-1]
        if checks is None:
            return None
        return lambda opened: checks.check(party, "up", step, opened, rows, turn.round)

    def note(self, party: str, step: str, message: Any, turn: Turn) -> None:
        """Remember a party's reply in training: its mean may stand for the party when it is absent."""
        if turn.training and self.memory.keeps_means:
            name, whole = memory_name(party, turn), not self.presence.absence.absent
            self.memory.note(name, step, message, turn, whole=whole)

    def count(
        self, fields: Fields, sender: str, receiver: str, step: str, turn: Turn, purpose: str = "", summed: bool = False
    ) -> None:
        """A message's line in the ledger; refused if a side of it does not answer for now, or if it has no wire form.

        Seals may make more tensors of a message than one frame holds.
        """
        if len(fields) > MAX_TENSORS:
            check(fields)
        presence = self.presence
        if presence.absence.absent or presence.dropped_out:
            presence.check(sender, turn.round)
            presence.check(receiver, turn.round)
        bytes_of = size(fields, Envelope(step, sender, turn.round))
        self.ledger.record(purpose or turn.purpose, step, sender, receiver, bytes_of, summed=summed)
        if self.witness is not None:
            self.witness.count((purpose or turn.purpose, step, sender, receiver), fields)

    # Blinded sums

    def check_asked(self, blinding: BlindOwner, asked: Sequence[str], step: str, turn: Turn) -> None:
        """Refuse a blinded sum over others than those who agreed on its keys."""
        absent = self.presence.absence.absent.intersection(blinding.parties)
        if absent.union(asked) != set(blinding.parties):
            raise SealError(
                f"step '{step}' of round {turn.round} asks {', '.join(asked)} for a blinded sum that "
                f"{', '.join(blinding.parties)} agreed on; a sum over fewer would show the rest, so ask all of them."
            )
        blinding.check_enough(len(asked))

    def sum_task(self, blinding: BlindOwner, form: Fields, step: str, turn: Turn, owner_message: Fields) -> SumTask:
        """What a sum of such fields is, as its opener sees it before it has any of them."""
        codes = self.ends[self.opener].sum_codes(form, len(blinding.parties), step, turn)
        bounds = {f"{name}.bound": torch.tensor(code.bound) for name, code in codes.items() if name + SPREAD in codes}
        shapes = {name: tuple(form[name].shape) if name in form else () for name in codes}
        return SumTask(codes, shapes, bounds, self.ends.subject(step, turn, owner_message), turn, step)

    def open_sum(self, blinding: BlindOwner, kind: Any, form: Fields, task: SumTask) -> Any:
        """Lead the sum that the parties hold their values for, and open it."""
        totals, count = blinding.sum(task, self._carrier(task.turn))
        decoded = {name: task.expected[name].decode(total, count) for name, total in totals.items()}
        opened = self.ends[self.opener].open_sum(task.expected, decoded, count, task.step, task.turn)
        message = as_message(kind, form, opened)
        if self.witness is not None and self.witness.records:
            transfer = self._transfer(task.step, SUM, [self.opener], task.turn)
            self.witness.note(fields_of(message), transfer._replace(summed=True))
        return message

    def agree_on_keys(self, blinding: BlindOwner, turn: Turn) -> None:
        """Have the parties agree on keys, if they have not."""
        blinding.ready(self._carrier(turn))

    def _carrier(self, turn: Turn) -> Carry:
        def carry(fields: Fields, sender: str, receiver: str, step: str, purpose: str) -> Fields:
            summed = receiver == self.opener and not purpose  # the key agreement has a purpose of its own
            self.count(fields, sender, receiver, step, turn, purpose, summed)
            return fields

        return carry


def add(messages: Sequence[Any]) -> Any:
    """The sum of messages field by field, in their order, so that every runtime rounds alike."""
    totals = [fields[0].clone() for fields in zip(*messages, strict=True)]
    for message in messages[1:]:
        for total, value in zip(totals, message, strict=True):
            total += value
    return type(messages[0])(*totals)
