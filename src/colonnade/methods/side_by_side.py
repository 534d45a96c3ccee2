"""Embeddings side by side under the owner's top net: what SplitNN and TVFL train alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from colonnade.core.method import Method, Owner, Parties, Turn
from colonnade.methods.steps import embed, follow, learn, leaves


@dataclass(frozen=True, kw_only=True)
class SideBySide(Method):
    """Concatenated embeddings under one top net; one step per round."""

    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "gradients of embeddings"
    labels: ClassVar[str] = "inferable"
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden")

    hidden: int = 60

    embed = staticmethod(embed)
    follow = staticmethod(follow)

    def start(self, owner: Owner) -> None:
        """The top net."""
        owner.top = nn.Sequential(
            nn.Linear(owner.parties * self.embedding, self.hidden), nn.ReLU(), nn.Linear(self.hidden, owner.outputs)
        )
        owner.optimizer = self.owner_optimizer(owner.top.parameters())

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up, gradients down."""
        h = leaves(parties.ask(self.embed, turn))
        loss = owner.loss(owner.top(torch.cat(h, dim=-1)), turn)
        parties.tell(self.follow, turn, each=learn(loss, h, owner.optimizer))
        return loss.detach()
