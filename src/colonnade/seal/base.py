"""What all seals have in common: plain frozen values that a job file can write down."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from colonnade.core.options import check_types


@dataclass(frozen=True)
class Seal(ABC):
    """What happens to a message, or to the labels, before anybody else sees them."""

    kind: ClassVar[str]
    """The seal's name in a job file."""
    unchecked: ClassVar[tuple[str, ...]] = ()
    """Fields of more than one type, which the seal checks itself."""

    def __post_init__(self) -> None:
        check_types(self.kind, self, self.unchecked)
