"""All parties of a run behind the one interface that methods ask: the owner's half of every message is done here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, final

from colonnade.core.device import HOST, Device
from colonnade.core.method import Parties, Turn
from colonnade.core.party_side import Each, To
from colonnade.core.state import Packed
from colonnade.core.step import Side, check_step
from colonnade.core.table import Table
from colonnade.errors import AwayError, SealError
from colonnade.runtime.backend import Backend, Call, Fields, SumStart
from colonnade.seal.blind_owner import BlindOwner
from colonnade.wire.answer_memory import memory_name
from colonnade.wire.owner_half import OwnerHalf, add

R = TypeVar("R")


@final
class AllParties(Parties):
    """Asks the parties through a backend. ``home`` is the owner's own part: what the owner tells itself never travels.

    ``runs_at`` says whose steps these are: parties', or those of several owners. What the method tells and is told is
    on the owner's ``device``, and everything behind this interface on the host.
    """

    def __init__(
        self,
        names: Sequence[str],
        backend: Backend,
        half: OwnerHalf,
        *,
        home: set[int],
        blinding: BlindOwner | None = None,
        runs_at: Side = "party",
        device: Device = HOST,
    ) -> None:
        self.names, self.backend, self.half, self.home = list(names), backend, half, home
        self.blinding, self.runs_at, self.device = blinding, runs_at, device
        self.presence, self._everybody = half.presence, list(range(len(self.names)))
        self._asked: set[int] = set()

    def ask(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None, to: To = None) -> list[R]:
        """Run ``step`` at the parties and give one reply per party asked, in their order."""
        call = self._call(step, turn, all, each, to)
        answers = self.backend.carry(call)
        replies: dict[int, Any] = {
            k: None if answer is None else self._open(k, answer, call) for k, answer in answers.items()
        }
        if call.absent:
            like = next(iter(replies.values()), None)
            replies |= {k: self._stand_in(k, like, call) for k in call.chosen if k not in replies}
        return [self.device.bring_message(replies[k]) for k in call.chosen]

    def sum(self, step: Callable[..., R], turn: Turn, *, all: Any = None, each: Each = None, to: To = None) -> R:
        """Run ``step`` at the parties; only the sum of their replies is given on."""
        if self.blinding is not None and each is not None:
            raise SealError(
                f"step '{step.__name__}' tells every party something else and wants a blinded sum of their answers; "
                "parties share masks only if all are told the same, so tell them before the sum."
            )
        call = self._call(step, turn, all, each, to)
        others = [k for k in call.chosen if k not in self.home]
        if self.blinding is None or not others:
            answers = self.backend.carry(call)
            own = [answers[k] for k in call.chosen if k in self.home]
            sent = [self._open(k, answers[k], call, summed=True) for k in others if k in answers]
            parts = own + ([add(sent)] if sent else [])
        else:
            parts = self._blinded_sum(self.blinding, call, others)
        parts += [self._stand_in(k, parts[0], call) for k in call.chosen if k in call.absent]
        return self.device.bring_message(add(parts))  # type: ignore[no-any-return]

    def _blinded_sum(self, blinding: BlindOwner, call: Call, others: list[int]) -> list[Any]:
        """The reply of the owner's own part, if it is asked, and the opened sum of all others."""
        half, name, turn = self.half, call.name, call.turn
        half.check_asked(blinding, [self.names[k] for k in others if k not in call.absent], name, turn)
        owner_message = next(iter(call.wires.values()), {})
        tasks = []

        def begin(form: Fields) -> SumStart:
            tasks.append(half.sum_task(blinding, form, name, turn, owner_message))
            half.agree_on_keys(blinding, turn)
            return SumStart(tasks[0].bounds, blinding.serial + 1)

        call.begin_sum = begin
        answers = self.backend.carry(call)
        answer = next(answers[k] for k in others if k in answers)
        own = [answers[k] for k in call.chosen if k in self.home]
        return [*own, half.open_sum(blinding, answer.kind, answer.form, tasks[0])]

    def _call(self, step: Callable[..., Any], turn: Turn, all: Any, each: Each, to: To) -> Call:
        """What is asked of whom, sealed and counted; refused if nobody who is asked can answer."""
        chosen = self._everybody if to is None else sorted(set(to))
        check_step(step, self.runs_at, *(("owner",) if self.home >= set(chosen) else ()))
        self._asked.update(chosen)
        call = Call(step, step.__name__, turn, chosen, shared=each is None)
        absent = self.presence.absence.absent
        if absent:
            call.absent = {k for k in chosen if self.names[k] in absent}
            others = [self.names[k] for k in chosen if k not in self.home]
            if others and absent.issuperset(others):
                raise AwayError(
                    f"all parties that round {turn.round} asks for step '{call.name}' are absent: {', '.join(others)}."
                )
        if all is not None or each is not None:
            self._seal(call, all, each)
        return call

    def _seal(self, call: Call, all: Any, each: Each) -> None:
        receivers = [k for k in call.chosen if k not in self.home and k not in call.absent]
        if each is None:
            given = self.device.give(all)
            call.messages = dict.fromkeys(call.chosen, given)
            if receivers:
                wire = self.half.seal(given, [self.names[k] for k in receivers], call.name, call.turn)
                call.wires = dict.fromkeys(receivers, wire)
            return
        call.messages = dict(zip(call.chosen, map(self.device.give, each), strict=True))
        call.wires = {k: self.half.seal(call.messages[k], [self.names[k]], call.name, call.turn) for k in receivers}

    def _open(self, k: int, answer: Any, call: Call, *, summed: bool = False) -> Any:
        if k in self.home:
            self.half.note(self.names[k], call.name, answer, call.turn)
            return answer
        return self.half.open(answer, self.names[k], call.name, call.turn, summed=summed)

    def _stand_in(self, k: int, like: Any, call: Call) -> Any:
        """What stands for the reply of an absent party; a step without a reply needs nothing."""
        if like is None:
            return None
        name = memory_name(self.names[k], call.turn)
        return self.presence.absence.instead(name, call.name, like, self.half.memory)

    # who took part

    def forget_asked(self) -> None:
        """Begin again to note who is asked for anything."""
        self._asked.clear()

    @property
    def asked(self) -> list[str]:
        """Who was asked for anything since :meth:`forget_asked`."""
        return [name for k, name in enumerate(self.names) if k in self._asked]

    # tables and states

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put another table (test rows, rows to predict) at every party."""
        self.backend.place(name, tables)

    def states(self) -> list[Packed]:
        """Each party's own state, or the number under which it keeps it."""
        return self.backend.states()

    def load(self, states: Mapping[int, Packed]) -> None:
        """Let these parties go back to an earlier state."""
        self.backend.load(states)
        if self.blinding is not None and self.backend.may_restart:
            self.blinding.forget_keys()

    def wait_for(self, party: str | None) -> bool:
        """Wait for an absent party; whether going back to a checkpoint is worth a try."""
        # A party that drops out in a simulation would be absent again.
        return party not in self.presence.dropped_out and self.backend.wait_for(party)

    def close(self) -> None:
        """Tell parties in other processes that this is the end, and let the processes go."""
        self.backend.close()
