"""Everything that decides a run, as one frozen value: made and checked once, and taken whole by all that follows."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.core.device import HOST, Device, exists
from colonnade.core.method import Method
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.settings import Settings
from colonnade.models import ModelBuilder
from colonnade.seal import Seal, Seals, make_seals


@dataclass(frozen=True)
class Plan:
    """A run before its first round. ``models`` and ``optimizers`` build each party's, in the parties' order.

    ``devices`` is where each party computes, as far as this process has a say; none is the host. They change nothing
    that is agreed on, so they are not in the plan that several sides sign.
    """

    method: Method
    settings: Settings
    models: tuple[ModelBuilder, ...]
    optimizers: tuple[OptimizerBuilder, ...]
    seal: tuple[Seal, ...] = ()
    """The seals as they were given; :attr:`seals` has each in its place."""
    devices: tuple[Device, ...] = ()

    def device_of(self, party: int) -> Device:
        """Where a party computes."""
        return self.devices[party] if self.devices else HOST

    @property
    def owner_device(self) -> Device:
        """Where the owner computes: with the first party, which it is if it has columns; learners are on the host.

        On a cluster it is on the host, if its process does not have the device of the first party's.
        """
        first = self.device_of(0)
        elsewhere = self.settings.runtime == "ray" and first.name != "auto" and not exists(first.name)
        return HOST if self.method.whole_rounds or elsewhere else first.here()

    @property
    def seals(self) -> Seals:
        """The seals, each in its place."""
        return make_seals(list(self.seal))
