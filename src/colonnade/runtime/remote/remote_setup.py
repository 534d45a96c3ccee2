"""What was agreed with parties in other processes, and how they are reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.core.table import Table
from colonnade.core.task import Task
from colonnade.runtime.label_owners import LabelOwners
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.party_server import PartySpec
from colonnade.runtime.remote.transport import Transport
from colonnade.runtime.schema import Schema
from colonnade.signatures import Identity
from colonnade.wire.ledger import OWNER
from colonnade.wire.witness import Recording

NOTHING = bytes(16)


@dataclass(frozen=True)
class RemoteSetup:
    """How the parties of a run are reached that are in other processes.

    ``connect`` opens the transport. Within one organisation it also starts the parties, from their specifications;
    between organisations every party starts itself, and ``connect`` gets no specification.
    """

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
    record: Recording | None = None
    """What is recorded of questions to a trained model; a training's own recording is in its description."""

    def specs(
        self, tables: Sequence[Table], plan: Plan, task: Task, owners: LabelOwners | None, *, owner_is_first: bool
    ) -> list[PartySpec]:
        """What each party but the owner is made of; nothing for those that start themselves."""
        names = tuple(table.name for table in tables)
        return [
            PartySpec(
                member=k,
                names=names,
                blinded=names[owner_is_first:],
                table=table,
                method=plan.method,
                model=plan.models[k],
                optimizer=plan.optimizers[k],
                task=task.public,
                settings=plan.settings,
                seals=plan.seals,
                schema=self.schema,
                identity=self.identities[table.name],
                keys=self.keys,
                job=self.job,
                session=self.session,
                secret=(self.secrets or {}).get(table.name),
                folder=None if self.folder is None else self.folder / f"{k:03d}",
                leaders={OWNER: 1.0} if owners is None else owners.leaders,
                places=() if owners is None else tuple(owners.places),
                device=plan.device_of(k),
            )
            for k, table in enumerate(tables)
            if table.name in self.identities
        ]
