"""What computes one or several parties in this process, behind one interface."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from colonnade.core.device import HOST, Device
from colonnade.core.method import Mine, Turn
from colonnade.core.state import Packed
from colonnade.core.table import Table
from colonnade.errors import ConfigError, MessageError


class Notes(dict[str, Tensor]):
    """What the steps of a turn noted for later ones; one that comes before them is refused in a sentence."""

    def __missing__(self, name: str) -> Tensor:
        raise MessageError(
            f"a step came that goes on from '{name}', and the step that gives it did not; keep the order."
        )

    def pop(self, name: str) -> Tensor:  # type: ignore[override]
        """Take a note away."""
        value = self[name]
        del self[name]
        return value


class Group(Mine):
    """One or several parties that are computed together, on one device; what it is given and gives is on the host."""

    def __init__(self, leaders: Mapping[str, float] | None = None, device: Device = HOST) -> None:
        super().__init__(device)
        self.leaders = leaders or {}
        self._notes: dict[str, tuple[Turn, dict[str, Tensor]]] = {}  # by leader: turns of several may overlap

    def begin(self, turn: Turn) -> None:
        """Take up what earlier steps of this turn noted, and forget an earlier turn of the same leader."""
        noted, self.scratch = self._notes.get(turn.leader, (None, Notes()))
        if noted is not turn:
            self.scratch = Notes()
            self._notes[turn.leader] = turn, self.scratch

    def is_amid(self, turn: Turn) -> bool:
        """Whether a step of this turn left notes that a later one may want."""
        noted, scratch = self._notes.get(turn.leader, (None, None))
        return noted is turn and bool(scratch)

    @abstractmethod
    def run(self, step: Callable[..., Any], turn: Turn, received: Sequence[Any], shared: bool) -> list[Any]:
        """Run a step; one reply per member. ``received`` is empty, or one message per member."""

    @abstractmethod
    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put a table under a name at every member (``tables`` is indexed by party)."""

    @abstractmethod
    def states(self) -> dict[int, Packed]:
        """Each member's own state."""

    @abstractmethod
    def load(self, states: dict[int, Packed]) -> None:
        """Take each member's state back."""


class ProtocolGroup(Group):
    """One party at its end of a protocol that trains nothing: no row leaves, and no state is saved."""

    about: ClassVar[str]
    """What an error message calls the protocol."""

    def __init__(self, member: int, name: str) -> None:
        super().__init__()
        self.members, self.name = [member], name

    def inputs(self, turn: Turn) -> Tensor:
        """No row leaves."""
        raise ConfigError(f"'{self.name}' was asked for its rows in {self.about}; stop.")

    def labels(self, turn: Turn) -> Tensor:
        """No label leaves."""
        raise ConfigError(f"'{self.name}' was asked for its labels in {self.about}; stop.")

    def place(self, name: str, tables: Sequence[Table]) -> None:
        """The protocol has no other tables."""

    def states(self) -> dict[int, Packed]:
        """Nothing is saved; secrets belong to one run of the protocol."""
        return {self.members[0]: {}}

    def load(self, states: dict[int, Packed]) -> None:
        """Nothing was saved."""
