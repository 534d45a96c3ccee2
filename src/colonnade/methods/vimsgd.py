"""VIMSGD: one linear head per party, trained by SGD.

*Improving vertical federated learning by efficient communication with ADMM* (VIM), Algorithm 1.

====================  ==========================================================
paper                 here
====================  ==========================================================
h_k                   message ``Embedding.h``
W_k                   ``owner.heads[k]`` [E, C], no bias
eq. 11, 12            one optimiser step on the heads
eq. 13                gradients of h_k with the *new* heads, message ``Gradient.slope``
====================  ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.core.method import Owner, Parties, Turn, register
from colonnade.methods.heads import OwnerHeads, new_heads
from colonnade.methods.steps import Gradient, embed, follow, learn


@register
@dataclass(frozen=True, kw_only=True)
class VIMSGD(OwnerHeads):
    """A head per party at the owner; one step per round."""

    name: ClassVar[str] = "vimsgd"
    summary: ClassVar[str] = "a linear head per party, SGD"
    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "gradients of embeddings"
    labels: ClassVar[str] = "inferable"
    embedding_gradients: ClassVar[bool] = True

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.3}

    embed = staticmethod(embed)
    follow = staticmethod(follow)

    def start(self, owner: Owner) -> None:
        """The heads, small as those of one layer over all embeddings."""
        owner.heads = new_heads(owner, self.embedding, fan_in=self.embedding * owner.parties)
        owner.optimizer = self.owner_optimizer([owner.heads])

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up; heads step; gradients with the new heads down."""
        h = torch.stack([reply.h for reply in parties.ask(self.embed, turn)])
        loss = owner.loss((h @ owner.heads).sum(0), turn)
        learn(loss, [], owner.optimizer)
        with torch.no_grad():
            error = owner.task.error((h @ owner.heads).sum(0), owner.labels(turn))
            slopes = (error / len(turn.rows)) @ owner.heads.mT
        parties.tell(self.follow, turn, each=[Gradient(slope) for slope in slopes])
        return loss.detach()
