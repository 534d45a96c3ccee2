"""A learner: a model that one side fits in one go on its own rows, and whose state is plain tensors.

A network that is trained by messages is a ``torch.nn.Module`` and lives in ``models/``. A learner needs no messages: it
gets all rows and their targets at once. It may be boosted trees, a line, a network, or an estimator of another library.
What it has learnt is a flat dictionary of tensors, so it is saved and loaded as every other state is, never by pickle.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from colonnade.core.options import check_types
from colonnade.core.task import Task
from colonnade.errors import CheckpointError, ColonnadeError, ConfigError, unknown

State = dict[str, Tensor]
"""What a learner has learnt: tensors by name."""


@dataclass(frozen=True)
class Learner(ABC):
    """How to fit, and how to compute outputs from what was learnt; the options are its fields.

    ``limits`` are the smallest and largest value of each option, so that no job can ask a party for endless work.
    """

    kind: ClassVar[str]
    limits: ClassVar[dict[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        check_types(self.kind, self)
        for name, (least, most) in self.limits.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(f"{self.kind}: {name}={value} is out of range; give {least:g} to {most:g}.")

    @abstractmethod
    def fit(self, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
        """Learn from inputs [rows, columns] and labels in the form of :meth:`Task.inside`."""

    @abstractmethod
    def outputs(self, state: State, x: Tensor) -> Tensor:
        """Outputs [rows, outputs] as the task has them: logits, or values as training sees them."""


@contextmanager
def applying(kind: str) -> Iterator[None]:
    """Name a learner whose state cannot be applied: a file of somebody else may hold anything under its names."""
    try:
        yield
    except ColonnadeError:
        raise
    except (AttributeError, LookupError, TypeError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"the saved learner '{kind}' cannot be applied to these rows; it is damaged or of other rows."
        ) from error


_learners: dict[str, type[Learner]] = {}
LearnerClass = TypeVar("LearnerClass", bound=type[Learner])


def register_learner(cls: LearnerClass) -> LearnerClass:
    """Make a learner known by its ``kind``, so that methods and job files can name it."""
    _learners[cls.kind] = cls
    return cls


def learners() -> list[str]:
    """The names of all learners.

    >>> {"linear", "network", "trees"} <= set(learners())
    True
    """
    return sorted(_learners)


def make_learner(text: str) -> Learner:
    """The learner that a text names, with options in brackets if it has some.

    >>> make_learner("trees(iterations=50)").iterations
    50
    >>> make_learner("trees(depth=2)")
    Traceback (most recent call last):
        ...
    colonnade.errors.ConfigError: unknown option of trees 'depth'; known: iterations, least_rows, leaves, rate, ridge.
    """
    name, options = _parts(text)
    if name not in _learners:
        raise unknown("learner", name, _learners)
    known = [field.name for field in fields(_learners[name])]
    for option in options:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    return _learners[name](**options)


def _parts(text: str) -> tuple[str, dict[str, Any]]:
    """A name and its options, from ``name`` or ``name(option=number, ...)``."""
    found = re.fullmatch(r"([a-z][a-z0-9-]{0,63})(?:\(([a-z_0-9=., +-]{0,200})\))?", text)
    if found is None:
        raise ConfigError(f"the learner {text!r:.80} cannot be read; write its name, or 'trees(iterations=100)'.")
    pairs = [pair.partition("=") for pair in (found[2] or "").split(",") if pair.strip()]
    return found[1], {name.strip(): _number(value.strip(), text) for name, _, value in pairs}


def _number(value: str, text: str) -> int | float:
    try:
        return int(value) if re.fullmatch(r"\d{1,12}", value) else float(value)
    except ValueError:
        raise ConfigError(f"the learner {text!r:.80} has the option {value!r:.20}, which is not a number.") from None
