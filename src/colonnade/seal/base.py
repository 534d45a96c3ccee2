"""The base of all seals: plain frozen values that can be written to a job file."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from colonnade.core.options import check_types


@dataclass(frozen=True)
class Seal(ABC):
    """Protection or compression of a message, or of the labels, before another side sees them."""

    kind: ClassVar[str]
    """The seal's name in a job file."""
    unchecked: ClassVar[tuple[str, ...]] = ()
    """Fields of more than one type, which the seal checks itself."""

    def __post_init__(self) -> None:
        check_types(self.kind, self, self.unchecked)
