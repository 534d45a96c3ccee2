"""All parties in this process: one after the other, stacked, or with every message really encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, final

import torch

from colonnade.core.device import reason
from colonnade.core.method import Turn
from colonnade.core.state import Packed
from colonnade.core.table import Table
from colonnade.errors import ColonnadeError, TrainingError
from colonnade.runtime.backend import Backend, Call, Fields
from colonnade.runtime.cores import at_once, cores
from colonnade.runtime.fused import FusedGroup
from colonnade.runtime.group import Group
from colonnade.runtime.grouping import Grouping
from colonnade.seal.key_agreement import Ticket
from colonnade.wire.message import Envelope, decode_fields, encode, fields_of
from colonnade.wire.owner_half import SealedReply
from colonnade.wire.party_half import PartyHalf


@final
class LocalBackend(Backend):
    """Parties as groups that are computed here, each party behind its own half of the wire.

    ``encoded`` sends every message through its bytes; the numbers must be the same without.
    """

    may_restart = False

    def __init__(
        self, groups: Sequence[Group], halves: Sequence[PartyHalf], home: set[int], *, encoded: bool = False
    ) -> None:
        self.grouping, self.halves, self.home, self.encoded = Grouping(groups), list(halves), home, encoded
        self._number = {half.name: k for k, half in enumerate(halves)}
        self._may_use, self.cores = cores(), 1

    def carry(self, call: Call) -> dict[int, Any]:
        """Have every group take the step; all but the owner's own part seal their replies."""
        replies = self.compute(call, self._messages(call))
        if call.begin_sum is not None:
            return self._held(call, replies)
        return {k: None if reply is None else self._answer(k, reply, call) for k, reply in replies.items()}

    def compute(self, call: Call, messages: Mapping[int, Any]) -> dict[int, Any]:
        """The plain replies of those who are asked and not absent."""
        replies: dict[int, Any] = {}
        # Groups stay whole: an absent party is computed with its like, and nothing is made of it.
        groups = [
            group
            for group in self.grouping.asked(set(call.chosen), call.turn)
            if not call.absent.issuperset(group.members)
        ]
        large, small = _by_size(groups, call.turn) if self._may_use > 1 else ([], groups)
        for group in small:
            replies.update(self._replies(group, call, messages))
        if large:
            jobs = [partial(self._replies, group, call, messages) for group in large]
            for own in at_once(jobs, self._cores_for(large)):
                replies.update(own)
        return {k: replies[k] for k in call.chosen if k not in call.absent} if call.absent else replies

    def _cores_for(self, groups: Sequence[Group]) -> int:
        """How many of these groups are computed at once; one, if torch shares every operation among threads."""
        found = min(self._may_use, len(groups)) if torch.get_num_threads() == 1 else 1
        self.cores = max(self.cores, found)
        return found

    def work(self, step: Callable[..., Any], turn: Turn, messages: dict[int, Any], *, shared: bool) -> dict[int, Any]:
        """The plain replies of all to a step on what reached them directly; nothing travels."""
        return self.compute(Call(step, step.__name__, turn, list(range(len(self.halves))), shared=shared), messages)

    def _replies(self, group: Group, call: Call, messages: Mapping[int, Any]) -> dict[int, Any]:
        received = [messages[k] for k in group.members] if messages else []
        group.begin(call.turn)
        try:
            return dict(zip(group.members, group.run(call.step, call.turn, received, call.shared), strict=True))
        except ColonnadeError:
            raise
        except Exception as error:
            who = ", ".join(self.halves[k].name for k in group.members)
            raise TrainingError(
                f"step '{call.name}' failed at {who} in round {call.turn.round} with {len(call.turn.rows)} rows "
                f"in the batch: {reason(error)}"
            ) from error

    def _messages(self, call: Call) -> dict[int, Any]:
        """What every party hears."""
        if not call.wires:
            return call.messages
        return call.messages | heard(self.halves, call, encoded=self.encoded)

    def _answer(self, k: int, reply: Any, call: Call) -> Any:
        if k in self.home:
            return type(reply)(*(tensor.detach() for tensor in reply))
        wire = self.halves[k].say(reply, call.name, call.turn)
        if self.encoded:
            wire = through_bytes(wire, Envelope(call.name, self.halves[k].name, call.turn.round))
        return SealedReply(wire, type(reply), fields_of(reply))

    def _held(self, call: Call, replies: dict[int, Any]) -> dict[int, Any]:
        """Let every party hold its reply for a blinded sum; the owner's own part has its reply at once."""
        others = {k: reply for k, reply in replies.items() if k not in self.home}
        first = next(iter(others.values()))
        form = fields_of(first)
        assert call.begin_sum is not None
        bounds = call.begin_sum(form).bounds
        subject = self.halves[0].ends.subject(call.name, call.turn, next(iter(call.wires.values()), {}))
        for k, reply in others.items():
            codes = self.halves[k].sum_codes(form, bounds, call.name, call.turn)
            self.halves[k].hold(reply, codes, subject, call.name, call.turn)
        own = {k: self._answer(k, reply, call) for k, reply in replies.items() if k in self.home}
        return own | {k: SealedReply({}, type(first), form) for k in others}

    def phase(self, party: str, phase: str, message: Fields, ticket: Ticket | None) -> Fields:
        """What a party's end says; under ``encoded`` both ways as bytes."""
        half = self.halves[self._number[party]]
        if not self.encoded:
            return half.masked_by.answer(phase, message, ticket)
        about = Envelope(phase, party, ticket.round if ticket else 0)
        return through_bytes(half.masked_by.answer(phase, through_bytes(message, about), ticket), about)

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put another table at every party."""
        self.halves[0].ends.know(name, tables[0])
        self.grouping.place(name, tables)

    def states(self) -> list[Packed]:
        """Each party's own state."""
        states = self.grouping.states()
        return [states[k] for k in range(len(self.halves))]

    def load(self, states: Mapping[int, Packed]) -> None:
        """Take these parties' states back."""
        self.grouping.load(states)

    # What parties of this process never do

    def settle(self) -> None:
        """Nothing is under way."""

    def saved(self, states: Mapping[str, Packed]) -> None:
        """A checkpoint holds the states themselves."""

    def budgets(self) -> dict[str, dict[str, Any]]:
        """Their budgets are in their ends."""
        return {}

    def wait_for(self, party: str | None) -> bool:
        """Nobody can be absent from its own process, so a simulated drop-out would drop out again."""
        return False

    def close(self) -> None:
        """Nothing is open."""


