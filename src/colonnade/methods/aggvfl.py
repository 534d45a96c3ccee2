"""AggVFL: every party has a whole model; their logits are averaged, wide parties counting for more.

Zhang, Guo, Qu, Zeng, Wang, Liu, Zomaya: *Adaptive vertical federated learning on unbalanced features*, TPDS 2022,
as the VFedMH paper compares with it (Agg_VFL; with one kind of model or several: Homo_ and Heter_aggVFL).

====================  ==========================================================
paper                 here
====================  ==========================================================
party's prediction    o_k [b, C]: ``mine.net`` with its decision layers
party's weight        w_k: its columns in thousands, or 1 with ``weights="equal"``
what it sends         message ``Weighted``: w_k o_k and w_k; the owner needs only their sums
v                     sum_k w_k o_k / sum_k w_k
dL/d(sum w_k o_k)     message ``Gradient.slope``, the same for everybody; a party applies its own w_k
====================  ==========================================================

A party applies its weight before sending, so that the owner needs no party's logits or column count by
themselves. The unit of w_k cancels; thousands keep wide parties' values within what fixed point can write.
The gradient is softmax(v) - onehot(y) but for a factor: it shows the labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from colonnade.core.method import Builder, Method, Mine, Owner, Part, Parties, Turn, party_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.methods.declarations import of_logit_sums
from colonnade.methods.steps import decision_net, follow, slope


class Weighted(NamedTuple):
    """w_k o_k [rows, C] and w_k, so that both can be summed."""

    o: Tensor
    weight: Tensor


@register
@dataclass(frozen=True, kw_only=True)
class AggVFL(Method):
    """Weighted mean of whole models' logits; one step per round; one gradient for all."""

    name: ClassVar[str] = "aggvfl"
    summary: ClassVar[str] = "weighted mean of whole models' logits"
    party_sends: ClassVar[str] = "weighted logits and a weight (only their sums are used)"
    owner_sends: ClassVar[str] = "one gradient of logits for all"
    disclosures = of_logit_sums("weigh", "follow")
    sums: ClassVar[str] = "always"
    summed_steps: ClassVar[tuple[str, ...]] = ("weigh",)
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"weights": ("columns", "equal")}

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.3}
    hidden: int = 60
    weights: str = "columns"

    follow = staticmethod(follow)

    # party: holds x_k and a whole model

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The whole model, decision layers included, under one optimiser."""
        whole = nn.Sequential(build(self.embedding), decision_net(build, self.embedding, self.hidden, outputs))
        return {"net": Part(whole, optimizer)}

    @party_step
    def weigh(self, mine: Mine, turn: Turn) -> Weighted:
        """Send w_k o_k and w_k, and keep the former for the gradient that comes back."""
        x = mine.inputs(turn)
        o = mine.net(x)
        rows = o.shape[:-1].numel()  # of all parties that are computed together, which have as many columns each
        weight = x.numel() / rows / 1000 if self.weights == "columns" else 1.0
        mine.scratch["output"] = weighted = weight * o
        return Weighted(weighted, o.new_full(o.shape[:-2], weight))

    # owner: holds y

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The sums up, the gradient of the first down."""
        total = parties.sum(self.weigh, turn)
        weighted = total.o.requires_grad_()
        loss = owner.loss(weighted / total.weight, turn)
        parties.tell(self.follow, turn, all=slope(loss, weighted))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The weighted mean of everybody's logits."""
        total = parties.sum(self.weigh, turn)
        return total.o / total.weight
