"""Builds the parties of a run, and its label owners, and puts them behind the backend that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from colonnade.core.column_scale import evened
from colonnade.core.device import HOST, Device
from colonnade.core.method import Part
from colonnade.core.settings import Settings
from colonnade.core.table import Table
from colonnade.core.task import Task
from colonnade.errors import ConfigError, unknown
from colonnade.runtime.blind_proxy import blinded_through
from colonnade.runtime.build import Build, build_parts
from colonnade.runtime.cluster import Cluster
from colonnade.runtime.fused import fuse
from colonnade.runtime.group import Group
from colonnade.runtime.label_owners import LabelOwners
from colonnade.runtime.local_backend import LocalBackend
from colonnade.runtime.loop import LoopGroup
from colonnade.runtime.parties import AllParties
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.remote_backend import RemoteBackend
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.remote.transport import Transport
from colonnade.seal.blind_owner import BlindOwner, simulated_parties
from colonnade.wire.ledger import OWNER
from colonnade.wire.owner_half import OwnerHalf
from colonnade.wire.party_half import PartyHalf

RUNTIMES = {
    "loop": "one party after the other, the reference",
    "fused": "like parties stacked and computed as one batch",
    "bytes": "as loop, and every message really encoded and decoded",
    "apart": "as bytes, and every party is reached by requests and replies, as if it were in another process",
    "federation": "every party at its own organisation; colonnade owner and colonnade party start it",
    "ray": "every party in a process of its own, here or on a Ray cluster of one organisation",
}


def plain_runtime(runtime: str | Cluster) -> dict[str, Any]:
    """A runtime's name, and what it is asked of a cluster, as a run's settings have them.

    >>> plain_runtime("loop")
    {'runtime': 'loop', 'cluster': None}
    """
    if isinstance(runtime, Cluster):
        return {"runtime": "ray", "cluster": runtime.plain()}
    if not isinstance(runtime, str) or runtime not in RUNTIMES:
        raise unknown("runtime", runtime, RUNTIMES)
    return {"runtime": runtime, "cluster": Cluster().plain() if runtime == "ray" else None}


def make_parties(
    tables: Sequence[Table],
    plan: Plan,
    task: Task,
    half: OwnerHalf,
    *,
    owner_is_first: bool,
    owners: LabelOwners | None = None,
    remote: RemoteSetup | None = None,
) -> AllParties:
    """Build every party's networks and put the parties behind the plan's runtime; ``owners`` if there are several."""
    names, home = [table.name for table in tables], {0} if owner_is_first else set()
    half.ends.know("train", tables[0])
    here = [*map(evened, tables if remote is None else tables[: int(owner_is_first)])]
    singles, parts = _singles(here, plan, task, half, owners)
    if remote is not None:
        transport = remote.connect(remote.specs(tables, plan, task, owners, owner_is_first=owner_is_first))
        goes_on = plan.settings.when_away != "wait"
        return remote_parties(names, singles, half, remote, transport, goes_on=goes_on, device=plan.owner_device)
    # Methods that need the owner's columns ask the owner's part by itself, and no group is parted within a round.
    alone = {0} if owner_is_first and plan.method.needs_owner_columns else set()
    groups = _groups(singles, parts, plan.settings, alone, plan.method.kind_of)
    encoded = plan.settings.runtime == "bytes"
    return local_parties(names, groups, half, home, encoded=encoded, device=plan.owner_device)


def local_parties(
    names: Sequence[str],
    groups: Sequence[Group],
    half: OwnerHalf,
    home: set[int],
    *,
    encoded: bool = False,
    blinded: Sequence[str] | None = None,
    device: Device = HOST,
) -> AllParties:
    """Parties that are computed in this process; if the seals say so, these blind their sums, or all but the owner."""
    blind, others = half.seals.blind, [name for k, name in enumerate(names) if k not in home]
    others = others if blinded is None else list(blinded)
    ends = {} if blind is None else simulated_parties(blind, others)
    halves = [PartyHalf(name, half.ends, blind=ends.get(name)) for name in names]
    backend = LocalBackend(groups, halves, home, encoded=encoded)
    if blind is None:
        return AllParties(names, backend, half, home=home, device=device)
    reached = blinded_through(backend, half.presence, ends[others[0]].job, ends[others[0]].manifest)
    blinding = BlindOwner(blind, reached, half.opener)
    return AllParties(names, backend, half, home=home, blinding=blinding, device=device)


def remote_parties(
    names: Sequence[str],
    own: Sequence[Group],
    half: OwnerHalf,
    remote: RemoteSetup,
    transport: Transport,
    *,
    goes_on: bool = False,
    device: Device = HOST,
) -> AllParties:
    """Parties in other processes, and the owner's own part in this one."""
    home, halves = {0} if own else set(), [PartyHalf(name, half.ends) for name in names]
    backend = RemoteBackend(own, halves, transport, remote.schema, job=remote.job, ledger=half.ledger, goes_on=goes_on)
    blind = half.seals.blind
    if blind is None:
        return AllParties(names, backend, half, home=home, device=device)
    keys = {name: remote.keys[name] for name in names[len(own) :]}
    reached = blinded_through(backend, half.presence, remote.job, keys)
    blinding = BlindOwner(blind, reached, half.opener, leaves_out=goes_on)
    return AllParties(names, backend, half, home=home, blinding=blinding, device=device)


