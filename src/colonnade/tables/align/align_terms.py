"""What all parties agreed on before an alignment, and which way each list goes through them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from colonnade.errors import MessageError, PrivacyError
from colonnade.seal.key_agreement import pack

MODES = ("psi", "plain")
LARGEST = 50_000_000
"""The most ids that anybody may announce where no maximum was agreed on: an hour of masks, and 1.6 GB."""
TRIED = 1024
"""Entries of a list that is tried, at least: who treats them differently passes at most 1 time in so many."""


@dataclass(frozen=True)
class AlignTerms:
    """What all parties agreed on before: how, among whom (the owner first), and what each refuses."""

    mode: str
    names: tuple[str, ...]
    seed: int
    minimum: int
    maximum: int | None

    @property
    def job(self) -> bytes:
        """The name of the job, which every party signs: who agreed on something else is refused."""
        agreed = pack(self.mode, str(self.seed), self.minimum, str(self.maximum), *self.names)
        return hashlib.sha256(pack("colonnade/align/2", agreed)).digest()

    @property
    def comparer(self) -> int:
        """Who compares: the last party; in plain mode, which hides nothing from it, the owner."""
        return len(self.names) - 1 if self.mode == "psi" else 0

    @property
    def trial(self) -> int | None:
        """The number of the comparer's list on its second way; None where an id that counts twice changes nothing."""
        return len(self.names) if self.mode == "psi" and self.minimum > 1 else None

    @property
    def lists(self) -> range:
        """The numbers of all lists: the parties' sets, the owner's first, and the trial."""
        return range(len(self.names) + (self.trial is not None))

    def path(self, whose: int) -> tuple[int, ...]:
        """Who has a list, one after the other: its party first, then all others round the ring, the comparer last.

        So every other party gets each list under other keys, and cannot compare any two.
        """
        if self.mode == "plain":
            return (whose,) if whose == self.comparer else (whose, self.comparer)
        if whose in (self.comparer, self.trial):
            return (self.comparer, *range(self.comparer), self.comparer)
        return (*range(whose, self.comparer), *range(whose), self.comparer)

    def before(self, whose: int, place: int) -> int:
        """From whom a party gets a list."""
        path = self.path(whose)
        return path[-2] if place == self.comparer else path[path.index(place) - 1]

    def after(self, whose: int, place: int) -> int:
        """Whom a party gives a list."""
        path = self.path(whose)
        return path[path.index(place) + 1]

    def length(self, whose: int, sizes: Sequence[int]) -> int:
        """How many entries a list has; the comparer fills up its own with ids that nobody has."""
        if self.trial is not None and whose in (self.comparer, self.trial):
            return max(sizes[self.comparer] + 1, TRIED)
        return sizes[whose]

    def named(self, whose: int) -> str:
        """Whose list it is, to be read in a sentence."""
        return f"'{self.names[self.comparer if whose == self.trial else whose]}'"

    def check_sizes(self, sizes: Sequence[int]) -> None:
        """Refuse sets that are empty or too large, before anything is made of their size."""
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
