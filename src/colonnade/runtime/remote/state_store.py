"""The states that a party keeps by itself; the owner knows their numbers and says which ones it may still want."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import final

from colonnade.core.state import Packed
from colonnade.errors import CheckpointError, FolderError, MessageError

MOST_STATES = 12
"""At once; an owner needs the last and the best of two checkpoints, the present one and the next."""
MOST_BYTES = 16 << 30
"""Of all of them."""


class StateStore(ABC):
    """States by number, wherever they are kept."""

    def __init__(self, numbers: Sequence[int] = ()) -> None:
        self.numbers = list(numbers)

    def keep(self, state: Packed, needed: Collection[int]) -> int:
        """Keep a state and forget all that nobody needs, if some are said to be needed; its number."""
        self._check(state, needed)
        number = 1 + max(self.numbers, default=0)
        self.write(number, state)
        self.numbers.append(number)
        if needed:
            for old in set(self.numbers) - set(needed) - {number}:
                self.numbers.remove(old)
                self.remove(old)
        return number

    def _check(self, state: Packed, needed: Collection[int]) -> None:
        """Refuse to keep more than the disk limit, whatever the owner asks for."""
        if unknown := set(needed) - set(self.numbers):
            raise MessageError(
                f"state {min(unknown)} is said to be needed, and {self.numbers[-5:] or 'none'} are kept."
            )
        stay = len(set(needed) or self.numbers)
        size = sum(value.nbytes for value in state.values())
        if stay + 1 > MOST_STATES or (stay + 1) * size > MOST_BYTES:
            raise FolderError(
                f"{stay} states of {size} bytes are kept here and said to be needed, and one more was asked for; at "
                f"most {MOST_STATES} and {MOST_BYTES >> 30} GB are kept at once: say which ones are needed."
            )

    def get(self, number: int) -> Packed:
        """A kept state."""
        if number not in self.numbers:
            raise CheckpointError(
                f"no state number {number} is kept here, only {self.numbers[-5:] or 'none'}; delete the owner's newest "
                "checkpoint to go on from the one before."
            )
        return self.read(number)

    @abstractmethod
    def write(self, number: int, state: Packed) -> None:
        """Store a state."""

    @abstractmethod
    def read(self, number: int) -> Packed:
        """Read a stored state."""

    @abstractmethod
    def remove(self, number: int) -> None:
        """Delete a state."""


@final
class MemoryStates(StateStore):
    """States in memory, which end with the process.

    >>> import torch
    >>> states = MemoryStates()
    >>> number = states.keep({"w": torch.ones(1)}, needed=[])
    >>> states.get(number)["w"]
    tensor([1.])
    """

    def __init__(self) -> None:
        super().__init__()
        self._states: dict[int, Packed] = {}

    def write(self, number: int, state: Packed) -> None:
        """Keep a copy."""
        self._states[number] = {name: value.clone() for name, value in state.items()}

    def read(self, number: int) -> Packed:
        """The copy."""
        return self._states[number]

    def remove(self, number: int) -> None:
        """Forget the copy."""
        del self._states[number]