def make_owners(
    tables: Sequence[Table], places: Sequence[Tensor], plan: Plan, task: Task, half: OwnerHalf, *, parties: int
) -> LabelOwners:
    """Build every owner's networks, for methods that know several, and put them behind the runtime of the settings."""
    parts, draws = [], half.ends.sources.of(OWNER)
    for _ in tables:
        with draws.drawing("init", "owners"):  # the same for all
            parts.append(plan.method.owner_parts(parties, task.outputs))
    # Their numbers would be those of parties, and what they draw must be their own.
    within = draws.within("owners")
    device = plan.owner_device
    singles = [LoopGroup(k, table, parts[k], within, task=task, device=device) for k, table in enumerate(tables)]
    groups = _groups(singles, parts, plan.settings, set(), lambda _: None)
    names = [OWNER] if len(tables) == 1 else [table.name for table in tables]
    halves = [PartyHalf(name, half.ends, noisy=False) for name in names]
    backend = LocalBackend(groups, halves, {0}, encoded=plan.settings.runtime == "bytes")
    everybody = AllParties(names, backend, half, home={0}, runs_at="owner", device=device)
    return LabelOwners(everybody, backend, singles, places)


def _singles(
    tables: Sequence[Table], plan: Plan, task: Task, half: OwnerHalf, owners: LabelOwners | None
) -> tuple[list[LoopGroup], list[dict[str, Part]]]:
    """Every party of this process by itself, and the networks that it is made of."""
    leaders = {OWNER: 1.0} if owners is None else owners.leaders
    draws = [half.ends.sources.of(table.name) for table in tables]
    builds = [Build(plan.models[k], table, k, list(leaders)) for k, table in enumerate(tables)]
    parts = [
        build_parts(plan.method, build, plan.optimizers[k], task.outputs, draws[k]) for k, build in enumerate(builds)
    ]
    how: dict[str, Any] = {"task": task.public, "leaders": leaders}
    singles = [
        LoopGroup(k, table, parts[k], draws[k], **how, device=plan.device_of(k)) for k, table in enumerate(tables)
    ]
    return singles, parts


def _groups(
    singles: list[LoopGroup],
    parts: Sequence[dict[str, Part]],
    settings: Settings,
    alone: Container[int],
    kind_of: Callable[[int], Hashable],
) -> Sequence[Group]:
    if settings.runtime != "fused":
        return singles
    builders = [{name: part.optimizer for name, part in own.items()} for own in parts]
    return fuse(singles, builders, settings.batch, alone, kind_of)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch's threads within an operation for the duration; groups of parties are computed at once by ``cores.py``."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigError(f"threads={count!r} is out of range; give a whole number from 1.")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
