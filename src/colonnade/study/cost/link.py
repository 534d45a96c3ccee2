"""A line between the owner and its parties: how much it carries, and how long it takes there and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from colonnade.errors import ConfigError

_FORM = re.compile(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit),(\d+(?:\.\d+)?)(ms|s)")
_MEGABITS = {"kbit": 0.001, "mbit": 1.0, "gbit": 1000.0}
_MILLISECONDS = {"ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Link:
    """The owner's line, which all parties share: so many megabits a second each way, a round trip of so many ms."""

    megabits: float
    milliseconds: float

    @property
    def byte(self) -> float:
        """Seconds that a byte takes to leave."""
        return 8e-6 / self.megabits

    @property
    def trip(self) -> float:
        """Seconds there and back."""
        return self.milliseconds / 1000

    def __str__(self) -> str:
        return f"{self.megabits:g} Mbit/s, {self.milliseconds:g} ms"


USUAL = tuple(Link(megabits, milliseconds) for megabits, milliseconds in product((10.0, 100.0), (10.0, 50.0, 100.0)))
"""The lines of the table that is shown if nobody names one."""
NONE = Link(float("inf"), 0.0)
"""As if all sides were in one place: what is left is computing."""


def link_of(text: str) -> Link:
    """The line that a text names.

    >>> print(link_of("100mbit,50ms"))
    100 Mbit/s, 50 ms
    >>> link_of("100mbit")
    Traceback (most recent call last):
    colonnade.errors.ConfigError: link '100mbit' is no line; write its rate and its round trip, such as 100mbit,50ms.
    """
    found = _FORM.fullmatch(re.sub(r"\s", "", text.lower()))
    if found is None:
        raise ConfigError(f"link '{text:.60}' is no line; write its rate and its round trip, such as 100mbit,50ms.")
    rate, unit, trip, time = found.groups()
    link = Link(float(rate) * _MEGABITS[unit], float(trip) * _MILLISECONDS[time])
    if not 0 < link.megabits <= 1e6 or link.milliseconds > 60_000:
        raise ConfigError(
            f"link '{text:.60}' is out of range; give more than 0 and at most 1000gbit, and at most 60s there and back."
        )
    return link
