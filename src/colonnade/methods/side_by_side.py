"""Embeddings side by side under the owner's top net: the networks and party steps of SplitNN and TVFL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from colonnade.core.method import Method, Owner
from colonnade.methods.steps import embed, follow


@dataclass(frozen=True, kw_only=True)
class SideBySide(Method):
    """Concatenated embeddings under one top net; how a round trains them is the method's own."""

    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "gradients of embeddings"
    labels: ClassVar[str] = "inferable"
    embedding_gradients: ClassVar[bool] = True
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
