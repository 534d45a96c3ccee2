"""Verdicts: one word for each secret and adversary, from the bounds of an interval, and one sentence with the figures.

==============  ==================================================================================================
word            when
==============  ==================================================================================================
read            the lower bound of the advantage of some attack is at least 0.9
leaks           it is at least 0.1
hints           it is above 0
not decided     none of these, and an attack can exclude no advantage of 0.1: too few rows, or a failed control
nothing found   the upper bounds of all attacks are below 0.1, and they find the secret where it was planted
not tested      no attack was tried: none fits, or the budget did not suffice
==============  ==================================================================================================

The worst attack decides. An attack that does not find a secret that was planted for it decides nothing; it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from colonnade.privacy.advantage import Advantage

READ, LEAKS, HINTS = "read", "leaks", "hints"
NOTHING_FOUND, NOT_DECIDED, NOT_TESTED = "nothing found", "not decided", "not tested"
WORDS = (READ, LEAKS, HINTS, NOT_DECIDED, NOTHING_FOUND, NOT_TESTED)
"""All words, the worst first."""
FOUND = {READ: 0.9, LEAKS: 0.1, HINTS: 0.0}
"""The words that say that something was found, each with the lower bound that it asks for."""
NONE_ASKED = "none of the attacks that were asked for is about it"
EXCLUDED = 0.1
"""The advantage that "nothing found" excludes."""


@dataclass(frozen=True)
class Attempt:
    """What one attack came to: its advantage, or why it was not tried."""

    attack: str
    advantage: Advantage | None = None
    control_passed: bool = False
    """Whether the attack found the secret where it was planted."""
    why: str = ""
    """Why it was not tried, or decides nothing; empty if it was tried and decides."""
    unfit: bool = False
    """Whether it was not tried because it is about other messages or labels than these."""
    story: str = ""
    """The sentence with the figures."""
    seconds: float = 0.0

    @property
    def word(self) -> str:
        """The word of this attack alone."""
        if self.advantage is None:
            return NOT_TESTED
        found = next((word for word, bound in FOUND.items() if _reaches(self.advantage.low, bound)), None)
        if found is not None:
            return found
        undecided = not self.control_passed or self.advantage.inverted or self.advantage.no_room
        return NOT_DECIDED if undecided or self.advantage.high >= EXCLUDED else NOTHING_FOUND

    @property
    def rows(self) -> int:
        """On how many rows its guesses were judged."""
        return 0 if self.advantage is None else self.advantage.rows

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "word": self.word}


def _reaches(low: float, bound: float) -> bool:
    return low > bound if bound == 0 else low >= bound


@dataclass(frozen=True)
class Verdict:
    """What was found of one secret by one adversary."""

    adversary: str
    of: str
    """Whose secret it is."""
    secret: str
    """"labels" or "columns"."""
    attempts: tuple[Attempt, ...]
    declared: str = "not declared"
    """The level that the method declares."""
    silent: bool = False
    """Whether the adversary receives no message at all of whoever has the secret."""

    @property
    def word(self) -> str:
        """The word of the worst attack; attacks that found nothing where it was planted do not count as excluding."""
        if self.silent:
            return NOTHING_FOUND
        words = [one.word for one in self.attempts if one.word != NOT_TESTED]
        if not words:
            return NOT_TESTED
        deciding = [one.word for one in self.attempts if one.word != NOT_TESTED and not self._is_void(one)]
        return min(deciding or [NOT_DECIDED], key=WORDS.index)

    @staticmethod
    def _is_void(one: Attempt) -> bool:
        return one.word == NOT_DECIDED and not one.control_passed

    @property
    def worst(self) -> Attempt | None:
        """The attack that decides, or None if none was tried."""
        tried = [one for one in self.attempts if one.advantage is not None]
        ranked = sorted(tried, key=lambda one: (self._is_void(one), WORDS.index(one.word), -_value(one)))
        return ranked[0] if ranked else None

    @property
    def sentence(self) -> str:
        """One sentence with the figures of the worst attack."""
        worst, what = self.worst, f"{whose(self.of, self.secret)} to {who(self.adversary)}"
        if self.silent:
            return f"{_capital(what)}: no message of training goes there, so there is nothing to read."
        if worst is None:
            reasons = dict.fromkeys(one.why for one in self.attempts if one.why)
            return f"{_capital(what)}: not tested, because {'; '.join(reasons) or NONE_ASKED}."
        if self.word == NOT_DECIDED:
            reason = worst.why or f"{worst.rows} rows cannot exclude an advantage of {EXCLUDED}"
            return f"{worst.story} Not decided: {reason}."
        if self.word == NOTHING_FOUND:
            tried = sum(one.word == NOTHING_FOUND for one in self.attempts)
            return f"Nothing found by {tried} attack{'s' if tried > 1 else ''}. The best: {worst.story}"
        return worst.story

    @property
    def untried(self) -> list[str]:
        """The attacks that fit and were not tried, or decide nothing, with the reason."""
        return [f"{one.attack} ({one.why})" for one in self.attempts if one.why and not one.unfit]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "adversary": self.adversary,
            "of": self.of,
            "secret": self.secret,
            "word": self.word,
            "declared": self.declared,
            "sentence": self.sentence,
            "by": "" if self.worst is None else self.worst.attack,
            "attempts": [one.to_json() for one in self.attempts],
        }


def _value(one: Attempt) -> float:
    return -2.0 if one.advantage is None else one.advantage.low


def worst_of(words: Sequence[str]) -> str:
    """The worst of several words; "not tested" if there are none.

    >>> worst_of(["nothing found", "hints"]), worst_of([])
    ('hints', 'not tested')
    """
    return min(words, key=WORDS.index, default=NOT_TESTED)


def who(side: str) -> str:
    """A side, or a client that may ask the model, as the subject of a sentence."""
    return {"owner": "the owner", "a client": "a client"}.get(side, f"'{side}'")


def whose(side: str, secret: str) -> str:
    """A secret as the object of a sentence."""
    if secret == "membership":
        return "which rows were trained on"
    return f"the {secret} of {who(side)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def story(case: tuple[str, str, str], attack: Any, found: Advantage, column: str = "", *, apart: bool = False) -> str:
    """The sentence about one attack, with its figures; ``column`` is the name of the column that is rebuilt best.

    ``apart`` is whether what the adversary has of its own is not here, so that its control could not use that.
    """
    adversary, of, secret = case
    needs = _needs(attack.rows_known, secret, values=found.metric == "R2")
    what = whose(of, secret)
    if secret == "columns" and found.metric != "R2":
        what = f"one category among {what}"
    without = "has neither messages nor anything of its own (which is not here, and may tell as much)"
    result = f"{_done(found, what)}, {_amount(found, found.control)} if it {without if apart else attack.without}"
    named = column and secret == "columns" and found.value > 0
    best = f" (best: {column}, {100 * (found.best_score or 0):.0f} %)" if named else ""
    return f"{_capital(who(adversary))} {attack.adversary}: it {result}{best}; it needs {needs}."


def _needs(rows: int, secret: str, *, values: bool) -> str:
    if not rows:
        return "nothing else"
    if secret == "columns":
        return f"{rows} known rows"
    if values:  # there are no classes: twice as many rows in all, see small_models.py
        return f"{2 * rows} known labels"
    return f"{rows} known label{'s' if rows > 1 else ''} a class"


def _done(found: Advantage, what: str) -> str:
    amount = f"{_amount(found, found.attack)} {_between(found)}"
    if found.metric == "AUC":
        return f"ranks {what} with {amount}"
    if found.metric == "accuracy":
        return f"reads {what} in {amount} of rows"
    return f"rebuilds {amount} of the variance of {what}"


def _amount(found: Advantage, value: float) -> str:
    return f"AUC {value:.2f}" if found.metric == "AUC" else f"{100 * value:.0f} %"


def _between(found: Advantage) -> str:
    if found.metric == "AUC":
        return f"[{found.attack_low:.2f}, {found.attack_high:.2f}]"
    return f"[{100 * found.attack_low:.0f}, {100 * found.attack_high:.0f}]"
