"""What computes one or several parties in this process, behind one interface."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from colonnade.method import Mine, Turn
from colonnade.state import Packed
from colonnade.table import Table


class Site(Mine):
    """One or several parties that are computed together."""

    _turn: Turn | None = None

    def begin(self, turn: Turn) -> None:
        """Forget what the steps of an earlier turn noted."""
        if self._turn is not turn:
            self._turn = turn
            self.scratch.clear()

    def is_amid(self, turn: Turn) -> bool:
        """Whether a step of this turn left notes that a later one may want."""
        return self._turn is turn and bool(self.scratch)

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
