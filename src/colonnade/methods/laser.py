"""LASER-VFL: one predictor for every set of parties that may know a row.

Valdeira, Wang, Chi: *Vertical federated learning with missing features during training and inference*, ICLR 2025,
arXiv 2410.22564, Algorithm 1.

====================  ==========================================================
paper                 here
====================  ==========================================================
f_k(x_k)              ``mine.net``, message ``Embedding.h`` [b, E], zeros for rows that the party does not have
K_o^n                 ``owner.known(turn)`` [M, b]: who has row n; an absent party has none
g_k                   ``owner.top``: two linear layers over the mean of the h_i of a set
S_ki                  ``_members``: of every size one random set of those who have the row
a_i                   ``_shares``: how many sets of that size there are, of all sets
gradient at the cut   message ``Gradient.slope``, zero for rows that the party does not have
====================  ==========================================================

*Deviations.* In the paper every client has labels and a fusion model g_k of its own, and predicts from the sets that
contain itself. Here one owner has the labels, so there is one g, which the owner holds; if it has columns, every set
contains them. The paper draws the sets once per batch, whose rows are all known to the same clients; here each row has
sets of its own, each a part of the next larger one, so a batch may mix rows. In the paper's loss every set of every
row counts alike (``counts="sets"``), so a row that m clients know counts 2^m - 1 times; by default a row counts once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from colonnade.core.disclosure import Disclosure
from colonnade.core.method import Builder, Mine, Owner, Part, Parties, Turn, party_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.errors import ModelError, unknown
from colonnade.methods.declarations import of_embeddings, of_gradients, of_nothing
from colonnade.methods.split_networks import SplitNetworks
from colonnade.methods.steps import Embedding, learn, leaves

COUNTS = ("rows", "sets")


@register
@dataclass(frozen=True, kw_only=True)
class LASER(SplitNetworks):
    """The mean of the embeddings of whoever knows a row, under one top net, trained for all sets of parties."""

    name: ClassVar[str] = "laser"
    summary: ClassVar[str] = "the mean of the embeddings of whoever knows a row, for every set of parties"
    partial_rows: ClassVar[bool] = True
    any_subset: ClassVar[bool] = True
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden")

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.3}
    hidden: int = 60
    counts: str = "rows"

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Gradients are averaged over all sets of parties, in most of which the others' columns have no part."""
        hardly = "audits on three data sets find nothing of the others' columns in them"
        return of_embeddings("embed"), of_gradients("follow"), of_nothing("follow", "down", "columns", hardly)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counts not in COUNTS:
            raise unknown("choice of what counts alike in laser", self.counts, COUNTS)

    # party k: holds x_k of the rows that it has, and f_k

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The user's network, unless it would average rows that the party does not have."""
        net = build(self.embedding)
        norms = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in net.modules())
        if build.lacks_rows and norms:
            raise ModelError(
                f"the network of party {build.party} has batch norm, whose means would count rows that the party does "
                "not have; give model= without it, or train on cn.common_rows(tables)."
            )
        return {"net": Part(net, optimizer)}

    @party_step
    def embed(self, mine: Mine, turn: Turn) -> Embedding:
        """Send h_k, with zeros for rows that the party does not have, and keep it for its gradient."""
        mine.scratch["output"] = h = mine.net(mine.inputs(turn)) * mine.known(turn).unsqueeze(-1)
        return Embedding(h)

    # owner: holds y and g

    def start(self, owner: Owner) -> None:
        """The top net."""
        owner.top = nn.Sequential(
            nn.Linear(self.embedding, self.hidden), nn.ReLU(), nn.Linear(self.hidden, owner.outputs)
        )
        owner.optimizer = self.owner_optimizer(owner.top.parameters())

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up, one step on the loss of one random set of every size, gradients down."""
        h, known = leaves(parties.ask(self.embed, turn)), owner.known(turn)
        members, shares = _members(owner, known, turn), _shares(owner, known, self.counts)
        losses = owner.task.loss_of_each(
            owner.top(_mean(torch.stack(h), members)), owner.task.targets(owner.labels(turn))
        )
        loss = (shares * losses).sum() / known.any(0).sum().clamp(min=1)
        parties.tell(self.follow, turn, each=learn(loss, h, owner.optimizer))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top net on the mean of those who know the row and are not absent."""
        return owner.top(_mean(self._embeddings(owner, parties, turn), owner.known(turn)))  # type: ignore[no-any-return]

    def predict_subsets(self, owner: Owner, parties: Parties, turn: Turn) -> list[Tensor]:
        """What the top net makes of every set of parties, from one message of each."""
        h, known = self._embeddings(owner, parties, turn), owner.known(turn)
        sets = torch.cartesian_prod(*[torch.tensor([False, True])] * owner.parties).view(-1, owner.parties).to(h.device)
        return [owner.top(_mean(h, known & members.unsqueeze(-1))) for members in sets]

    def _embeddings(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Everybody's embeddings [M, b, E]; whatever stands for the absent is nobody's and not in any mean."""
        alone = owner.has_columns and len(owner.absent) == owner.parties - 1
        replies = parties.ask(self.embed, turn, to=[0] if alone else None)
        return torch.stack([reply.h for reply in replies] * (owner.parties if alone else 1))


def _members(owner: Owner, known: Tensor, turn: Turn) -> Tensor:
    """Who is in each row's random set of every size [M, M, b]: the first so many of a random order."""
    draws = torch.rand(known.shape, generator=owner.randomness.generator("sets", turn.round))
    if owner.has_columns:
        draws[0] = -1.0
    places = owner.device.bring(draws).masked_fill(~known, 2.0).argsort(0).argsort(0)
    sizes = torch.arange(1, len(known) + 1, device=known.device).view(-1, 1, 1)
    return (places < sizes) & known


def _shares(owner: Owner, known: Tensor, counts: str) -> Tensor:
    """The share of each size [M, b] in all sets of those who know a row, or who know any of the rows."""
    fixed, most, known = int(owner.has_columns), len(known), known.cpu()  # not every device has float64
    sets = torch.tensor([[math.comb(n, size) for size in range(most + 1)] for n in range(most + 1)]).double()
    sets[:, 0] *= fixed  # a set without anybody is one only beside the owner's columns
    others = known[fixed:].sum(0)
    chosen = sets[others, (1 - fixed) : most + 1 - fixed].T
    each = chosen.sum(0)
    whole = each if counts == "rows" else each.sum() / known.any(0).sum().clamp(min=1)
    return owner.device.bring((chosen / whole.clamp(min=1)).float())


def _mean(h: Tensor, members: Tensor) -> Tensor:
    """The mean embedding [..., b, E] of each row's members [..., M, b]; zeros if there is none."""
    total = torch.einsum("...mb,mbe->...be", members.float(), h)
    return total / members.sum(-2).clamp(min=1).unsqueeze(-1)
