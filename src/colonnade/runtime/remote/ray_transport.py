"""Parties as actors of a Ray cluster: a transport whose other ends are methods of living processes.

What travels in a run are requests and replies, as bytes and inline; only tables and what a party is made of go as Ray's
objects. A process that died or hangs is started again from the specifications of its parties, and the parties find
their states in their folders. Processes of a run that was closed wait for the next one: to start one takes seconds.
"""

from __future__ import annotations

import importlib.metadata
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import torch

from colonnade.core.table import Table
from colonnade.errors import AwayError, ConfigError, TrainingError
from colonnade.runtime.cluster import Cluster, brief
from colonnade.runtime.remote.party_server import PartySpec
from colonnade.signatures import Identity


class ServesRequests(Protocol):
    """What a party is to the process that it lives in."""

    def serve(self, request: bytes) -> bytes:
        """The reply to a request."""

    def place(self, name: str, table: Table) -> None:
        """Put another table's rows here."""


Make = Callable[[PartySpec], ServesRequests]
NOTICED = 2.0  # seconds after which a cluster is asked again for a process that it put on a node that died
_spare: dict[str, list[Any]] = {}  # by what was asked for them: processes that no run uses


class PartyHost:
    """A process of the cluster with some parties in it; it answers one call at a time, in their order."""

    def __init__(self) -> None:
        self.parties: dict[str, ServesRequests] = {}

    def host(self, specs: Sequence[tuple[PartySpec, bytes]], make: Make) -> dict[str, str]:
        """Have the parties of these specifications instead of those before; what computes here."""
        self.empty()
        for spec, private in specs:
            torch.set_num_threads(spec.settings.threads)
            self.parties[spec.name] = make(replace(spec, identity=Identity(private)))
        return versions()

    def empty(self) -> None:
        """Have no parties."""
        self.parties.clear()

    def serve(self, party: str, request: bytes) -> bytes:
        """A party's reply."""
        return self.parties[party].serve(request)

    def place(self, party: str, name: str, table: Table) -> None:
        """Put another table's rows at a party."""
        self.parties[party].place(name, table)


