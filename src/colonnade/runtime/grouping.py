"""Which parties are computed together: if only some of a fused group are asked, they are stacked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colonnade.core.method import Turn
from colonnade.core.state import Packed
from colonnade.core.table import Table
from colonnade.errors import TrainingError
from colonnade.runtime.fused import FusedGroup
from colonnade.runtime.group import Group


class Grouping:
    """All groups of one process, each with its members' states."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self.count = sum(len(group.members) for group in groups)
        self._fused = [group for group in groups if isinstance(group, FusedGroup)]  # as they are when all are asked
        self._stacked_for = {group.members[0]: set(group.members) for group in self._fused}

    def asked(self, chosen: set[int], turn: Turn) -> list[Group]:
        """The groups of these parties and nobody else."""
        for group in self._fused:
            members = chosen.intersection(group.members)
            if members and members != self._stacked_for[group.members[0]]:
                self._regroup(group, members, self._states_between_turns(group, turn))
        if len(chosen) == self.count:
            return self.groups
        return [group for group in self.groups if chosen.issuperset(group.members)]

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put another table at every party."""
        for group in self.groups:
            group.place(name, tables)

    def states(self) -> dict[int, Packed]:
        """Each party's own state."""
        states: dict[int, Packed] = {}
        for group in self.groups:
            states |= group.states()
        return states

    def load(self, states: Mapping[int, Packed]) -> None:
        """Take all parties' states back; those that are not given stay as they are."""
        whole = dict(states) if len(states) == self.count else self.states() | dict(states)
        for group in self._fused:
            self._regroup(group, set(group.members), whole)
        for part in self.groups:
            part.load(whole)

    def _states_between_turns(self, group: FusedGroup, turn: Turn) -> dict[int, Packed]:
        states: dict[int, Packed] = {}
        for part in self._parts_of(group):
            if part.is_amid(turn):
                raise TrainingError(
                    f"round {turn.round} asks some parties of a fused group after a step that all of them "
                    "took, and a group cannot be parted within a round; use runtime='loop'."
                )
            states |= part.states()
        return states

    def _regroup(self, group: FusedGroup, asked: set[int], states: dict[int, Packed]) -> None:
        """Stack the members that are asked together, whatever was stacked before: a resumed run computes alike."""
        for single in group.singles:
            single.load(states)  # refuses shapes that do not fit, party by party
        # Members that were trained apart cannot share an optimiser's step counter.
        stages = {k: group.stage(states[k]) for k in group.members}
        old, new = self._parts_of(group), group.split(lambda k: (k in asked, stages[k]))
        for part in new:
            part.load(states)
        kept = [other for other in self.groups if other not in old]
        self.groups = sorted([*kept, *new], key=lambda part: part.members[0])
        self._stacked_for[group.members[0]] = asked

    def _parts_of(self, group: FusedGroup) -> list[Group]:
        return [part for part in self.groups if set(part.members) <= set(group.members)]