def _by_size(groups: Sequence[Group], turn: Turn) -> tuple[list[Group], list[Group]]:
    """The groups that are worth a core of their own, and the others; random numbers are drawn in the others alone."""
    large: list[Group] = [group for group in groups if isinstance(group, FusedGroup) and group.is_large(turn)]
    return large, [group for group in groups if group not in large]


def heard(halves: Sequence[PartyHalf], call: Call, *, encoded: bool = False) -> dict[int, Any]:
    """What the receivers of a call hear, and of a shared message the owner's own part: like parties compute alike."""
    if not call.shared:
        return {k: _hear(halves[k], k, call, encoded) for k in call.wires}
    codec = halves[0].ends.seals.down
    # Without feedback all receivers decode a message alike, so it is decoded once for all.
    apart = encoded or (codec is not None and codec.feedback)
    messages = [_hear(halves[k], k, call, encoded) for k in (call.wires if apart else [next(iter(call.wires))])]
    return dict.fromkeys(call.chosen, messages[0])


def _hear(half: PartyHalf, k: int, call: Call, encoded: bool) -> Any:
    wire, message = call.wires[k], call.messages[k]
    if encoded:
        wire = through_bytes(wire, Envelope(call.name, call.turn.leader, call.turn.round))
    return half.hear(wire, type(message), fields_of(message), call.name, call.turn)


def through_bytes(fields: Fields, envelope: Envelope) -> Fields:
    """The fields as they arrive when they were really sent."""
    return decode_fields(encode(fields, envelope))[0] if fields else fields
