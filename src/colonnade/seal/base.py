"""What all seals have in common: plain frozen values that a job file can write down."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass, fields
from typing import ClassVar

from colonnade.errors import ConfigError

_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


@dataclass(frozen=True)
class Seal(ABC):
    """What happens to a message, or to the labels, before anybody else sees them."""

    kind: ClassVar[str]
    """The seal's name in a job file."""
    unchecked: ClassVar[tuple[str, ...]] = ()
    """Fields of more than one type, which the seal checks itself."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            accepted = (int, float) if kind is float else kind
            wrong = isinstance(value, bool) != (kind is bool) or not isinstance(value, accepted)
            if kind in _WORDS and wrong and field.name not in self.unchecked:
                raise ConfigError(f"{self.kind}: {field.name}={value!r} is not {_WORDS[kind]}.")
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{self.kind}: {field.name}={value} is not finite.")
