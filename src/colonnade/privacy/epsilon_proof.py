"""An epsilon that a seal grants beside the one that canaries prove, as a value with its sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

REPEATS = 4


@dataclass(frozen=True)
class EpsilonProof:
    """What a seal grants, and what canaries prove that it leaks at least."""

    seal: str
    """What was audited, as the subject of a sentence: "'noise'", "the messages of 'fdml' under 'random-labels'"."""
    granted: float
    proved: float
    delta: float
    canaries: int
    guesses: int
    correct: int
    reach: float
    """What would be proved if every coin were guessed right: so few canaries cannot refute a grant above it."""

    @property
    def violated(self) -> bool:
        """Whether more is proved than granted, which is a bug of the seal."""
        return self.proved > self.granted

    @property
    def decisive(self) -> bool:
        """Whether so many canaries could refute the grant at all."""
        return self.reach > self.granted

    @property
    def sentence(self) -> str:
        """The finding with its figures."""
        at = f" at delta {self.delta:g}" if self.delta else ""
        found = (
            f"{self.seal} grants epsilon {self.granted:.3g}{at}, and canaries prove at least {self.proved:.3g}: "
            f"{self.correct} of {self.guesses} guesses about {self.canaries} secret coins were right."
        )
        if self.violated:
            return f"{found} It leaks more than it grants, which is a bug: do not use it."
        return found if self.decisive else f"{found} So few cannot prove more than {self.reach:.3g}; use more canaries."


def confirmed(audit: Callable[[], EpsilonProof]) -> EpsilonProof:
    """The first of four audits, each with fresh coins, that proves no more than is granted; else the last.

    An audit is right with 95 % confidence, so one of twenty audits of a correct seal that has nothing to spare shows
    more than it grants. That four in a row do so has a probability of 6e-6.
    """
    for _ in range(REPEATS):
        proof = audit()
        if not proof.violated:
            break
    return proof
