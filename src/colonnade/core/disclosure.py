"""What a message of a method shows: a declaration, made once beside the message, from which every sentence follows.

A declaration is about somebody who keeps all that it receives and knows how the method works. Its level is the worst
that theory promises or measurements found over data sets; ``docs/methods/index.md`` says what the levels mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colonnade.errors import ConfigError, unknown

if TYPE_CHECKING:
    from colonnade.core.method import Method

LEVELS = ("nothing known", "hints", "leaks", "read")
"""How much can be told, in order: nothing that anybody knows of, better than chance, a good part, all but all."""
SECRETS = ("labels", "columns")
WAYS = ("down", "up")
UNDECLARED = "not declared"
"""Stands for a level of a method that declares nothing; whoever decides by it takes it for the worst."""
LABEL_SEALS = ("random-labels", "laplace-labels")
"""The kinds of seals that make labels noisy before anything is computed from them."""
WORDS = ("unsent", "inferable", "shown")
"""What parties can tell of labels in one word, in order, as job files and terms have it."""


@dataclass(frozen=True)
class Disclosure:
    """What one message shows of one secret.

    ``step`` is the party step (or owner step) that reads or replies with the message, ``way`` is "down" from an owner
    or "up" to one. ``two_classes`` is the level with two classes, where that is worse than with more. ``given`` is what
    the reader must know beside the messages for that level, such as a few labels; empty if it is nothing.
    ``stopped_by`` are the kinds of seals that lower "read" to "leaks"; none has been shown to bring a leak to nothing.
    """

    step: str
    way: str
    secret: str
    level: str
    two_classes: str = ""
    given: str = ""
    note: str = ""
    stopped_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, known in (("way", WAYS), ("secret", SECRETS), ("level", LEVELS), ("two_classes", ("", *LEVELS))):
            if getattr(self, name) not in known:
                raise unknown(f"{name} of the disclosure of '{self.step}'", getattr(self, name), known)
        if self.two_classes and LEVELS.index(self.two_classes) <= LEVELS.index(self.level):
            raise ConfigError(
                f"the disclosure of '{self.step}' has two_classes={self.two_classes!r}, which is no worse than "
                f"{self.level!r}; leave it out."
            )

    def at(self, classes: int | None = None, seals: Iterable[str] = ()) -> str:
        """The level with so many classes, the worst if None, under seals of these kinds.

        >>> message = Disclosure("follow", "down", "labels", "leaks", two_classes="read", stopped_by=LABEL_SEALS)
        >>> message.at(10), message.at(2), message.at(2, ["random-labels"]), message.at(2, ["bits"])
        ('leaks', 'read', 'leaks', 'read')
        """
        level = self.two_classes or self.level if classes in (2, None) else self.level
        return lowered(level) if set(seals) & set(self.stopped_by) else level


def lowered(level: str) -> str:
    """The level under a seal that stops it: what could be read leaks, and what leaks still does."""
    return min(level, "leaks", key=LEVELS.index)


def declared(
    method: Method,
    secret: str,
    *,
    classes: int | None = None,
    seals: Iterable[str] = (),
    step: str | None = None,
    way: str | None = None,
) -> str:
    """The worst level that a method declares for a secret, of one step or way if named, or "not declared".

    ``classes`` is how many classes the labels have: 0 for values, None for the worst case. ``seals`` are kinds. A step
    that the method does not declare is not declared either.
    """
    if secret not in SECRETS:
        raise unknown("secret", secret, SECRETS)
    kinds, told = tuple(seals), method.disclosures
    if told is None:
        return UNDECLARED
    of_step = [one for one in told if step in (None, one.step) and way in (None, one.way)]
    if step is not None and not of_step:
        return UNDECLARED
    levels = [one.at(classes, kinds) for one in of_step if one.secret == secret]
    return max(levels, key=LEVELS.index, default=LEVELS[0])


def label_word(method: Method) -> str:
    """What parties can tell of labels with the method's present options, in one of :data:`WORDS`.

    "shown" is what can be read by whoever knows nothing else; a method that declares nothing shows everything.
    """
    if method.disclosures is None:
        return "shown"
    at_parties = method.steps()
    told = [one for one in method.disclosures if _tells_a_party(one) and one.step in at_parties]
    plainly = any(one.level == "read" and not one.given for one in told)
    return "unsent" if not told else "shown" if plainly else "inferable"


def declares_labels(method: Method) -> bool:
    """Whether it says what parties can tell of labels, message by message or in the one word of before."""
    return method.disclosures is not None or getattr(method, "labels", None) in WORDS


def _tells_a_party(one: Disclosure) -> bool:
    return (one.secret, one.way) == ("labels", "down") and one.level != LEVELS[0]


def with_all_choices(cls: type[Method]) -> list[Method]:
    """The method with every combination of those options that are one of a few words."""
    build: Callable[..., Method] = cls  # which options there are, only the class knows
    combinations = itertools.product(*cls.choices.values())
    return [build(**dict(zip(cls.choices, words, strict=True))) for words in combinations]


def worst(cls: type[Method]) -> Method:
    """The method with those options that show most of labels, its usual ones if they do."""
    return max(with_all_choices(cls), key=lambda method: WORDS.index(method.tells_labels))


def worst_label_word(cls: type[Method]) -> str:
    """What parties can tell of labels with the worst options."""
    return worst(cls).tells_labels
