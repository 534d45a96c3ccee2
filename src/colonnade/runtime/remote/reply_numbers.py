"""Numbers that a party tells beside its messages: of states that it kept, of rows, of budgets. They may be lies."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from colonnade.errors import MessageError, printable
from colonnade.runtime.remote.packet import Packet
from colonnade.runtime.remote.scope import PURPOSES
from colonnade.seal.accountant import Budget, epsilon
from colonnade.seal.relay import forms_of
from colonnade.wire.message import MAX_FRAME

Fields = Mapping[str, Tensor]
SMALL = 1 << 16  # bytes of a frame that holds no rows
SEALED = 4  # how many times eight bytes a number may have under any seal
AHEAD = 10_000  # states that a party may have kept of which an owner that died never heard
BUDGET = ("granted", "delta", "spent", "releases", "allowed")
_WHOLE = ("releases", "allowed")
_MESSAGES = "messages."
_CLOSE = 1e-6
_NO_REPLY = ("back", "end")  # are answered without a frame


def number_in(party: str, reply: Fields, name: str) -> Tensor:
    """The one whole number in a party's reply."""
    if reply.keys() != {name} or reply[name].shape != (1,) or reply[name].dtype != torch.int64 or int(reply[name]) < 0:
        raise MessageError(
            f"'{party}' was to tell one whole number '{name}', and told {sorted(reply)} in another form."
        )
    return reply[name]


def check_said(party: str, asked: Packet, said: bool, replies: bool) -> None:
    """Refuse a message where none is due, and none where one is; ``replies``: whether the step has a reply."""
    if said != (replies and asked.kind not in _NO_REPLY):
        what = "a message" if said else "nothing"
        raise MessageError(f"'{party}' answered {_asked_for(asked)} of round {asked.round} with {what}.")


def check_empty(party: str, asked: Packet, reply: Fields, recover: bool) -> None:
    """Refuse fields in an answer that only says that all is well, and an empty one where keys or codes are due."""
    if asked.kind in ("blind", "sum"):
        empty = recover if asked.kind == "sum" else asked.purpose == "join"
        if empty == bool(reply):
            due = "nothing" if empty else "its part of a blinded sum"
            raise MessageError(
                f"'{party}' answered {_asked_for(asked)} of round {asked.round} with {forms_of(reply)}; {due} was due."
            )


def _asked_for(asked: Packet) -> str:
    if asked.kind == "blind":
        return f"the phase '{asked.purpose}' of a blinded sum"
    return f"step '{asked.step}'" if asked.step else f"'{asked.kind}'"


def largest(asked: Packet, form: Fields | None) -> int:
    """Bytes of the largest frame that can answer a request; of a step, whatever its seals make of the agreed form."""
    if form is not None:
        return SMALL + SEALED * sum(8 * value.numel() for value in form.values())
    return SMALL if asked.kind in ("keep", "back", "place", "spent", "end") else MAX_FRAME


class KeptStates:
    """The numbers of the states that one party keeps: each is the one after the last that the owner knows of."""

    def __init__(self, party: str) -> None:
        self.party = party
        self.newest: Tensor | None = None
        """The number of the state that the party last kept or went back to."""
        self._session, self._number = b"", 0  # in which session it told its last number
        self._asked = 0  # since then
        self._needed: deque[set[int]] = deque(maxlen=2)  # which states the last two checkpoints name

    def ask(self) -> Tensor:
        """The numbers that the owner still needs, for a party that is asked to keep one more.

        The answer goes unheard if another party becomes absent meanwhile.
        """
        self._asked += 1
        needed = {*()}.union(*self._needed)
        if self.newest is not None:
            needed.add(int(self.newest))  # the only one, until the new number is heard
        return torch.tensor(sorted(needed), dtype=torch.int64)

    def hear(self, reply: Fields, session: bytes) -> None:
        """Take the number that the party told, if it can be true."""
        number, last = number_in(self.party, reply, "kept"), 0 if self.newest is None else int(self.newest)
        unheard, self._asked = max(self._asked, 1), 0
        first = self._number + 1 if self._session == session else last + 1
        most = self._number + unheard if self._session == session else last + AHEAD
        if not first <= int(number) <= most:
            due = f"{first}" if first == most else f"one from {first} to {most}"
            raise MessageError(f"'{self.party}' kept a state and called it 'kept' = {int(number)}; {due} was due.")
        self._session, self._number, self.newest = session, int(number), number

    def saved(self, numbers: set[int]) -> None:
        """Note which states of the party a checkpoint names."""
        self._needed.append(numbers)


