"""All sides of a run, built in one place, and their states by the name of the side: what a checkpoint is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from colonnade.core.method import Method, Owner
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.randomness import Sources
from colonnade.core.settings import Settings
from colonnade.core.state import Packed, pack, under, unpack
from colonnade.core.table import Table, owners_of, parties_of
from colonnade.core.task import Task, Values
from colonnade.data.sharing import all_labels, places_of
from colonnade.errors import unknown
from colonnade.models import ModelBuilder
from colonnade.run.absence import keeps_means
from colonnade.runtime import InProcess, LabelOwners, make_owners, make_parties
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.seal import Seals
from colonnade.wire.answer_memory import AnswerMemory
from colonnade.wire.channel import Channel
from colonnade.wire.ledger import OWNER, Ledger


@dataclass(frozen=True)
class Sides:
    """The owner, the parties, and where a method knows several owners each of those: whose state is saved apart."""

    owner: Owner
    parties: InProcess
    owners: LabelOwners | None
    channel: Channel

    @property
    def leaders(self) -> list[str]:
        """Who can lead a turn, by the name in the ledger."""
        return [OWNER] if self.owners is None else self.owners.names

    def leader(self, owner: str | None = None) -> str:
        """The owner of this name, or the first."""
        if owner is not None and owner not in self.leaders:
            raise unknown("owner", owner, self.leaders)
        return owner or self.leaders[0]

    def teach(self, soft: Tensor) -> None:
        """Let training see these soft targets [rows, outputs] instead of the labels."""
        self.owner.soft = soft
        if self.owners is not None:
            self.owners.teach(soft)

    @property
    def names(self) -> dict[str, str]:
        """Whose name in the ledger each side has."""
        several = [] if self.owners is None or len(self.owners) == 1 else self.owners.names
        named = {OWNER: OWNER} | {f"owner-{k:03d}": name for k, name in enumerate(several)}
        return named | {f"party-{k:03d}": name for k, name in enumerate(self.parties.names)}

    def states(self) -> dict[str, Packed]:
        """Each side's own state, with that of its end of the channel."""
        sides = {OWNER: pack(self.owner.kept())}
        sides[OWNER] |= {f"heard/{key}": value for key, value in self.channel.heard.state().items()}
        if self.owners is not None:
            sides |= {f"owner-{k:03d}": state for k, state in enumerate(self.owners.states())}
        sides |= {f"party-{k:03d}": state for k, state in enumerate(self.parties.states())}
        for side, name in self.names.items():
            sides[side] |= {f"seal/{key}": value for key, value in self.channel.end(name).state().items()}
        return sides

    def restore(self, states: dict[str, Packed]) -> None:
        """Take back what :meth:`states` gave."""
        unpack(self.owner.kept(), states[OWNER], OWNER)
        self.channel.heard.load(under(states[OWNER], "heard"))
        if self.owners is not None:
            self.owners.load([states[f"owner-{k:03d}"] for k in range(len(self.owners))])
        self.parties.load([states[f"party-{k:03d}"] for k in range(len(self.parties))])
        for side, name in self.names.items():
            self.channel.end(name).load(under(states[side], "seal"))

    def with_what_was_spent(self, states: dict[str, Packed]) -> dict[str, Packed]:
        """States that are older than the budgets must not be kept with the budgets of their time."""
        ends = {side: self.channel.end(name) for side, name in self.names.items()}
        return {
            side: state | {f"seal/{key}": value for key, value in (ends[side].spent() if side in ends else {}).items()}
            for side, state in states.items()
        }


def make_sides(
    tables: Sequence[Table],
    method: Method,
    task: Task,
    settings: Settings,
    models: Sequence[ModelBuilder],
    optimizers: Sequence[OptimizerBuilder],
    seals: Seals,
    ledger: Ledger,
    far: RemoteSetup | None = None,
    secrets: Mapping[str, bytes] | None = None,
) -> Sides:
    """Every side as it is before the first round; with ``secrets`` of sides that compute here, as they drew it."""
    parties, labels = parties_of(tables), all_labels(tables)
    sources = Sources(settings.seed, secrets if far is None else far.secrets)
    owner_is_first = tables[0].columns is not None
    others = [table.name for table in parties[owner_is_first:]]
    channel = Channel(ledger, seals=seals, parties=others, sources=sources)
    channel.heard = AnswerMemory(means=keeps_means(method, settings), sample=method.refits)
    owner = Owner(labels, task, len(parties), sources.of(OWNER))
    if isinstance(task, Values) and task.scale is not None:
        owner.label_scale = task.scale  # part of the owner's state, and undone in predictions
    owners = None
    if method.several_owners:
        owners = owner.owners = make_owners(
            owners_of(tables),
            places_of(tables),
            method,
            settings,
            parties=len(parties),
            task=task,
            channel=channel,
            sources=sources,
        )
        ledger.owners = owners.names
    built = make_parties(
        parties,
        method,
        settings,
        models=models,
        optimizers=optimizers,
        task=task,
        channel=channel,
        sources=sources,
        owner_is_first=owner_is_first,
        owners=owners,
        far=far,
    )
    sides = Sides(owner, built, owners, channel)
    if seals.labels is not None:
        sides.teach(owner.protect(seals.labels))
    with owner.randomness.drawing("init", "owner"):
        method.start(owner)
    return sides
