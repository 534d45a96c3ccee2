"""What a search chooses from: lists of values, and ranges that are written "0.0001..0.01"."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.errors import ConfigError

USUAL_SPACE = {"optimizer": ["adam"], "lr": "0.0001..0.01", "batch": [64, 256, 1024], "embedding": [16, 60]}
"""What is searched if a budget comes without anything to search over."""
_DIGITS = 3  # of a drawn number, so that it can be written down and read again


@dataclass(frozen=True)
class Between:
    """A range of numbers, whole ones if both ends are; drawn by orders of magnitude if it spans one or more.

    >>> Between.parse("lr", "0.0001..0.01").at(0.5), Between.parse("local_steps", "1..9").at(0.5)
    (0.001, 5)
    """

    least: float
    most: float

    @classmethod
    def parse(cls, key: str, text: str) -> Between:
        """The range that a text says."""
        ends = re.fullmatch(r"\s*([-+\d.eE]+?)\s*\.\.\s*([-+\d.eE]+)\s*", text)
        try:
            least, most = (json.loads(end) for end in ends.groups()) if ends else (0, 0)
        except ValueError:
            least, most = 0, 0
        if not least < most or not math.isfinite(most):
            raise ConfigError(f"over= has {key}={text!r}; give a list of values, or a range such as '0.0001..0.01'.")
        return cls(least, most)

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return isinstance(self.least, int) and isinstance(self.most, int)

    @property
    def by_magnitude(self) -> bool:
        """Whether small numbers are as likely as large ones."""
        return self.least > 0 and self.most >= 10 * self.least

    def at(self, share: float) -> float:
        """The number that this share of the range lies below."""
        if self.by_magnitude:
            value = self.least * (self.most / self.least) ** share
        else:
            value = self.least + share * (self.most - self.least)
        rounded = round(value) if self.whole else float(f"{value:.{_DIGITS}g}")
        return min(max(rounded, self.least), self.most)


Space = dict[str, list[Any] | Between]


def space_of(over: Mapping[str, Any]) -> Space:
    """What is written as text becomes a range; lists stay lists."""
    return {key: Between.parse(key, _one(value)) if _is_range(value) else list(value) for key, value in over.items()}


def refuse_ranges(over: Mapping[str, Any]) -> None:
    """Refuse a range where every combination is to be trained."""
    for key, value in over.items():
        if _is_range(value):
            raise ConfigError(
                f"over= has the range {key}={_one(value)!r}, which has no end; say budget=20, or list it."
            )


def _is_range(value: Any) -> bool:
    text = _one(value)
    return isinstance(text, str) and ".." in text


def _one(value: Any) -> Any:
    """A text by itself, or alone in a list, as a command line gives it."""
    return value[0] if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1 else value
