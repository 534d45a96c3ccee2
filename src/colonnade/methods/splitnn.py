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
from torch import Tensor

from colonnade.core.method import Owner, Parties, Turn, register
from colonnade.methods.side_by_side import SideBySide
from colonnade.methods.steps import learn, leaves


@register
@dataclass(frozen=True, kw_only=True)
class SplitNN(SideBySide):
    """Concatenated embeddings under one top net; one step per round."""

    name: ClassVar[str] = "splitnn"
    summary: ClassVar[str] = "embeddings side by side under the owner's top net"

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up, one step of the top net, the gradients of the embeddings down."""
        h = leaves(parties.ask(self.embed, turn))
        loss = owner.loss(owner.top(torch.cat(h, dim=-1)), turn)
        parties.tell(self.follow, turn, each=learn(loss, h, owner.optimizer))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top net on everybody's embeddings."""
        return owner.top(torch.cat([reply.h for reply in parties.ask(self.embed, turn)], dim=-1))  # type: ignore[no-any-return]
