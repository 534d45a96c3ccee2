"""All sides of a run, built in one place, and their states by the name of the side: what a checkpoint is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from colonnade.core.method import Owner
from colonnade.core.randomness import Sources
from colonnade.core.state import Packed, pack, under
from colonnade.core.table import Table, owners_of, parties_of
from colonnade.core.task import Task, Values
from colonnade.data.sharing import all_labels, places_of
from colonnade.errors import unknown
from colonnade.run.absence import keeps_means
from colonnade.runtime.label_owners import LabelOwners
from colonnade.runtime.parties import AllParties
from colonnade.runtime.plan import Plan
from colonnade.runtime.remote.remote_setup import RemoteSetup
from colonnade.runtime.setup import make_owners, make_parties
from colonnade.wire.answer_memory import AnswerMemory
from colonnade.wire.ends import Ends
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.owner_half import OwnerHalf
from colonnade.wire.witness import Witness


@dataclass(frozen=True)
class Sides:
    """The owner, the parties, and where a method knows several owners each of those: whose state is saved apart."""

    owner: Owner
    parties: AllParties
    owners: LabelOwners | None
    half: OwnerHalf

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
        """Each side's own state, with that of its end of the wire."""
        sides = {OWNER: pack(self.owner.kept())}
        sides[OWNER] |= {f"heard/{key}": value for key, value in self.half.memory.state().items()}
        if self.owners is not None:
            sides |= {f"owner-{k:03d}": state for k, state in enumerate(self.owners.states())}
        sides |= {f"party-{k:03d}": state for k, state in enumerate(self.parties.states())}
        for side, name in self.names.items():
            sides[side] |= {f"seal/{key}": value for key, value in self.half.ends[name].state().items()}
        return sides

    def restore(self, states: dict[str, Packed]) -> None:
        """Take back what :meth:`states` gave."""
        self.owner.restore(states[OWNER])
        self.half.memory.load(under(states[OWNER], "heard"))
        if self.owners is not None:
            self.owners.load([states[f"owner-{k:03d}"] for k in range(len(self.owners))])
        self.parties.load({k: states[f"party-{k:03d}"] for k in range(len(self.parties))})
        for side, name in self.names.items():
            self.half.ends[name].load(under(states[side], "seal"))

    def with_what_was_spent(self, states: dict[str, Packed]) -> dict[str, Packed]:
        """States that are older than the budgets must not be kept with the budgets of their time."""
        ends = {side: self.half.ends[name] for side, name in self.names.items()}
        return {
            side: state
            | {f"seal/{key}": value for key, value in (ends[side].budget_state() if side in ends else {}).items()}
            for side, state in states.items()
        }


def make_sides(
    tables: Sequence[Table],
    plan: Plan,
    task: Task,
    ledger: Ledger,
    remote: RemoteSetup | None = None,
    secrets: Mapping[str, bytes] | None = None,
    witness: Witness | None = None,
) -> Sides:
    """Every side as it is before the first round; with ``secrets`` of sides that compute here, as they drew it.

    ``witness`` records what travels.
    """
    parties, method, settings = parties_of(tables), plan.method, plan.settings
    sources = Sources(settings.seed, secrets if remote is None else remote.secrets)
    memory = AnswerMemory(means=keeps_means(method, settings), sample=method.refits)
    checks = None if remote is None else remote.schema
    first = tables[0].columns is not None
    device = plan.owner_device
    owner = Owner(all_labels(tables), task, len(parties), sources.of(OWNER), has_columns=first, device=device)
    ends, classes = Ends(plan.seals, sources), owner.classes
    half = OwnerHalf(ends, ledger, memory, checks=checks, classes=classes, witness=witness)
    if isinstance(task, Values) and task.scale is not None:
        owner.label_scale = task.scale  # part of the owner's state, and undone in predictions
    owners = None
    if method.several_owners:
        among_owners = OwnerHalf(half.ends, ledger, memory, witness=witness)
        each = owners_of(tables), places_of(tables)
        owners = owner.owners = make_owners(*each, plan, task, among_owners, parties=len(parties))
        ledger.owners = owners.names
    built = make_parties(parties, plan, task, half, owner_is_first=first, owners=owners, remote=remote)
    sides = Sides(owner, built, owners, half)
    if plan.seals.labels is not None:
        sides.teach(owner.protect(plan.seals.labels))
    with owner.randomness.drawing("init", "owner"):
        method.start(owner)
    owner.move()
    return sides
