"""Runtimes of one organisation in which every party is apart: by requests in this process, or in a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from colonnade.core.settings import Settings
from colonnade.core.table import Table, parties_of
from colonnade.disk.whole_files import make_folder
from colonnade.errors import ConfigError
from colonnade.run.map_step import embedding_map
from colonnade.run.rehearsal import rehearse_tables
from colonnade.runtime.cluster import Cluster
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.party_server import PartyServer, PartySpec
from colonnade.runtime.remote.ray_transport import RayTransport
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.remote.transport import DirectTransport, Transport
from colonnade.runtime.schema import Schema
from colonnade.signatures import Identity
from colonnade.store.secret_file import fresh_secret, secret_in
from colonnade.store.state_folder import StateFolder
from colonnade.wire.ledger import OWNER

EXTRA_STEPS = {"embedding_map": embedding_map}
"""What parties of one organisation serve beside the method's steps, to explain a run."""
Connect = Callable[[Sequence[PartySpec]], Transport]


def make_party(spec: PartySpec) -> PartyServer:
    """A party with its states in a folder, or in memory; it draws its secret where it runs, if it is to have one.

    Within one organisation it also serves maps of its embeddings.
    """
    spec = replace(spec, extra_steps=EXTRA_STEPS)
    if has_secrets(spec.settings):
        spec = replace(spec, secret=_secret(spec.folder))
    return PartyServer(spec, None if spec.folder is None else StateFolder(spec.folder))


def has_secrets(settings: Settings) -> bool:
    """Whether every side was asked to draw from a secret of its own."""
    return bool((settings.cluster or {}).get("secrets"))


def _secret(folder: Path | None) -> bytes:
    """A secret that outlives this process if states do."""
    return fresh_secret() if folder is None else secret_in(make_folder(folder))


def remote_setup_for(tables: Sequence[Table], plan: Plan, folder: Path | None) -> RemoteSetup | None:
    """How the parties of this runtime are reached; None if they are in this process and called directly."""
    settings = plan.settings
    if settings.runtime == "federation":
        raise ConfigError("runtime='federation' is started by colonnade owner JOB.toml and colonnade party PARTY.toml.")
    if settings.runtime not in _CONNECT:
        return None
    owner_is_first = tables[0].columns is not None
    others = [table.name for table in parties_of(tables)[owner_is_first:]]
    identities = {name: Identity.new() for name in others}
    return RemoteSetup(
        connect=_CONNECT[settings.runtime],
        schema=Schema(rehearse_tables(tables, plan).forms, beside=EXTRA_STEPS),
        job=os.urandom(16),
        session=os.urandom(16),
        keys={name: identity.public for name, identity in identities.items()},
        identities=identities,
        secrets=_of_owners(tables, others, folder) if has_secrets(settings) else None,
        folder=None if folder is None else folder / "parties",
    )


def _of_owners(tables: Sequence[Table], others: Sequence[str], folder: Path | None) -> dict[str, bytes]:
    """One secret for all that computes in the owner's process: all owners, and their own columns."""
    here = [table.name for table in tables if table.name not in others]
    return dict.fromkeys((OWNER, *here), _secret(folder))


def _on_a_cluster(specs: Sequence[PartySpec]) -> Transport:
    asked = next((spec.settings.cluster for spec in specs), None)
    return RayTransport(specs, make_party, Cluster(**(asked or {})))


_CONNECT: dict[str, Connect] = {
    "apart": lambda specs: DirectTransport({spec.name: make_party(spec) for spec in specs}),
    "ray": _on_a_cluster,
}
