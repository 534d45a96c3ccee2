"""What an audit found: a verdict for every secret and adversary, as a text and as plain data."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from colonnade.core.disclosure import UNDECLARED
from colonnade.privacy.epsilon_proof import EpsilonProof
from colonnade.privacy.verdict import HINTS, LEAKS, READ, Verdict, who, whose, worst_of

LEVELS = {"read": 3, "leaks": 2, "hints": 1, "nothing known": 0, "not declared": 0}
"""How much the words of declarations and verdicts say; words that are not here say nothing was found."""
ASSUMED = "Assumed: one side by itself follows the protocol and keeps every message that it receives."
NOT_TRIED = ("sides that collude", "active attacks (other messages than the protocol's)", "backdoors")
UNBOUND = ("membership",)
"""Secrets that no message of training is about, so that methods declare nothing of them."""
_WIDE = 110


@dataclass(frozen=True)
class Audit:
    """What an audit found of every secret and adversary."""

    verdicts: tuple[Verdict, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    """Method, seals, rows, seed, budget: what was audited, and how."""
    proofs: tuple[EpsilonProof, ...] = ()
    """For seals with differential privacy: epsilon granted, and proved by canaries."""
    written: str = ""
    """Where it was kept."""

    @property
    def disproved(self) -> bool:
        """Whether canaries prove more epsilon than a seal grants, which is a bug."""
        return any(proof.violated for proof in self.proofs)

    @property
    def worst(self) -> str:
        """The worst word."""
        return worst_of([one.word for one in self.verdicts])

    @property
    def undeclared(self) -> tuple[Verdict, ...]:
        """The verdicts that say more than the method declares."""
        bound = [one for one in self.verdicts if one.secret not in UNBOUND]
        return tuple(one for one in bound if LEVELS.get(one.word, 0) > LEVELS[one.declared])

    @property
    def head(self) -> str:
        """The worst word, the adversary that was assumed, and what was not tried."""
        return f"Worst: {self.worst}. {ASSUMED} {self.not_tried}"

    @property
    def not_tried(self) -> str:
        """What no attack of this audit was about."""
        return f"Not tried: {', '.join([*NOT_TRIED, *self.facts.get('untried', [])])}."

    @property
    def untried(self) -> dict[str, int]:
        """Why attacks were not tried or decide nothing, each with the number of secrets that this is so for."""
        return dict(Counter(said for one in self.verdicts for said in one.untried))

    def fails(self, on: str) -> bool:
        """Whether something was found that is undeclared, or at least as bad as this word."""
        if on == "undeclared":
            return bool(self.undeclared)
        return LEVELS.get(self.worst, 0) >= LEVELS[on]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "worst": self.worst,
            "undeclared": [f"{whose(one.of, one.secret)} to {who(one.adversary)}" for one in self.undeclared],
            "assumed": ASSUMED,
            "not_tried": self.not_tried,
            "verdicts": [one.to_json() for one in self.verdicts],
            "epsilon": [{**asdict(one), "violated": one.violated, "sentence": one.sentence} for one in self.proofs],
            **self.facts,
        }

    def __str__(self) -> str:
        facts = self.facts
        title = (
            f"audit of {_what(facts)}: {facts.get('rows', 0):,} sampled rows, "
            f"{facts.get('seconds', 0):.0f} of {facts.get('budget', 0):g} CPU seconds"
        )
        notes = [
            f"Not tried, or decides nothing, for {count} secret{'s' if count > 1 else ''}: {said}."
            for said, count in self.untried.items()
        ]
        proved = [one.sentence for one in self.proofs]
        told = [
            textwrap.fill(note, _WIDE, subsequent_indent="  ") for note in [*proved, *facts.get("left_out", []), *notes]
        ]
        return "\n".join([title, textwrap.fill(self.head, _WIDE), "", *map(_lines, self.verdicts), *told])


def _what(facts: dict[str, Any]) -> str:
    """What was audited: a method on data, or, where no run was there, a side's view."""
    run = f"{facts.get('method')} on {facts.get('data')}"
    return run if facts.get("method") else f"the view of {who(str(facts.get('side')))}"


FAILS_ON = ("undeclared", READ, LEAKS, HINTS)
"""What ``--fail-on`` can name."""


def _lines(verdict: Verdict) -> str:
    """A verdict as lines of a terminal."""
    known = verdict.declared != UNDECLARED
    said = f"declared: {verdict.declared}" if known else UNDECLARED
    mark = " - MORE THAN DECLARED" if known and LEVELS.get(verdict.word, 0) > LEVELS[verdict.declared] else ""
    head = f"{verdict.word.upper()}: {whose(verdict.of, verdict.secret)} to {who(verdict.adversary)} ({said}{mark})"
    indented = textwrap.fill(verdict.sentence, _WIDE, initial_indent="    ", subsequent_indent="    ")
    return f"{head}\n{indented}"
