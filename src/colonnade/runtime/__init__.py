"""Ways to reach the parties; a method never knows which one carries its messages."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from colonnade.core.method import Method, Part
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.randomness import Sources
from colonnade.core.settings import Settings
from colonnade.core.table import Table
from colonnade.core.task import Task
from colonnade.errors import ConfigError, unknown
from colonnade.models import ModelBuilder
from colonnade.runtime.build import build_parts
from colonnade.runtime.cluster import Cluster
from colonnade.runtime.fused import fuse
from colonnade.runtime.group import Group
from colonnade.runtime.label_owners import LabelOwners
from colonnade.runtime.loop import LoopGroup
from colonnade.runtime.parties import InProcess
from colonnade.runtime.remote.remote_parties import RemoteParties
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.wire.channel import Channel
from colonnade.wire.ledger import OWNER

__all__ = ["RUNTIMES", "InProcess", "LabelOwners", "make_owners", "make_parties", "plain_runtime", "threads"]

RUNTIMES = {
    "loop": "one party after the other, the reference",
    "fused": "like parties stacked and computed as one batch",
    "bytes": "as loop, and every message really encoded and decoded",
    "apart": "as bytes, and every party behind letters, as if it were in a process of its own",
    "federation": "every party at its own organisation; colonnade owner and colonnade party start it",
    "ray": "every party in a process of its own, here or on a Ray cluster of one organisation",
}


def plain_runtime(came: str | Cluster) -> dict[str, Any]:
    """A runtime's name, and what it is asked of a cluster, as a run's settings have them.

    >>> plain_runtime("loop")
    {'runtime': 'loop', 'cluster': None}
    """
    if isinstance(came, Cluster):
        return {"runtime": "ray", "cluster": came.plain()}
    if not isinstance(came, str) or came not in RUNTIMES:
        raise unknown("runtime", came, RUNTIMES)
    return {"runtime": came, "cluster": Cluster().plain() if came == "ray" else None}


def make_parties(
    tables: Sequence[Table],
    method: Method,
    settings: Settings,
    *,
    models: Sequence[ModelBuilder],
    optimizers: Sequence[OptimizerBuilder],
    task: Task,
    channel: Channel,
    sources: Sources,
    owner_is_first: bool,
    owners: LabelOwners | None = None,
    far: RemoteSetup | None = None,
) -> InProcess:
    """Build every party's networks and put the parties behind the runtime of the settings.

    ``owners`` are all of them, if the method knows several.
    """
    leaders = {OWNER: 1.0} if owners is None else owners.leaders
    here = tables[: int(owner_is_first)] if far is not None else tables
    draws = [sources.of(table.name) for table in here]
    parts = [
        build_parts(method, table, k, models[k], optimizers[k], task.outputs, draws[k], list(leaders))
        for k, table in enumerate(here)
    ]
    # Methods that need the owner's columns ask the owner's part by itself, and no group is parted within a round.
    apart = {0} if owner_is_first and method.needs_owner_columns else set()
    singles = [LoopGroup(k, table, parts[k], draws[k]) for k, table in enumerate(here)]
    for single in singles:
        single.leaders, single.task = leaders, task.public
    channel.wire = settings.runtime == "bytes"
    channel.know("train", tables[0])
    if far is not None:
        seats = far.seats(
            tables,
            method,
            models,
            optimizers,
            task,
            settings,
            channel.seals,
            owner_is_first=owner_is_first,
            leaders=leaders,
            places=[] if owners is None else owners.places,
        )
        lines = far.connect(seats)
        goes_on = settings.when_away != "wait"
        return RemoteParties(tables, singles, channel, lines, far.schema, job=far.job, keys=far.keys, goes_on=goes_on)
    sites = _sites(singles, parts, settings, apart, method.kind_of)
    return InProcess(tables, sites, channel, owner_is_first=owner_is_first)


def make_owners(
    tables: Sequence[Table],
    places: Sequence[Tensor],
    method: Method,
    settings: Settings,
    *,
    parties: int,
    task: Task,
    channel: Channel,
    sources: Sources,
) -> LabelOwners:
    """Build every owner's networks, for methods that know several, and put them behind the runtime of the settings."""
    parts, draws = [], sources.of(OWNER)
    for _ in tables:
        with draws.drawing("init", "owners"):  # the same for all
            parts.append(method.owner_parts(parties, task.outputs))
    # Their numbers would be those of parties, and what they draw must be their own.
    singles = [LoopGroup(k, table, parts[k], draws.within("owners")) for k, table in enumerate(tables)]
    for single in singles:
        single.task = task
    sites = _sites(singles, parts, settings, set(), lambda _: None)
    names = [OWNER] if len(tables) == 1 else [table.name for table in tables]
    return LabelOwners(tables, names, singles, sites, channel, places)


def _sites(
    singles: list[LoopGroup],
    parts: Sequence[dict[str, Part]],
    settings: Settings,
    apart: Container[int],
    kind_of: Callable[[int], Hashable],
) -> Sequence[Group]:
    if settings.runtime != "fused":
        return singles
    builders = [{name: part.optimizer for name, part in own.items()} for own in parts]
    return fuse(singles, builders, settings.batch, apart, kind_of)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch's threads for the duration; small parties run best with one."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigError(f"threads={count!r} is out of range; give a whole number from 1.")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
