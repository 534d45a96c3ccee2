"""What the messages of a method's steps hold, in words, and which replies the owner reads one by one under Blind.

Everything here follows from what a method declares: the classes of its messages, and ``summed_steps``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from colonnade.core.method import Method
from colonnade.runtime.schema import kinds_of

# Messages name their fields by what they are (CONTRIBUTING.md); fields that follow from labels come first.
VALUES = {
    "goal": "target logits",
    "u": "gaps of logits",
    "dual": "duals",
    "residual": "residuals",
    "y": "labels",
    "slope": "gradients",
    "o": "logits",
    "weight": "weights",
    "h": "embeddings",
    "h_others": "the others' part",
    "share": "a share",
    "head": "a head",
    "block": "a copy of the top net",
    "blocks": "a copy of the top net",
    "w": "weights of a top net",
    "each": "a score per party",
    "norm": "head norm",
    "points": "two numbers per row",
    "way": "the kind of map and a seed",
}


def replies(method: Method | type[Method], steps: Iterable[str] | None = None) -> dict[str, Any]:
    """The class of the reply by step, for those of the party steps that have a reply; by default of all."""
    kinds = {name: kinds_of(getattr(method, name))[1] for name in (method.steps() if steps is None else steps)}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def read_singly(method: Method | type[Method]) -> dict[str, Any]:
    """The steps whose replies the owner reads one by one even under Blind, with the classes of the replies."""
    return {name: kind for name, kind in replies(method, method.asked_steps).items() if name not in method.summed_steps}


def in_words(kinds: Iterable[Any]) -> str:
    """The values in messages of these classes; a field without a word of its own is named as it is.

    >>> from typing import NamedTuple
    >>> class Reply(NamedTuple):
    ...     h: object
    ...     shape: object
    >>> in_words([Reply])
    "embeddings and 'shape'"
    """
    words = list(dict.fromkeys(VALUES.get(field, f"'{field}'") for kind in kinds for field in kind._fields))
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
