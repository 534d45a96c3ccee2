"""An owner and some parties that say what they are told to say: for tests of what seals make of one message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

import colonnade as cn
from colonnade.core.state import Packed
from colonnade.runtime.group import Group
from colonnade.runtime.setup import local_parties
from colonnade.seal import make_seals
from colonnade.wire.ends import Ends
from colonnade.wire.owner_half import OwnerHalf


class Puppet(Group):
    """A party that answers with what was put into it, and remembers what it heard."""

    def __init__(self, member: int) -> None:
        super().__init__()
        self.members = [member]
        self.says: Any = None
        self.heard: Any = None

    def run(self, step: Callable[..., Any], turn: cn.Turn, received: Sequence[Any], shared: bool) -> list[Any]:
        self.heard = received[0] if received else None
        return [self.says]

    def inputs(self, turn: cn.Turn) -> Tensor:
        raise NotImplementedError

    def labels(self, turn: cn.Turn) -> Tensor:
        raise NotImplementedError

    def place(self, name: str, tables: Sequence[cn.Table]) -> None:
        """It has no rows."""

    def states(self) -> dict[int, Packed]:
        return {self.members[0]: {}}

    def load(self, states: dict[int, Packed]) -> None:
        """It has no state."""


class Joined:
    """Both halves of every message between the owner and these parties, about the rows of one table."""

    def __init__(self, names: Sequence[str], table: cn.Table, seal: Any = None, *, encoded: bool = False) -> None:
        self.ends = Ends(make_seals(seal))
        self.ends.know("train", table)
        self.half, self.puppets = OwnerHalf(self.ends), {name: Puppet(k) for k, name in enumerate(names)}
        self.parties = local_parties(names, list(self.puppets.values()), self.half, set(), encoded=encoded)

    def to_party(self, message: Any, *, party: str, step: str, turn: cn.Turn) -> Any:
        """A message as the party hears it."""
        puppet = self.puppets[party]
        puppet.says = None
        self.parties.ask(_named(step), turn, each=[message], to=puppet.members)
        return puppet.heard

    def to_owner(self, message: Any, *, party: str, step: str, turn: cn.Turn) -> Any:
        """A message as the owner hears it."""
        puppet = self.puppets[party]
        puppet.says = message
        return self.parties.ask(_named(step), turn, to=puppet.members)[0]

    def sum(self, messages: Mapping[str, Any], *, step: str, turn: cn.Turn) -> Any:
        """What the owner hears of messages that it wants the sum of."""
        for name, message in messages.items():
            self.puppets[name].says = message
        return self.parties.sum(_named(step), turn, to=[self.puppets[name].members[0] for name in messages])


def _named(name: str) -> Callable[..., Any]:
    def step(mine: cn.Mine, turn: cn.Turn) -> None:
        """Whatever the puppet says."""

    step.__name__ = name
    return cn.party_step(step)
