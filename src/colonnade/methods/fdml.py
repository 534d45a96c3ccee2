"""FDML: every party has a whole model; only the sum of their logits matters.

Hu, Niu, Yang, Zhou: *FDML: a collaborative machine learning framework for distributed features*, KDD 2019.

====================  ==========================================================
paper                 here
====================  ==========================================================
local prediction      message ``Logits.o`` [b, C]; the owner needs only their sum v
dL/dv                 message ``Gradient.slope``, the same for everybody
====================  ==========================================================

The gradient is softmax(v) - onehot(y): whoever receives it can read the labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from colonnade.core.method import Builder, Method, Owner, Part, Parties, Turn, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.methods.declarations import of_logit_sums
from colonnade.methods.steps import follow, logits, slope, with_head


@register
@dataclass(frozen=True, kw_only=True)
class FDML(Method):
    """Summed logits; one step per round; one gradient for all."""

    name: ClassVar[str] = "fdml"
    summary: ClassVar[str] = "sum of whole models' logits"
    party_sends: ClassVar[str] = "logits (only their sum is used)"
    owner_sends: ClassVar[str] = "one gradient of logits for all"
    disclosures = of_logit_sums("logits", "follow")
    sums: ClassVar[str] = "always"
    summed_steps: ClassVar[tuple[str, ...]] = ("logits",)

    logits = staticmethod(logits)
    follow = staticmethod(follow)

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The whole model, head included, under one optimiser."""
        return {"net": Part(with_head(build(self.embedding), self.embedding, outputs), optimizer)}

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The sum up, its gradient down."""
        total = parties.sum(self.logits, turn).o.requires_grad_()
        loss = owner.loss(total, turn)
        parties.tell(self.follow, turn, all=slope(loss, total))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The sum of everybody's logits."""
        return parties.sum(self.logits, turn).o
