"""VAFL: a weighted sum of embeddings under a linear top layer.

Chen, Jin, Sun, Yin: *VAFL: a method of vertical asynchronous federated learning*, 2020; the
synchronous form that the VIM paper compares with.

====================  ==========================================================
paper                 here
====================  ==========================================================
h_k                   message ``Embedding.h``
alpha_k               ``owner.alpha`` [M], starts at 1/M, learnt unless ``learn_weights=False``
theta_0               ``owner.top``, linear E -> C
dL/dh_k               message ``Gradient.slope``
====================  ==========================================================

With ``learn_weights=False`` every alpha_k stays 1/M, so the owner needs **only the sum** of the embeddings
and answers with **one gradient for all**.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from colonnade.core.method import Method, Owner, Parties, Turn, register
from colonnade.core.optim import SGD
from colonnade.methods.steps import embed, follow, learn, leaves


@register
@dataclass(frozen=True, kw_only=True)
class VAFL(Method):
    """Sum of alpha_k h_k under one linear layer; one step per round."""

    name: ClassVar[str] = "vafl"
    summary: ClassVar[str] = "weighted sum of embeddings under one linear layer"
    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "gradients of embeddings"
    labels: ClassVar[str] = "inferable"
    embedding_gradients: ClassVar[bool] = True
    sums: ClassVar[str] = "with learn_weights=False"
    summed_steps: ClassVar[tuple[str, ...]] = ("embed",)
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "weights_lr")

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.3}
    learn_weights: bool = True
    weights_lr: float = 0.01

    embed = staticmethod(embed)
    follow = staticmethod(follow)

    @property
    def only_sums(self) -> bool:
        """Whether the owner sees no party's embeddings by themselves."""
        return not self.learn_weights

    def start(self, owner: Owner) -> None:
        """The top layer and the weights."""
        owner.top = nn.Linear(self.embedding, owner.outputs)
        owner.alpha = nn.Parameter(torch.full((owner.parties,), 1.0 / owner.parties), requires_grad=self.learn_weights)
        owner.optimizer = self.owner_optimizer(owner.top.parameters())
        owner.alpha_optimizer = SGD(self.weights_lr, momentum=0.0)([owner.alpha])

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up, gradients down."""
        if not self.learn_weights:
            return self._sum_round(owner, parties, turn)
        h = leaves(parties.ask(self.embed, turn))
        loss = owner.loss(owner.top(_mix(owner.alpha, h)), turn)
        parties.tell(self.follow, turn, each=learn(loss, h, owner.optimizer, owner.alpha_optimizer))
        return loss.detach()

    def _sum_round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        total = parties.sum(self.embed, turn).h.requires_grad_()
        loss = owner.loss(owner.top(total / owner.parties), turn)
        (gradient,) = learn(loss, [total], owner.optimizer)
        parties.tell(self.follow, turn, all=gradient)
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top layer on the weighted sum."""
        if not self.learn_weights:
            return owner.top(parties.sum(self.embed, turn).h / owner.parties)  # type: ignore[no-any-return]
        return owner.top(_mix(owner.alpha, [reply.h for reply in parties.ask(self.embed, turn)]))  # type: ignore[no-any-return]


def _mix(alpha: Tensor, h: list[Tensor]) -> Tensor:
    return torch.einsum("k,kbe->be", alpha, torch.stack(h))
