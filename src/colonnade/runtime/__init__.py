"""Ways to reach the parties; a method never knows which one carries its messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from colonnade.channel import Channel
from colonnade.errors import ConfigError, unknown
from colonnade.method import Method
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.runtime.build import build_parts
from colonnade.runtime.fused import fuse
from colonnade.runtime.in_process import InProcess
from colonnade.runtime.loop import LoopSite
from colonnade.runtime.site import Site
from colonnade.table import Table

__all__ = ["RUNTIMES", "InProcess", "make_parties", "threads"]

RUNTIMES = {
    "loop": "one party after the other, the reference",
    "fused": "like parties stacked and computed as one batch",
    "bytes": "as loop, and every message really encoded and decoded",
}


def make_parties(
    tables: Sequence[Table],
    method: Method,
    *,
    runtime: str,
    models: Sequence[ModelBuilder],
    optimizers: Sequence[OptimizerBuilder],
    classes: int,
    seed: int,
    batch: int,
    channel: Channel,
    owner_is_first: bool,
) -> InProcess:
    """Build every party's networks and put the parties behind the named runtime."""
    if not isinstance(runtime, str) or runtime not in RUNTIMES:
        raise unknown("runtime", runtime, RUNTIMES)
    parts = [build_parts(method, table, k, models[k], optimizers[k], classes, seed) for k, table in enumerate(tables)]
    singles = [LoopSite(k, table, parts[k], seed) for k, table in enumerate(tables)]
    sites: Sequence[Site] = singles
    if runtime == "fused":
        # Methods that need the owner's columns ask the owner's part by itself, and no group is parted within a round.
        apart = {0} if owner_is_first and method.needs_owner_columns else set()
        builders = [{name: part.optimizer for name, part in own.items()} for own in parts]
        sites = fuse(singles, builders, batch, apart, method.kind_of)
    channel.wire = runtime == "bytes"
    return InProcess(tables, sites, channel, owner_is_first=owner_is_first)


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
