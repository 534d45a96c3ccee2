"""Embeddings side by side under the owner's top net: the networks and party steps of SplitNN and TVFL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from colonnade.core.method import Owner
from colonnade.methods.split_networks import SplitNetworks
from colonnade.methods.steps import embed


@dataclass(frozen=True, kw_only=True)
class SideBySide(SplitNetworks):
    """Concatenated embeddings under one top net; how a round trains them is the method's own."""

    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden")

    hidden: int = 60

    embed = staticmethod(embed)

    def start(self, owner: Owner) -> None:
        """The top net."""
        owner.top = nn.Sequential(
            nn.Linear(owner.parties * self.embedding, self.hidden), nn.ReLU(), nn.Linear(self.hidden, owner.outputs)
        )
        owner.optimizer = self.owner_optimizer(owner.top.parameters())