class RayTransport:
    """Reaches every party of these specifications, ``group`` of them in one process."""

    def __init__(self, specs: Sequence[PartySpec], make: Make, cluster: Cluster) -> None:
        self.cluster, self.make = cluster, make
        self.specs = {spec.name: _shippable(spec) for spec in specs}
        self._private = {spec.name: spec.identity.private() for spec in specs}
        names, size = list(self.specs), cluster.group
        self.groups = [names[start : start + size] for start in range(0, len(names), size)]
        self._group_of = {name: k for k, group in enumerate(self.groups) for name in group}
        self._starts = [0] * len(self.groups)
        self._lost: set[int] = set()
        self._pending: dict[str, Any] = {}
        self.ray = cluster.join()
        cluster.check_room(self.ray, len(self.groups))
        self.hosts = [self._host(k) for k in range(len(self.groups))]
        starting = [self._host_parties(k) for k in range(len(self.groups))]
        until = time.monotonic() + cluster.start_deadline
        for k, started in enumerate(starting):
            self._check_start(k, started, until)

    def _host(self, k: int) -> Any:
        """A process for a group: a spare one of its kind that still lives, or a new one."""
        spare = _spare.get(self._kind(k), [])
        while spare:
            host = spare.pop()
            with suppress(self.ray.exceptions.RayError):  # a timeout is one, too
                self.ray.get(host.empty.remote(), timeout=self.cluster.deadline)
                return host
        return self.ray.remote(PartyHost).options(max_restarts=0, **self.cluster.options(self.ray, k)).remote()

    def _kind(self, k: int) -> str:
        """What tells the processes that may stand in for one another."""
        how = {**self.cluster.options(self.ray, k), "scheduling_strategy": self.cluster.node_of(k)}
        return f"{self.ray.get_runtime_context().get_job_id()} {sorted(how.items(), key=str)}"

    def _host_parties(self, k: int) -> Any:
        specs = [(self.specs[name], self._private[name]) for name in self.groups[k]]
        return self.hosts[k].host.remote(specs, self.make)

    def _check_start(self, k: int, started: Any, until: float) -> bool:
        """Wait for a process to be there, and refuse one that would not compute the same; False if its node is gone."""
        who, errors = ", ".join(self.groups[k]), self.ray.exceptions
        try:
            there = self.ray.get(started, timeout=max(until - time.monotonic(), 1.0))
        except errors.GetTimeoutError:
            raise AwayError(
                f"the process of {who} did not start within {self.cluster.start_deadline:g} seconds; is the "
                "cluster busy with other work?",
                self.groups[k][0],
            ) from None
        except errors.RayError as error:
            if self._starts[k] and isinstance(error, errors.ActorDiedError):
                return False  # it could start before, so nothing is amiss but the node that was to have it
            raise ConfigError(
                f"the process of {who} cannot start on the cluster: {brief(error)}; every node needs this package and "
                "the modules of your own models."
            ) from None
        if there != versions():
            raise ConfigError(f"the process of {who} has {there}, and this one {versions()}; install the same on all.")
        return True

    # the transport

    def post(self, party: str, request: bytes) -> None:
        """Call the actor and do not wait."""
        self._pending[party] = self.hosts[self._group_of[party]].serve.remote(party, request)

    def reply(self, party: str) -> bytes:
        """What the actor answers, within the deadline."""
        errors, deadline, k = self.ray.exceptions, self.cluster.deadline, self._group_of[party]
        hint = "" if self.specs[party].folder else "; with folder= a run starts it again and goes on"
        try:
            return self.ray.get(self._pending.pop(party), timeout=deadline)  # type: ignore[no-any-return]
        except errors.GetTimeoutError:
            self._lost.add(k)
            raise AwayError(f"'{party}' did not answer within {deadline:g} seconds{hint}.", party) from None
        except errors.RayTaskError as error:
            raise TrainingError(f"'{party}' failed on the cluster: {brief(error)}.") from None
        except errors.RayError as error:
            self._lost.add(k)
            raise AwayError(f"the process of '{party}' is gone: {brief(error)}{hint}.", party) from None

    def first(self, parties: Sequence[str]) -> str:
        """The first whose actor has answered; if none does within the deadline, the first in their order."""
        calls = {self._pending[party]: party for party in parties}
        answered, _ = self.ray.wait(list(calls), timeout=self.cluster.deadline, fetch_local=False)
        return calls[answered[0]] if answered else parties[0]

    def session(self, party: str) -> bytes:
        """That of its specification, which is another after every start."""
        return self.specs[party].session

    def give(self, party: str, name: str, table: Table) -> None:
        """Send the rows, and keep them for a process that is started again."""
        spec = self.specs[party]
        self.specs[party] = replace(spec, tables={**spec.tables, name: table.compact()})
        self.hosts[self._group_of[party]].place.remote(party, name, self.specs[party].tables[name])

    def wait_for(self, party: str) -> None:
        """Start the party's process again if it is gone; all parties in it have a new session."""
        k = self._group_of[party]
        while k in self._lost:
            self._starts[k] += 1
            if self._starts[k] > self.cluster.restarts:
                raise AwayError(
                    f"the process of '{party}' was lost {self._starts[k]} times; look at Ray's logs.", party
                )
            self.ray.kill(self.hosts[k])  # one that hangs must not write into the same folder
            session = os.urandom(16)
            for name in self.groups[k]:
                self.specs[name] = replace(self.specs[name], session=session)
            self.hosts[k] = self._host(k)
            if self._check_start(k, self._host_parties(k), time.monotonic() + self.cluster.start_deadline):
                self._lost.discard(k)
            else:
                time.sleep(NOTICED)

    def close(self) -> None:
        """Empty the processes and let other runs have them; Ray itself stays until this process ends.

        Those that hold something of a cluster are ended: whoever waits for it would wait for ever.
        """
        for k, host in enumerate(self.hosts):
            options = self.cluster.options(self.ray, k)
            if k in self._lost or options["num_cpus"] or options["resources"] or self.cluster.gpus:
                self.ray.kill(host)
            else:
                host.empty.remote()
                _spare.setdefault(self._kind(k), []).append(host)
        self.hosts.clear()


def versions() -> dict[str, str]:
    """What must be the same at all nodes for results to be the same."""
    return {"colonnade": importlib.metadata.version("colonnade"), "torch": str(torch.__version__)}


def _shippable(spec: PartySpec) -> PartySpec:
    """A specification as it can go to another process: rows of its own, and no key, which cannot be pickled."""
    folder = None if spec.folder is None else spec.folder.resolve()
    tables = {name: table.compact() for name, table in spec.tables.items()}
    return replace(spec, table=spec.table.compact(), tables=tables, folder=folder, identity=None)  # type: ignore[arg-type]
