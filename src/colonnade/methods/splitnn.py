"""SplitNN: parties send embeddings, the owner's top net reads them side by side.

Vepakomma, Gupta, Swedish, Raskar: *Split learning for health*, 2018; with vertically split data
as in PyVertical (Romanini et al., 2021).

====================  ==========================================================
paper                 here
====================  ==========================================================
cut-layer activations ``h_k``, message ``Embedding.h``
server network        ``owner.top``: two linear layers over all h_k side by side
gradient at the cut   message ``Gradient.slope``
====================  ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from colonnade.method import Method, Owner, Parties, Turn, register
from colonnade.methods.steps import embed, follow, learn, leaves


@register
@dataclass(frozen=True, kw_only=True)
class SplitNN(Method):
    """Concatenated embeddings under one top net; one step per round."""

    name: ClassVar[str] = "splitnn"
    summary: ClassVar[str] = "embeddings side by side under the owner's top net"
    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "gradients of embeddings"
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden")

    hidden: int = 60

    embed = staticmethod(embed)
    follow = staticmethod(follow)

    def start(self, owner: Owner) -> None:
        """The top net."""
        owner.top = nn.Sequential(
            nn.Linear(owner.parties * self.embedding, self.hidden), nn.ReLU(), nn.Linear(self.hidden, owner.classes)
        )
        owner.optimizer = self.owner_optimizer(owner.top.parameters())

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up, gradients down."""
        h = leaves(parties.ask(self.embed, turn))
        loss = F.cross_entropy(owner.top(torch.cat(h, dim=-1)), owner.labels(turn))
        parties.tell(self.follow, turn, each=learn(loss, h, owner.optimizer))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top net on everybody's embeddings."""
        return owner.top(torch.cat([reply.h for reply in parties.ask(self.embed, turn)], dim=-1))  # type: ignore[no-any-return]
