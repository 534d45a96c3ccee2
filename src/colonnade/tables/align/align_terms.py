"""The terms that all parties agreed on before an alignment, and each list's path through the parties."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.errors import MessageError, PrivacyError
from colonnade.signatures import pack

MODES = ("psi", "plain")
JOINS = ("inner", "left")
LARGEST = 50_000_000
"""The largest number of ids that a party may announce if no maximum was agreed on: an hour of masking, and 1.6 GB."""
TRIED = 1024
"""The least number of entries of a trial list; a party that treats them differently passes 1 time in 1024 at most."""


@dataclass(frozen=True)
class AlignTerms:
    """The agreed terms: the mode, the parties (the owner first), and the sizes that each party refuses."""

    mode: str
    names: tuple[str, ...]
    seed: int
    minimum: int
    maximum: int | None
    join: str = "inner"
    """Whether the owner tells the other party of a pair its places among all of the owner's rows ("left")."""

    @property
    def job(self) -> bytes:
        """The digest of the terms, which every party signs; a party with other terms is refused."""
        agreed = pack(self.mode, str(self.seed), self.minimum, str(self.maximum), *self.names)
        agreed += b"" if self.join == "inner" else pack(self.join)
        return hashlib.sha256(pack("colonnade/align/2", agreed)).digest()

    @property
    def comparer(self) -> int:
        """The party that compares: the last one; in plain mode, which hides nothing from the owner, the owner."""
        return len(self.names) - 1 if self.mode == "psi" else 0

    @property
    def trial(self) -> int | None:
        """The number of the comparer's list in its second pass; None if counting an id twice would change nothing."""
        return len(self.names) if self.mode == "psi" and self.minimum > 1 else None

    @property
    def lists(self) -> range:
        """The numbers of all lists: the parties' sets, the owner's first, and the trial."""
        return range(len(self.names) + (self.trial is not None))

    def path(self, whose: int) -> tuple[int, ...]:
        """The parties that have a list in turn: its own party first, then all others round the ring, the comparer last.

        So a party on the way gets no two lists under the same keys, and cannot compare them.
        """
        if self.mode == "plain":
            return (whose,) if whose == self.comparer else (whose, self.comparer)
        if whose in (self.comparer, self.trial):
            return (self.comparer, *range(self.comparer), self.comparer)
        return (*range(whose, self.comparer), *range(whose), self.comparer)

    def before(self, whose: int, place: int) -> int:
        """The party that gives a list to this party."""
        path = self.path(whose)
        return path[-2] if place == self.comparer else path[path.index(place) - 1]

    def after(self, whose: int, place: int) -> int:
        """The party that this party gives a list to."""
        path = self.path(whose)
        return path[path.index(place) + 1]

    def length(self, whose: int, sizes: Sequence[int]) -> int:
        """How many entries a list has; the comparer adds ids that no party has to its own list."""
        if self.trial is not None and whose in (self.comparer, self.trial):
            return max(sizes[self.comparer] + 1, TRIED)
        return sizes[whose]

    def named(self, whose: int) -> str:
        """A list's name in an error message."""
        return f"'{self.names[self.comparer if whose == self.trial else whose]}'"

    def check_sizes(self, sizes: Sequence[int]) -> None:
        """Refuse sets that are empty or too large, before their size is used."""
        for name, size in zip(self.names, sizes, strict=True):
            if size < 1:
                raise MessageError(f"'{name}' announces {size} ids; an alignment needs at least one of everybody.")
            if self.maximum is not None and size > self.maximum:
                raise PrivacyError(
                    f"'{name}' brings {size} ids and maximum={self.maximum} was agreed on, because who brings "
                    "many can try out whom others have; bring fewer, or agree on more."
                )
            if size > LARGEST:
                raise MessageError(f"'{name}' announces {size} ids; at most {LARGEST} can be aligned, so bring fewer.")
