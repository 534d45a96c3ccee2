"""Everything that decides a run, as one frozen value: made and checked once, and taken whole by all that follows."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core.method import Method
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.settings import Settings
from colonnade.models import ModelBuilder
from colonnade.seal import Seal, Seals, make_seals


@dataclass(frozen=True)
class Plan:
    """A run before its first round. ``models`` and ``optimizers`` build each party's, in the parties' order."""

    method: Method
    settings: Settings
    models: tuple[ModelBuilder, ...]
    optimizers: tuple[OptimizerBuilder, ...]
    seal: tuple[Seal, ...] = ()
    """The seals as they were given; :attr:`seals` has each in its place."""

    @property
    def seals(self) -> Seals:
        """The seals, each in its place."""
        return make_seals(list(self.seal))
