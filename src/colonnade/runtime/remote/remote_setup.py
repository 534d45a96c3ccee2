"""What was agreed with parties in other processes, and how they are reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from colonnade.core.method import Method
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.settings import Settings
from colonnade.core.table import Table
from colonnade.core.task import Task
from colonnade.models import ModelBuilder
from colonnade.runtime.remote.party_server import PartySpec
from colonnade.runtime.remote.transport import Transport
from colonnade.runtime.schema import Schema
from colonnade.seal import Seals
from colonnade.seal.key_agreement import Identity

NOTHING = bytes(16)


@dataclass(frozen=True)
class RemoteSetup:
    """``connect`` makes the lines; within one organisation it also makes the parties, from their seats."""

    connect: Callable[[Sequence[PartySpec]], Transport]
    schema: Schema
    job: bytes = NOTHING
    session: bytes = NOTHING
    keys: Mapping[str, bytes] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    secrets: Mapping[str, bytes] | None = field(default=None, repr=False)
    """What the sides draw from that compute in this process; None in a simulation, which must repeat."""
    folder: Path | None = None
    """Where parties of one organisation keep their states; None for memory."""

    def seats(
        self,
        tables: Sequence[Table],
        method: Method,
        models: Sequence[ModelBuilder],
        optimizers: Sequence[OptimizerBuilder],
        task: Task,
        settings: Settings,
        seals: Seals,
        *,
        owner_is_first: bool,
        leaders: Mapping[str, float],
        places: Sequence[Tensor],
    ) -> list[PartySpec]:
        """The seats of all but the owner; none if they make their own."""
        names = tuple(table.name for table in tables)
        return [
            PartySpec(
                member=k,
                names=names,
                blinded=names[owner_is_first:],
                table=table,
                method=method,
                model=models[k],
                optimizer=optimizers[k],
                task=task.public,
                settings=settings,
                seals=seals,
                schema=self.schema,
                identity=self.identities[table.name],
                keys=self.keys,
                job=self.job,
                session=self.session,
                secret=(self.secrets or {}).get(table.name),
                folder=None if self.folder is None else self.folder / f"{k:03d}",
                leaders=leaders,
                places=tuple(places),
            )
            for k, table in enumerate(tables)
            if table.name in self.identities
        ]
