"""The interface of attacks, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

import numpy as np

from colonnade.privacy.material import Array, Material

AttackClass = TypeVar("AttackClass", bound="type[Attack]")


class Attack(ABC):
    """One adversary's way from messages to a secret.

    ``guess`` and ``control`` give guesses for the rows ``material.scored``, in that order: for two classes a score of
    class 1 [n], for more classes class numbers [n], for values and columns the values [n, k]. They read the truth of
    rows in ``known`` (as many as :attr:`rows_known`) and of rows in ``chosen_on`` only.
    """

    name: ClassVar[str]
    secret: ClassVar[str]
    """"labels", "columns" or "membership"."""
    citation: ClassVar[str]
    adversary: ClassVar[str]
    """What the adversary has and does, as the end of a sentence: "keeps its gradients and knows no label"."""
    without: ClassVar[str]
    """What the control has, as the end of a sentence: "guesses from its own columns"."""
    rows_known: ClassVar[int] = 0
    """How many rows' secrets it is given (of labels: as many a class)."""
    from_answers: ClassVar[bool] = False
    """Whether it is by a party on columns of which it receives only what the owner computes of everybody's."""
    trains: ClassVar[bool] = False
    """Whether it has to train something, so that it comes last if time is short."""

    def judged(self, material: Material) -> Material:
        """The material whose truth this attack's guesses are compared with, and that its other functions take.

        It is the same unless the attack is about a part of the secret only, such as one column.
        """
        return material

    @abstractmethod
    def unfit(self, material: Material) -> str:
        """Why it cannot be tried on this, as one sentence's end; empty if it can."""

    @abstractmethod
    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """What the adversary takes the secret of the scored rows for."""

    @abstractmethod
    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """What the same adversary guesses with everything but the messages."""

    @abstractmethod
    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """The positive control: the same material with messages in which this attack must find the secret.

        They have the shapes of the real ones and the secret put into them the way a method without a seal would. An
        attack that fails even there decides nothing.
        """


_registry: dict[str, type[Attack]] = {}


def register(cls: AttackClass) -> AttackClass:
    """Add an attack to those that every audit tries."""
    _registry[cls.name] = cls
    return cls


def attacks() -> dict[str, type[Attack]]:
    """All registered attacks by name."""
    return dict(sorted(_registry.items()))
