"""Every method as tests of all methods take it: by its defaults, but with learners that are fitted at once."""

from __future__ import annotations

from colonnade.core.method import Method

QUICK: dict[str, dict[str, str]] = {
    "gal": {"learner": "linear"},
    "oneshot": {"learner": "linear", "top": "linear"},
}


def quick(cls: type[Method]) -> Method:
    return cls(**QUICK.get(cls.name, {}))
