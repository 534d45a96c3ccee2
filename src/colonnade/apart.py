"""Runtimes of one organisation in which every party is apart: behind letters here, or in processes of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from colonnade.errors import ConfigError
from colonnade.kept import KeptInFolder
from colonnade.method import Method
from colonnade.models import ModelBuilder
from colonnade.optim import OptimizerBuilder
from colonnade.rehearsal import rehearse_tables
from colonnade.runtime.cluster import Cluster
from colonnade.runtime.far import Far
from colonnade.runtime.lines import DirectLines, Lines
from colonnade.runtime.party import Party, Seat
from colonnade.runtime.ray_lines import RayLines
from colonnade.seal.keys import Identity
from colonnade.settings import Settings
from colonnade.table import Table, parties_of

Connect = Callable[[Sequence[Seat]], Lines]


def make_party(seat: Seat) -> Party:
    """A party with its states in its seat's folder, or in memory."""
    return Party(seat, None if seat.folder is None else KeptInFolder(seat.folder))


def far_for(
    tables: Sequence[Table],
    method: Method,
    settings: Settings,
    models: Sequence[ModelBuilder],
    optimizers: Sequence[OptimizerBuilder],
    folder: Path | None,
) -> Far | None:
    """How the parties of this runtime are reached; None if they are in this process and without letters."""
    if settings.runtime == "federation":
        raise ConfigError("runtime='federation' is started by colonnade owner JOB.toml and colonnade party PARTY.toml.")
    if settings.runtime not in _CONNECT:
        return None
    owner_is_first = tables[0].columns is not None
    identities = {table.name: Identity.new() for table in parties_of(tables)[owner_is_first:]}
    return Far(
        connect=_CONNECT[settings.runtime],
        schema=rehearse_tables(tables, method, settings, models, optimizers),
        job=os.urandom(16),
        session=os.urandom(16),
        keys={name: identity.public for name, identity in identities.items()},
        identities=identities,
        folder=None if folder is None else folder / "parties",
    )


def _direct(seats: Sequence[Seat]) -> Lines:
    return DirectLines({seat.name: make_party(seat) for seat in seats})


def _on_a_cluster(seats: Sequence[Seat]) -> Lines:
    asked = next((seat.settings.cluster for seat in seats), None)
    return RayLines(seats, make_party, Cluster(**(asked or {})))


_CONNECT: dict[str, Connect] = {"apart": _direct, "ray": _on_a_cluster}
