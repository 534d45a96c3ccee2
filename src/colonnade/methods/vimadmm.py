"""VIMADMM: a linear head per party, ADMM with many local steps per round.

*Improving vertical federated learning by efficient communication with ADMM* (VIM), Algorithm 2.

====================  ==========================================================
paper                 here
====================  ==========================================================
h_j^k, W_k            ``h[k]`` [b, E], ``owner.heads[k]`` [E, C]
z_j, lambda_j         ``z`` [b, C], ``owner.dual`` [N, C], kept per sample, zero at first
rho, tau              ``rho``, ``local_steps``
s_j^k (eq. 9)         the residual, with the heads *before* their step
beta                  ``decay``: weight decay of both optimisers
====================  ==========================================================

Eq. 9 writes the new heads. Taken literally that diverges at the paper's own settings within five
rounds (``benchmarks/orders.py`` shows it), we believe because one step of M heads can overshoot z in
directions that all parties share, for which M parties then each make up in full; a far smaller head
step is stable. The authors' code takes the heads before their step; so do we.

Losses are means over the batch. z needs no memory: the exact solution depends on the dual and
the sum alone. ``messages="compact"`` sends t_k = s_k - dual/rho, because
<dual, o> + rho/2 |s - o|^2 = rho/2 |o - t|^2 + const; ``messages="paper"`` sends both tensors.
At the exact z the dual is softmax(z) - onehot(y) (of values z - y): either message shows the labels.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from colonnade.core.method import Disclosure, Mine, Owner, Parties, Turn, party_step, register
from colonnade.methods.admm import ADMM
from colonnade.methods.declarations import of_embeddings, of_labels, of_others
from colonnade.methods.heads import OwnerHeads, new_heads
from colonnade.methods.steps import Embedding


class Target(NamedTuple):
    """The goal t_k of a party's logits, and the head W_k that gives them."""

    goal: Tensor
    head: Tensor


class PaperTarget(NamedTuple):
    """The same in the paper's three variables."""

    dual: Tensor
    residual: Tensor
    head: Tensor


@register
@dataclass(frozen=True, kw_only=True)
class VIMADMM(OwnerHeads, ADMM):
    """ADMM over heads at the owner and networks at the parties."""

    name: ClassVar[str] = "vimadmm"
    summary: ClassVar[str] = "a linear head per party, ADMM with many local steps"
    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "target logits and head"

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Embeddings, and targets that are made of duals and of the others' logits."""
        return of_embeddings("embed"), of_labels(self.fit_step), of_others(self.fit_step)

    # party: holds x_k and f_k

    @party_step
    def embed(self, mine: Mine, turn: Turn) -> Embedding:
        """h_k = f_k(x_k)."""
        with torch.no_grad():
            return Embedding(mine.net(mine.inputs(turn)))

    @party_step
    def fit(self, mine: Mine, turn: Turn, target: Target) -> None:
        """Tau steps on eq. 10, rho/2 |f_k(x_k) W_k - t_k|^2, mean over rows, along its gradient by f_k(x_k)."""
        x, weight = mine.inputs(turn), self.rho / len(turn.rows)
        for _ in range(typing.cast(int, self.local_steps)):
            h = mine.net(x)
            gap = mine.product(h.detach(), target.head) - target.goal
            mine.net.descend(h, weight * gap @ target.head.mT)

    @party_step
    def fit_paper(self, mine: Mine, turn: Turn, target: PaperTarget) -> None:
        """Take the steps of ``fit`` from the paper's message."""
        self.fit(mine, turn, Target(target.residual - target.dual / self.rho, target.head))

    # owner: holds y and the heads

    def start(self, owner: Owner) -> None:
        """Heads, and a dual for every row of the training table."""
        owner.heads = new_heads(owner, self.embedding, fan_in=self.embedding)
        owner.optimizer = self.owner_optimizer([owner.heads])
        owner.dual = torch.zeros(owner.rows, owner.outputs)

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Algorithm 2: z, dual, heads at the owner; then tau steps at every party."""
        h = torch.stack([reply.h for reply in parties.ask(self.embed, turn)])
        with torch.no_grad():
            y, at = owner.labels(turn), owner.places(turn)
            dual = owner.dual.index_select(0, at)
            o = h @ owner.heads
            total = o.sum(0)
            z = owner.task.prox(total, dual, y, self.rho)  # eq. 6
            dual += self.rho * (total - z)  # eq. 7
            owner.dual.index_copy_(0, at, dual)
            owner.heads.grad = h.mT @ (dual + self.rho * (total - z)) / len(y)  # eq. 8
            owner.optimizer.step()
            residual = z - (total - o)  # eq. 9, see above
        self._send(owner, parties, turn, dual, residual)
        return owner.task.loss(total, y)

    def _send(self, owner: Owner, parties: Parties, turn: Turn, dual: Tensor, residual: Tensor) -> None:
        heads = owner.heads.detach()
        if self.messages == "paper":
            paper = [PaperTarget(dual, s, head) for s, head in zip(residual, heads, strict=True)]
            parties.tell(self.fit_paper, turn, each=paper)
        else:
            goals = residual - dual / self.rho
            parties.tell(self.fit, turn, each=[Target(*pair) for pair in zip(goals, heads, strict=True)])
