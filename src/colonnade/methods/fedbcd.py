"""FedBCD: several local steps on a gradient that grows stale.

Liu, Kang, Zhang, Li, Cheng, Chen, Hong, Yang: *FedBCD: a communication-efficient collaborative
learning framework for distributed features*, 2019 (FedBCD-p, the parallel form).

====================  ==========================================================
paper                 here
====================  ==========================================================
H_k                   message ``Embedding.h`` or ``Logits.o``
Q                     ``local_steps``
stale gradient        message ``Gradient.slope``, used for all Q steps
====================  ==========================================================

``combine="concat"`` sends embeddings to a top net as SplitNN does, and the owner takes its Q steps
on the stale embeddings; ``combine="sum"`` sends logits as FDML does, and the owner has nothing to train.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from colonnade.core.method import Builder, Disclosure, Method, Mine, Owner, Part, Parties, Turn, party_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.methods.declarations import of_logit_sums, of_split_networks
from colonnade.methods.steps import Gradient, embed, learn, leaves, logits, slope, with_head


@register
@dataclass(frozen=True, kw_only=True)
class FedBCD(Method):
    """SplitNN or FDML with Q local steps per round."""

    name: ClassVar[str] = "fedbcd"
    summary: ClassVar[str] = "several local steps on one stale gradient"
    party_sends: ClassVar[str] = "embeddings, or logits"
    owner_sends: ClassVar[str] = "gradients"
    embedding_gradients: ClassVar[bool] = True
    sums: ClassVar[str] = "with combine='sum'"
    summed_steps: ClassVar[tuple[str, ...]] = ("logits",)
    asked_steps: ClassVar[tuple[str, ...]] = ()  # "embed" is asked for with combine="concat" only
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "local_steps")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"combine": ("concat", "sum")}

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.05}
    with_adam: ClassVar[dict[str, float]] = {"lr": 0.0003}  # several steps a round go as far as one
    local_steps: int = 5
    combine: str = "concat"

    embed = staticmethod(embed)
    logits = staticmethod(logits)

    @property
    def only_sums(self) -> bool:
        """Logits are summed; embeddings are not."""
        return self.combine == "sum"

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Gradients of logits show labels; from those of embeddings they must be inferred."""
        summed = self.combine == "sum"
        return of_logit_sums("logits", "descend") if summed else of_split_networks("embed", "descend")

    @property
    def only_embedding_gradients(self) -> bool:
        """Not those of logits."""
        return self.combine == "concat"

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The network alone, or the whole model if logits are summed."""
        net = build(self.embedding)
        return {"net": Part(net if self.combine == "concat" else with_head(net, self.embedding, outputs), optimizer)}

    def start(self, owner: Owner) -> None:
        """A linear top layer if embeddings are concatenated."""
        if self.combine == "concat":
            owner.top = nn.Linear(owner.parties * self.embedding, owner.outputs)
            owner.optimizer = self.owner_optimizer(owner.top.parameters())

    @party_step
    def descend(self, mine: Mine, turn: Turn, gradient: Gradient) -> None:
        """Q steps along the same gradient, each from the network's current output."""
        output = mine.scratch.pop("output")
        for step in range(self.local_steps):
            output = mine.net(mine.inputs(turn)) if step else output
            mine.net.descend(output, gradient.slope)

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Outputs up, gradients down, Q steps at every side."""
        if self.combine == "sum":
            total = parties.sum(self.logits, turn).o.requires_grad_()
            loss = owner.loss(total, turn)
            parties.tell(self.descend, turn, all=slope(loss, total))
            return loss.detach()
        h = leaves(parties.ask(self.embed, turn))
        loss = owner.loss(owner.top(torch.cat(h, dim=-1)), turn)
        parties.tell(self.descend, turn, each=learn(loss, h, owner.optimizer))
        self._learn_more(owner, torch.cat(h, dim=-1).detach(), turn)
        return loss.detach()

    def _learn_more(self, owner: Owner, stale: Tensor, turn: Turn) -> None:
        for _ in range(self.local_steps - 1):
            learn(owner.loss(owner.top(stale), turn), [], owner.optimizer)

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top layer on everybody's embeddings, or the sum of logits."""
        if self.combine == "sum":
            return parties.sum(self.logits, turn).o
        return owner.top(torch.cat([reply.h for reply in parties.ask(self.embed, turn)], dim=-1))  # type: ignore[no-any-return]
