"""Multi-VFL: several owners with labels of different rows, whose models are averaged every few rounds.

Mugunthan, Goyal, Kagal: *Multi-VFL: a vertical federated learning system for multiple data and label owners*, 2021.

====================  ==========================================================
paper                 here
====================  ==========================================================
label owners L        the first tables of the federation, see :func:`colonnade.share`
data owners D         the parties; each has a network per owner, ``mine.nets[turn.leader]``
n_l / n               ``mine.leaders``, ``owners.shares``
h_k                   message ``Embedding.h``, to the owner of the rows
server network        ``mine.top`` at every owner; message ``Weights.w`` when they are averaged
local steps K         ``every``
FedAvg, FedAdam, ...  ``server``, see ``methods/aggregate.py``
====================  ==========================================================

With one owner and ``server="fedavg"`` it is SplitNN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from colonnade.core.method import Owner, Parties, Turn, register
from colonnade.methods.several import SeveralOwners, average_of, concatenated, gradients_of, mean_loss


@register
@dataclass(frozen=True, kw_only=True)
class MultiVFL(SeveralOwners):
    """Several owners, a network per owner at every party, everything averaged every few rounds."""

    name: ClassVar[str] = "multivfl"
    summary: ClassVar[str] = "several owners with labels of different rows, models averaged every K rounds"

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """With every owner embeddings up and gradients down; in every K-th round both averages."""
        owners = owner.owners
        turns, lead = owners.turns(turn), replace(turn, leader=owners.names[0])
        received = [concatenated([reply.h for reply in parties.ask(self.embed, owner_turn)]) for owner_turn in turns]
        lessons = owners.work(self.learn, lead, each=received)
        for owner_turn, lesson in zip(turns, lessons, strict=True):
            parties.tell(self.follow, owner_turn, each=gradients_of(lesson, self.embedding))
        if self.averages_in(turn):
            owners.tell(self.adopt, lead, all=average_of(owners.ask(self.top, lead), owners.shares))
            parties.tell(self.settle, turn)
        return mean_loss(lessons, owners.shares)

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The logits of the owner who leads the turn, on everybody's embeddings."""
        received = concatenated([reply.h for reply in parties.ask(self.embed, turn)])
        return self.leader_logits(owner, turn, received)
