"""What one adversary has: the messages it received, what it knew anyway, and the secret by which guesses are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class SharedValue(NamedTuple):
    """A value that belongs to no row, such as a head, as one side received it from another."""

    sender: str
    receiver: str
    step: str
    field: str
    rounds: Array
    """The rounds of the first axis of ``values``, increasing, int64 [r]."""
    values: Array
    """float32 [r, ...]."""


class Stream(NamedTuple):
    """All values of one field that one side received from another in one step, about the rows of the sample."""

    sender: str
    receiver: str
    step: str
    field: str
    rounds: Array
    """The rounds of the first axis of ``values``, increasing, int64 [r]."""
    values: Array
    """float32 [r, n, width]; NaN where a row had no part in the round."""

    @property
    def name(self) -> str:
        """For example ``backward/slope to lab``."""
        return f"{self.step}/{self.field} from {self.sender} to {self.receiver}"


@dataclass(frozen=True)
class OwnNetwork:
    """A network whose weights the adversary has, as a function of the rows of the sample [n, ...] to [n, width]."""

    trained: Callable[[Array], Array]
    untrained: Callable[[Array], Array]
    """The same network with fresh weights: the control of attacks that use the trained one."""


@dataclass(frozen=True)
class Material:
    """One adversary and one secret. Rows are those of the sample: n of them, in one order throughout."""

    adversary: str
    """The side that received the messages."""
    of: str
    """Whose secret it is."""
    secret: str
    """"labels", "columns" or "membership"."""
    truth: Array
    """Labels int64 [n] (several labels or values: float [n, k]), or columns float32 [n, columns].

    Of "membership": 1 for rows that the model was trained on and 0 for others, int64 [n], with two ``classes``.
    """
    classes: int = 0
    """How many classes the labels have; 0 for values, and for columns."""
    streams: tuple[Stream, ...] = ()
    sent: tuple[Stream, ...] = ()
    """What the adversary itself sent, about the same rows; it may compare answers with that."""
    shared: tuple[SharedValue, ...] = ()
    """What the adversary received that belongs to no row."""
    own: Array | None = None
    """The adversary's own columns [n, d], which it has without any message."""
    labels: Array | None = None
    """The labels, where the adversary is the owner and the secret is a party's columns, or of "membership"."""
    reference: Array | None = None
    """Of "membership": what a model that was trained on none of these rows says about them [n, outputs]."""
    network: OwnNetwork | None = None
    """The adversary's own part of the model on its own columns, if it has one."""
    categories: Mapping[int, int] = field(default_factory=dict)
    """Columns of ``truth`` that are categorical (or two-valued), with the number of their values."""
    second: SecondRun | None = None
    """A run of the same kind on other rows, from which an attack may learn."""
    chosen_on: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows on which an attack may choose its window, direction and settings: another set than ``scored``."""
    known: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows whose secret the adversary may be given; attacks take as many of the first of them as they declare."""
    scored: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Rows on which guesses are judged."""

    def without_messages(self) -> Material:
        """The same adversary with everything but the messages."""
        return replace(self, streams=(), sent=(), shared=())


@dataclass(frozen=True)
class SecondRun:
    """A second run of the same method and seals, by whoever has the columns and labels of other rows.

    It is trained when ``material`` is first called, and not again.
    """

    half: Array
    """Which rows of the sample the second run is trained on, bool [n]."""
    why_not: Callable[[], str]
    """Why it cannot be trained in what is left of the budget; empty if it can."""
    material: Callable[[], Material]
    """What the same adversary has there; the truth of all its rows is known."""
    twins: Callable[[], Array]
    """The rows that both samples have: their places in the one and in the other, int64 [k, 2]."""
