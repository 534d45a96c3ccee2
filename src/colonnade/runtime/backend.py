"""How a call reaches the parties and their answers come back: the one interface that runtimes differ in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from colonnade.core.method import Turn
from colonnade.core.state import Packed
from colonnade.core.table import Table
from colonnade.seal.key_agreement import Ticket

Fields = dict[str, Tensor]


class SumStart(NamedTuple):
    """What the owner tells all parties of a blinded sum: the scales of its codes, and the sum's number."""

    bounds: Fields
    serial: int


@dataclass(slots=True)
class Call:
    """One step asked of some parties, with what each of them is sent."""

    step: Callable[..., Any]
    name: str
    """The step's name."""
    turn: Turn
    chosen: list[int]
    """Who is asked, absent parties included."""
    absent: set[int] = field(default_factory=set)
    messages: dict[int, Any] = field(default_factory=dict)
    """What the owner wrote to each of the chosen; empty if the step reads nothing."""
    wires: dict[int, Fields] = field(default_factory=dict)
    """The same as it travels, for those who are neither absent nor the owner's own part."""
    shared: bool = True
    """Whether all are sent the same message."""
    begin_sum: Callable[[Fields], SumStart] | None = None
    """For a blinded sum: from the form of a reply to what the owner tells all parties of the sum."""


class Backend(ABC):
    """All parties of a run, wherever they are.

    The owner's own part, if the owner has columns, is always in this process: its messages are not sealed.
    """

    may_restart: ClassVar[bool]
    """Whether a party that goes back to a state may be another process than before, with other keys."""

    cores = 1
    """On how many cores of this process parties were computed at once."""

    @abstractmethod
    def carry(self, call: Call) -> dict[int, Any]:
        """Have the step run; by party its sealed reply, or None. The owner's own part replies plainly.

        For a blinded sum the parties hold their replies for the phases that follow.
        """

    @abstractmethod
    def phase(self, party: str, phase: str, message: Fields, ticket: Ticket | None) -> Fields:
        """What a party says in a phase of a key agreement or of a blinded sum."""

    @abstractmethod
    def place(self, name: str, tables: Sequence[Table]) -> None:
        """Put the rows of another table (test rows, rows to predict) at every party."""

    @abstractmethod
    def states(self) -> list[Packed]:
        """Each party's own state, or the number under which the party keeps it."""

    @abstractmethod
    def load(self, states: Mapping[int, Packed]) -> None:
        """Let these parties go back to the states that :meth:`states` gave."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until the parties have been sent all that they were told."""

    @abstractmethod
    def saved(self, states: Mapping[str, Packed]) -> None:
        """Hear which states a checkpoint names: parties need no others, but those of the checkpoint before it."""

    @abstractmethod
    def budgets(self) -> dict[str, dict[str, Any]]:
        """What parties in other processes say that their releases have cost."""

    @abstractmethod
    def wait_for(self, party: str | None) -> bool:
        """Wait for an absent party; whether going back to a checkpoint is worth a try."""

    @abstractmethod
    def close(self) -> None:
        """Tell all parties that this is the end."""
