"""VFedMH: every party trains a model of its own kind on the mean of everybody's embeddings.

Wang, Gai, Yu, Zhu, Choo, Xiao: *VFedMH: vertical federated learning for training multiple heterogeneous
models*, Algorithm 1.

====================  ==========================================================
paper                 here
====================  ==========================================================
l_0 (active party)    the owner, which is also party 0: split with ``owner="first"``
C = K + 1             the number of parties
h(theta_k), E_k       ``mine.net``, message ``Embedding.h`` [b, E]; the owner needs only their sum
r_k (blinding)        a seal on that sum, no part of the method
E (eq. 7)             message ``Mean.h``: the sum divided by K + 1, the same for everybody
p(theta_k), R_k       ``mine.decision``, message ``Logits.o`` [b, C]
L_k (eq. 8)           the paper sends this number; a party needs its gradient, message ``Gradient.slope``
====================  ==========================================================

Party k backpropagates through its decision net and, through E, its own embedding net: dE/dE_k = 1/(K+1).
K + 1 models come out of one training, each of any architecture and optimiser. ``predict`` gives those of
the owner's model, for which nothing travels but the embeddings; ``predict_each`` those of all.

The gradient is (softmax(R_k) - onehot(y)) / b, and party k knows R_k: it can read the labels. ``local_steps``
beyond 1, which the paper does not have, uses that and nothing else: the party takes more steps on the labels
it has read, with its own part of E fresh and the others' stale. That costs no byte. All parties then move at
once against what the others were, so take a smaller ``lr``: five steps at 0.05 fell back on MNIST, at 0.02 not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from colonnade.core.method import Builder, Method, Mine, Owner, Part, Parties, Turn, descend, party_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.errors import MessageError
from colonnade.methods.declarations import of_embeddings, of_labels, of_nothing, of_training
from colonnade.methods.steps import Gradient, Logits, decision_net, embed, labels_told, slope, why_not_weighted


class Mean(NamedTuple):
    """E [rows, E], and each party's share in it, 1/(K+1)."""

    h: Tensor
    share: Tensor


@register
@dataclass(frozen=True, kw_only=True)
class VFedMH(Method):
    """One model per party, each deciding on the mean of all embeddings."""

    name: ClassVar[str] = "vfedmh"
    summary: ClassVar[str] = "a model per party on the mean of all embeddings (split with owner='first')"
    party_sends: ClassVar[str] = "embeddings (only their sum is used), logits of its own model"
    owner_sends: ClassVar[str] = "mean embedding for all, gradients of logits"
    disclosures = (
        *(of_embeddings("embed"), of_embeddings("decide", "down"), of_training("decide"), of_labels("learn")),
        of_nothing("decide", "up", "columns", "logits follow from the mean, which the owner has, and a network"),
    )
    needs_owner_columns: ClassVar[bool] = True
    sums: ClassVar[str] = "always"
    summed_steps: ClassVar[tuple[str, ...]] = ("embed",)
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden", "local_steps")

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.05}
    hidden: int = 60
    local_steps: int = 1

    embed = staticmethod(embed)

    def why_not(self, task: str, *, weighted: bool) -> str:
        """With weighted rows only one local step works."""
        return super().why_not(task, weighted=weighted) or why_not_weighted(self.local_steps, weighted)

    # party: holds x_k, an embedding net and a decision net

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The embedding net, and the decision net that its builder brings or one with a hidden layer."""
        net = build(self.embedding)
        decision = decision_net(build, self.embedding, self.hidden, outputs)
        return {"net": Part(net, optimizer), "decision": Part(decision, optimizer)}

    @party_step
    def decide(self, mine: Mine, turn: Turn, mean: Mean) -> Logits:
        """R_k = decision_k(E), with this party's own part of E still tied to its embedding net."""
        if not 0 < float(mean.share) <= 1:  # at a huge one, own embeddings would show in which answers overflow
            raise MessageError(f"a share of {float(mean.share):g} in a mean came; it is above 0 and at most 1.")
        own = mean.share * mine.scratch.pop("output")
        mine.scratch["others"] = (mean.h - own).detach()
        mine.scratch["share"] = mean.share
        # Exactly E: the rounding of (E - own) + own would show the party's own part to an owner that chooses E.
        mine.scratch["o"] = o = mine.decision(mean.h + (own - own.detach()))
        return Logits(o)

    @party_step
    def learn(self, mine: Mine, turn: Turn, gradient: Gradient) -> None:
        """One step of both nets along the gradient, then more on the labels that it shows."""
        x, o = mine.inputs(turn), mine.scratch.pop("o")
        others, share = mine.scratch.pop("others"), mine.scratch.pop("share")
        labels = labels_told(mine.task, o, gradient.slope, len(turn.rows))
        descend(o, mine.net, mine.decision, gradient=gradient.slope)
        for _ in range(self.local_steps - 1):
            o = mine.decision(others + share * mine.net(x))
            descend(mine.task.party_loss(o, labels), mine.net, mine.decision)

    # owner: holds y, and is party 0

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The sum up, the mean down; logits up, gradients down. The loss is that of the owner's model."""
        mean = self._mean(parties, turn)
        outputs = [reply.o.requires_grad_() for reply in parties.ask(self.decide, turn, all=mean)]
        losses = [owner.loss(o, turn) for o in outputs]
        slopes = [slope(loss, o) for loss, o in zip(losses, outputs, strict=True)]
        parties.tell(self.learn, turn, each=slopes)
        return losses[0].detach()

    def _mean(self, parties: Parties, turn: Turn) -> Mean:
        share = torch.tensor(1 / len(parties))
        return Mean(share * parties.sum(self.embed, turn).h, share)

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The logits of the owner's model, which the owner computes itself."""
        return parties.ask(self.decide, turn, all=self._mean(parties, turn), to=[0])[0].o

    def predict_each(self, owner: Owner, parties: Parties, turn: Turn) -> list[Tensor]:
        """The logits of every party's model, in the parties' order."""
        return [reply.o for reply in parties.ask(self.decide, turn, all=self._mean(parties, turn))]