class BudgetReports:
    """One party's reports of its privacy budget, checked as far as they can be."""

    def __init__(self, party: str) -> None:
        self.party = party
        self._last: dict[str, float] = {}

    def forget(self) -> None:
        """The run goes back, and a simulated party's budget with it."""
        self._last = {}

    def check(self, reply: Fields, own: Budget | None, heard: int = 0) -> dict[str, Any]:
        """A budget's numbers as its summary has them, with the messages by purpose.

        ``own`` is as it was granted, ``heard`` how many messages came of the party: those that it counts may be a few
        more, since some were lost on their way. Which of them were for what is shown as it says.
        """
        reported = {name: _single(self.party, name, value) for name, value in reply.items()}
        if (own is None) != (not reported) or (reported and not reported.keys() >= set(BUDGET)):
            due = "nothing" if own is None else ", ".join(BUDGET)
            raise MessageError(f"'{self.party}' told of its budget {sorted(reported)}; {due} was expected.")
        if own is not None:
            self._check_values(reported, own)
            _check_messages(self.party, reported, heard + AHEAD)
        self._last = reported
        messages = {
            name.removeprefix(_MESSAGES): int(reported[name]) for name in reported if name.startswith(_MESSAGES)
        }
        numbers: dict[str, Any] = {name: value for name, value in reported.items() if name in BUDGET}
        return {**numbers, "messages": messages} if reported else {}

    def _check_values(self, reported: dict[str, float], own: Budget) -> None:
        """Check a report: the grant is known, the cost follows from the releases, and no number becomes less."""
        releases = min(int(reported["releases"]), own.allowed)
        due = {"granted": own.granted, "delta": own.delta, "allowed": own.allowed, "releases": releases}
        due |= {"spent": epsilon(releases, own.multiplier, own.delta)}
        messages = sum(value for name, value in reported.items() if name.startswith(_MESSAGES))
        due |= {} if messages else {"releases": 0}
        before = self._last
        for name, value in reported.items():
            if name in due and not math.isclose(value, due[name], rel_tol=_CLOSE, abs_tol=_CLOSE):
                raise self._refusal(name, value, f"{due[name]:g}")
            if value < before.get(name, 0.0) * (1 - _CLOSE):
                raise self._refusal(name, value, f"no less than {before[name]:g}")

    def _refusal(self, name: str, value: float, due: str) -> MessageError:
        return MessageError(f"'{self.party}' told of its budget '{name}' = {value:g}; {due} was expected.")


def _check_messages(party: str, reported: dict[str, float], most: int) -> None:
    for name, value in reported.items():
        if name.startswith(_MESSAGES) and value > most:
            raise MessageError(f"'{party}' told of its budget '{name}' = {value:g}; {most:,} at most were expected.")


def _single(party: str, name: str, value: Tensor) -> float:
    """One number of a budget, under a name that budgets have."""
    known = name in BUDGET or (name.startswith(_MESSAGES) and name.removeprefix(_MESSAGES) in PURPOSES)
    whole = name in _WHOLE or name.startswith(_MESSAGES)
    single = value.shape == (1,) and value.dtype == torch.float64
    number = float(value) if known and single else -1.0
    if not math.isfinite(number) or number < 0 or (whole and (number != int(number) or number > 2**53)):
        what = f"{number:g}" if single and known else f"{value.dtype} {list(value.shape)[:8]}"
        raise MessageError(
            f"'{party}' told of its budget '{printable(name, 40)}' = {what}; a number from 0 on, under a name that "
            "budgets have, was expected."
        )
    return number
