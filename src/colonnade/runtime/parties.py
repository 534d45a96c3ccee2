"""All parties in one process. Runtimes of this kind differ only in how parties are grouped into sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from colonnade.core.method import Parties, Turn
from colonnade.core.state import Packed
from colonnade.core.step import check_step
from colonnade.core.table import Table
from colonnade.errors import AwayError, ColonnadeError, TrainingError
from colonnade.runtime.fused import FusedGroup
from colonnade.runtime.group import Group
from colonnade.wire.answer_memory import as_heard
from colonnade.wire.channel import Channel, add

R = TypeVar("R")


class Named(Protocol):
    """All that is asked of a table here."""

    @property
    def name(self) -> str:
        """Whose it is."""


class InProcess(Parties):
    """All parties in this process, behind the one interface, every message through the channel."""

    def __init__(
        self, tables: Sequence[Named], sites: Sequence[Group], channel: Channel, *, owner_is_first: bool
    ) -> None:
        self.names = [table.name for table in tables]
        self.sites = list(sites)
        self.groups = [site for site in sites if isinstance(site, FusedGroup)]  # as they are when all are asked
        self._stacked_for = {group.members[0]: set(group.members) for group in self.groups}
        self.channel = channel
        self.at_home = {0} if owner_is_first else set()  # what the owner tells itself never travels
        self.asked: set[int] = set()  # whoever asks a question clears it first, to know who took part

    def ask(
        self,
        step: Callable[..., R],
        turn: Turn,
        *,
        all: Any = None,
        each: Sequence[Any] | None = None,
        to: Iterable[int] | None = None,
    ) -> list[R]:
        """Run ``step`` at the parties and give one reply per party asked, in their order."""
        chosen = self._chosen(step, to)
        replies = self._replies(step, turn, chosen, all, each)
        here = {k: self._collect(k, reply, step.__name__, turn) for k, reply in replies.items()}
        like = next(iter(here.values()), None)
        return [here[k] if k in here else self._instead(k, step.__name__, like, turn) for k in chosen]

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
        self.channel.check_told(step.__name__, each)
        chosen = self._chosen(step, to)
        home, total = self._gathered(step, turn, chosen, all, each)
        parts = [self._at_home(reply) for reply in home] + total
        gone = [k for k in chosen if k in self._gone]
        parts += [self._instead(k, step.__name__, parts[0], turn) for k in gone]
        return add(parts)  # type: ignore[no-any-return]

    def _gathered(
        self, step: Callable[..., Any], turn: Turn, chosen: list[int], all: Any, each: Sequence[Any] | None
    ) -> tuple[list[Any], list[Any]]:
        """The replies of the owner's own part, and the sum of all others; each empty if none was asked."""
        replies = self._replies(step, turn, chosen, all, each)
        sent = {self.names[k]: reply for k, reply in replies.items() if k not in self.at_home}
        home = [reply for k, reply in replies.items() if k in self.at_home]
        return home, [self.channel.sum(sent, step=step.__name__, turn=turn, told=all)] if sent else []

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put another table (test rows, rows to predict) at every party."""
        self.channel.know(name, tables[0])
        for site in self.sites:
            site.place(name, tables)

    def states(self) -> list[Packed]:
        """Each party's own state; only the party itself writes or reads it."""
        found: dict[int, Packed] = {}
        for site in self.sites:
            found |= site.states()
        return [found[k] for k in range(len(self))]

    def load(self, states: Sequence[Packed]) -> None:
        """Take the parties' states back."""
        named = dict(enumerate(states))
        for group in self.groups:
            self._regroup(group, set(group.members), named)
        for site in self.sites:
            site.load(named)

    def put_back(self, states: Mapping[int, Packed]) -> None:
        """Give some parties an earlier state back: those that were computed with their group though they were away."""
        self.load([states.get(k, now) for k, now in enumerate(self.states())])

    # what parties of this process never do, and remote ones may

    def settle(self) -> None:
        """Wait until all that was told has been heard."""

    def saved(self, states: Mapping[str, Packed]) -> None:
        """Hear which states a checkpoint holds."""

    def spent(self) -> dict[str, dict[str, Any]]:
        """What parties of other processes say of their budgets."""
        return {}

    def wait_for(self, party: str | None) -> bool:
        """Wait for a party that is away, and say whether it may come back at all."""
        return False

    @property
    def _gone(self) -> set[int]:
        away = self.channel.absence.away
        return {k for k, name in enumerate(self.names) if name in away} if away else set()

    def _instead(self, k: int, step: str, like: Any, turn: Turn) -> Any:
        if like is None:
            return None  # the step has no reply
        return self.channel.absence.instead(as_heard(self.names[k], turn), step, like, self.channel.heard)

    @property
    def asked_names(self) -> list[str]:
        """Who was asked for anything since ``asked`` was cleared."""
        return [name for k, name in enumerate(self.names) if k in self.asked]

    def _chosen(self, step: Callable[..., Any], to: Iterable[int] | None) -> list[int]:
        chosen = list(range(len(self))) if to is None else sorted(set(to))
        self._check(step, chosen)
        self.asked.update(chosen)
        return chosen

    def _check(self, step: Callable[..., Any], chosen: list[int]) -> None:
        """Refuse what is no step, and a step of owners unless only the owner's own columns are asked."""
        if self.at_home.issuperset(chosen):
            check_step(step, "party", "owner")
        else:
            check_step(step, "party")

    def _replies(
        self, step: Callable[..., Any], turn: Turn, chosen: list[int], all: Any, each: Sequence[Any] | None
    ) -> dict[int, Any]:
        """What each chosen party that is here would send back, before it is sealed."""
        return self._compute(step, turn, chosen, self._delivered(step, turn, chosen, all, each), each is None)

    def _delivered(
        self, step: Callable[..., Any], turn: Turn, chosen: list[int], all: Any, each: Sequence[Any] | None
    ) -> dict[int, Any]:
        """What each chosen party receives, if any of them is here at all."""
        others = set(chosen) - self.at_home
        if others and others <= self._gone:
            who = ", ".join(self.names[k] for k in sorted(others))
            raise AwayError(f"all parties that round {turn.round} asks for step '{step.__name__}' are away: {who}.")
        return self._deliver(step.__name__, turn, chosen, all, each)

    def _compute(
        self, step: Callable[..., Any], turn: Turn, chosen: list[int], received: dict[int, Any], shared: bool
    ) -> dict[int, Any]:
        gone = self._gone
        replies: dict[int, Any] = {}
        for site in self._sites_for(set(chosen), turn):
            if gone.issuperset(site.members):
                continue
            # Groups stay whole: who is away is computed with its like, and nothing is made of it.
            messages = [received[k] for k in site.members] if received else []
            replies |= zip(site.members, self._run(site, step, turn, messages, shared), strict=True)
        return {k: replies[k] for k in chosen if k not in gone}

    def _run(self, site: Group, step: Callable[..., Any], turn: Turn, messages: list[Any], shared: bool) -> list[Any]:
        site.begin(turn)
        try:
            return site.run(step, turn, messages, shared)
        except ColonnadeError:
            raise
        except Exception as error:
            who = ", ".join(self.names[k] for k in site.members)
            raise TrainingError(
                f"step '{step.__name__}' failed at {who} in round {turn.round} with {len(turn.rows)} rows "
                f"in the batch: {error}"
            ) from error

    def _deliver(
        self, step: str, turn: Turn, chosen: list[int], all: Any, each: Sequence[Any] | None
    ) -> dict[int, Any]:
        if all is None and each is None:
            return {}
        if each is None:
            others = [self.names[k] for k in chosen if k not in self.at_home | self._gone]
            # The owner's own part hears what the others hear: like parties must be computed alike.
            heard = self.channel.broadcast(all, parties=others, step=step, turn=turn) if others else all
            return dict.fromkeys(chosen, heard)
        messages = dict(zip(chosen, each, strict=True))
        for k in set(chosen) - self.at_home - self._gone:
            messages[k] = self.channel.to_party(messages[k], party=self.names[k], step=step, turn=turn)
        return messages

    def _collect(self, k: int, reply: Any, step: str, turn: Turn) -> Any:
        if reply is None:
            return None
        if k in self.at_home:
            own = self._at_home(reply)
            self.channel.note(self.names[k], step, own, turn)
            return own
        return self.channel.to_owner(reply, party=self.names[k], step=step, turn=turn)

    @staticmethod
    def _at_home(reply: Any) -> Any:
        return type(reply)(*(tensor.detach() for tensor in reply))

    def _sites_for(self, chosen: set[int], turn: Turn) -> list[Group]:
        for group in self.groups:
            asked = chosen.intersection(group.members)
            if asked and asked != self._stacked_for[group.members[0]]:
                states: dict[int, Packed] = {}
                for site in self._parts_of(group):
                    if site.is_amid(turn):
                        raise TrainingError(
                            f"round {turn.round} asks some parties of a fused group after a step that all of them "
                            "took, and a group cannot be parted within a round; use runtime='loop'."
                        )
                    states |= site.states()
                self._regroup(group, asked, states)
        return [site for site in self.sites if chosen.issuperset(site.members)]

    def _regroup(self, group: FusedGroup, asked: set[int], states: dict[int, Packed]) -> None:
        """Stack those of a group that are asked together, whoever was before: a resumed run must compute alike."""
        for single in group.singles:
            single.load(states)  # refuses shapes that do not fit, party by party
        # Members that were trained apart cannot share an optimiser's step counter.
        stages = {k: group.stage(states[k]) for k in group.members}
        old, new = self._parts_of(group), group.split(lambda k: (k in asked, stages[k]))
        for site in new:
            site.load(states)
        self.sites = sorted([*(s for s in self.sites if s not in old), *new], key=lambda site: site.members[0])
        self._stacked_for[group.members[0]] = asked

    def _parts_of(self, group: FusedGroup) -> list[Group]:
        return [site for site in self.sites if set(site.members) <= set(group.members)]
