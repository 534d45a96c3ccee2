"""What messages show, in sentences: all of them are made here, of the methods' declarations, and nowhere by hand.

Terms, plans, reports, lists and pages ask for them; ``core/disclosure.py`` says what a level means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from colonnade.core.disclosure import LABEL_SEALS, LEVELS, SECRETS, UNDECLARED, Disclosure, declared, with_all_choices
from colonnade.core.method import Method
from colonnade.runtime.schema import kinds_of
from colonnade.runtime.step_words import in_words
from colonnade.seal import SEALS
from colonnade.seal.gradient_noise import GradientSeal

CAN = {
    "labels": {
        "read": "can read the labels of the rows",
        "leaks": "can infer a good part of the labels of the rows",
        "hints": "gets hints at the labels of the rows",
        "nothing known": "learns nothing that we know of about labels",
    },
    "columns": {
        "read": "can rebuild nearly all of {whose} columns",
        "leaks": "can rebuild a part of {whose} columns",
        "hints": "gets hints at {whose} columns",
        "nothing known": "learns nothing that we know of about {whose} columns",
    },
}
ON_GRADIENTS = [kind for kind, seal in SEALS.items() if issubclass(seal, GradientSeal)]
NOISY = "can read noisy labels of the rows only"
NO_LABELS = "Nothing that depends on labels goes to any party."


class Situation(NamedTuple):
    """What the words depend on beside the method: classes (0 of values, None if not known), kinds of seals, a name."""

    classes: int | None = None
    seals: tuple[str, ...] = ()
    owner: str = "The owner"


def classes_of(task: str | None, outputs: int | None) -> int | None:
    """How many classes labels of this task have, as far as that is known."""
    return outputs if task == "classes" else None if task is None else 2 if task == "several" else 0


def not_declared(name: str) -> str:
    """What is said of a method that declares nothing."""
    return (
        f"What the messages of {name} show is {UNDECLARED}, so take it for the worst: labels and columns can be read."
    )


def sentences(method: Method, about: Situation) -> list[str]:
    """What every message shows to whoever keeps it: one sentence for each declaration."""
    if method.disclosures is None:
        return [not_declared(method.name)]
    each = [_of_method(method, one, about) for one in method.disclosures]
    return each if _tells_labels(method) else [*each, NO_LABELS]


def about_columns(method: Method, about: Situation) -> list[str]:
    """What the parties' replies alone show."""
    if method.disclosures is None:
        return [not_declared(method.name)]
    told = [one for one in method.disclosures if (one.way, one.secret) == ("up", "columns")]
    return [_of_method(method, one, about) for one in told]


def _of_method(method: Method, one: Disclosure, about: Situation) -> str:
    message, who = values(method, one), "Another owner" if one.step in method.owner_steps() else ""
    if "blind" in about.seals and one.way == "up" and one.step in method.summed_steps and method.only_sums:
        message = f"the sum of all parties' {message}"
    return sentence(one, about, message, who)


def sentence(one: Disclosure, about: Situation, message: str = "", who: str = "") -> str:
    """What one message shows."""
    who = who or (about.owner if one.way == "up" else "Every party")
    place = f" from {message} in step '{one.step}'" if message else ""
    return (
        f"{who} {_what(one, about)}{place}{_given(one, about)}{': ' if one.note else ''}{one.note}{_seals(one, about)}."
    )


def _given(one: Disclosure, about: Situation) -> str:
    """What the reader must know beside the messages, where the level is not lowered."""
    return f", given {one.given}" if one.given and not _stopping(one, about) else ""


def _what(one: Disclosure, about: Situation) -> str:
    level, told = one.at(about.classes or 0, about.seals), CAN[one.secret]
    whose = "a party's" if one.way == "up" else "the others'"
    if one.secret == "labels" and _stopping(one, about) and set(about.seals) & set(LABEL_SEALS):
        return f"{NOISY} ({level})"
    with_two = one.at(2, about.seals)
    worse = f", of two classes nearly all of them ({with_two})," if about.classes is None and with_two != level else ""
    said = told[level].format(whose=whose)
    return said if level == LEVELS[0] else f"{said} ({level}){worse}"


def _stopping(one: Disclosure, about: Situation) -> list[str]:
    return [kind for kind in one.stopped_by if kind in about.seals]


def _seals(one: Disclosure, about: Situation) -> str:
    """Which of the seals that are there lower the level, or which would."""
    there, without = _stopping(one, about), one.at(about.classes, ())
    if (one.way, one.secret) == ("down", "labels") and set(about.seals) & set(ON_GRADIENTS):
        return "; noise on gradients blurs each message, and is averaged out over many"
    if there:
        return f"; without the seal {either(there)} the level is {without}" if without == "read" else ""
    if without != "read":
        return ""
    return f"; the seal {either(one.stopped_by)} would lower that" if one.stopped_by else "; no seal lowers that"


def either(words: Iterable[str]) -> str:
    """Words as alternatives.

    >>> either(["random-labels", "laplace-labels"])
    "'random-labels' or 'laplace-labels'"
    """
    return " or ".join(f"'{word}'" for word in words)


def values(method: Method, one: Disclosure) -> str:
    """The values in the message of a declaration."""
    reads, replies = kinds_of(getattr(method, one.step))
    kind = reads if one.way == "down" else replies
    return in_words([kind]) if kind is not None else "a message"


def in_short(method: Method, about: Situation) -> str:
    """The worst of all messages for labels and for columns, in one sentence each."""
    if method.disclosures is None:
        return not_declared(method.name)
    labels, columns = (declared(method, secret, classes=about.classes, seals=about.seals) for secret in SECRETS)
    noisy = bool(set(about.seals) & set(LABEL_SEALS))
    party = f"A curious party {NOISY if noisy else CAN['labels'][labels]} ({labels})." if _tells_labels(method) else ""
    whose = "another side's" if columns != LEVELS[0] else "another's"
    other = f"Whoever receives most {CAN['columns'][columns].format(whose=whose)} ({columns})."
    return " ".join(filter(None, [party or NO_LABELS, other if method.disclosures else ""]))


def _tells_labels(method: Method) -> bool:
    return method.tells_labels != "unsent"


def about_labels(method: Method) -> str:
    """What a party can do with the worst of what it receives, as the end of a sentence about it."""
    if method.disclosures is None:
        return f"can read labels, for all that is known: what they show is {UNDECLARED}"
    told = [one for one in method.disclosures if (one.secret, one.way) == ("labels", "down")]
    worst = max(told, key=lambda one: (LEVELS.index(one.level), LEVELS.index(one.at(2))))
    return _what(worst, Situation()).rstrip(",") + _given(worst, Situation())


def in_a_cell(cls: type[Method], secret: str) -> str:
    """The worst level of a secret with many and with two classes, whatever the options, as a cell of a table.

    >>> from colonnade.methods import methods
    >>> in_a_cell(methods()["splitnn"], "labels"), in_a_cell(methods()["apfed"], "labels")
    ('read', 'leaks')
    """
    many, two = (_worst_level(cls, secret, classes) for classes in (0, 2))
    return many if many == two else f"{many} (two classes: {two})"


def _worst_level(cls: type[Method], secret: str, classes: int) -> str:
    levels = [declared(method, secret, classes=classes) for method in with_all_choices(cls)]
    return UNDECLARED if UNDECLARED in levels else max(levels, key=LEVELS.index)
