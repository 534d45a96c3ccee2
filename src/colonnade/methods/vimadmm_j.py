"""VIMADMM-J: ADMM without model splitting; heads live at the parties, the owner needs only a sum.

*Improving vertical federated learning by efficient communication with ADMM* (VIM), Algorithm 3.

====================  ==========================================================
paper                 here
====================  ==========================================================
o_j^k = h_j^k W_k     message ``Logits.o`` [b, C]; ``mine.net`` then ``mine.head``
z_j, lambda_j         ``z`` [b, C], ``owner.dual`` [N, C], kept per sample, zero at first
s_j^k (eq. 18)        the residual
rho, tau              ``rho``, ``local_steps``: each steps W_k and theta_k together
====================  ==========================================================

The paper steps W_k first and then theta_k with the new W_k. That was worse on the
one seed of ``benchmarks/orders.py`` and amplifies rounding; the authors' code takes both gradients
from one backward pass. So do we.

``messages="compact"``: s_k - dual/rho = o_k + u with u = z - v - dual/rho, and party k knows its own
o_k. So the owner needs **only the sum** v and answers with **one broadcast** u.
``messages="paper"`` sees every o_k and sends every party its dual and residual.
Either way the dual is softmax(z) - onehot(y), so the answer shows the labels.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from colonnade.core.method import (
    Builder,
    Disclosure,
    Mine,
    Owner,
    Part,
    Parties,
    Turn,
    descend,
    party_step,
    register,
)
from colonnade.core.optim import OptimizerBuilder
from colonnade.methods.admm import ADMM
from colonnade.methods.declarations import of_logit_sums, of_nothing
from colonnade.methods.steps import Logits


class Gap(NamedTuple):
    """u = z - v - dual/rho: how every party's logits should change."""

    u: Tensor


class PaperResidual(NamedTuple):
    """The dual and a party's residual."""

    dual: Tensor
    residual: Tensor


class Norm(NamedTuple):
    """|W_k|."""

    norm: Tensor


@register
@dataclass(frozen=True, kw_only=True)
class VIMADMMJ(ADMM):
    """ADMM on the sum of logits; one message for all."""

    name: ClassVar[str] = "vimadmm-j"
    summary: ClassVar[str] = "ADMM on the sum of logits, heads at the parties"
    party_sends: ClassVar[str] = "logits (only their sum is used)"
    owner_sends: ClassVar[str] = "one gap of logits for all"
    sums: ClassVar[str] = "with messages='compact'"
    summed_steps: ClassVar[tuple[str, ...]] = ("logits",)

    @property
    def only_sums(self) -> bool:
        """The paper's messages need every party's own logits."""
        return self.messages == "compact"

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Logits, an answer that is made of duals, and how large a head is."""
        norm = of_nothing("head_norm", "up", "columns", "one number about a network")
        return *of_logit_sums("logits", self.fit_step, blindable=self.only_sums), norm

    # party: holds x_k, f_k and W_k

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The network, and a head of its own without momentum."""
        head = nn.Linear(self.embedding, outputs, bias=False)
        return {"net": Part(build(self.embedding), optimizer), "head": Part(head, self.owner_optimizer)}

    @party_step
    def logits(self, mine: Mine, turn: Turn) -> Logits:
        """o_k = f_k(x_k) W_k."""
        with torch.no_grad():
            mine.scratch["o"] = o = mine.head(mine.net(mine.inputs(turn)))
        return Logits(o)

    @party_step
    def fit(self, mine: Mine, turn: Turn, gap: Gap) -> None:
        """Tau steps on eq. 19 and 20 towards t_k = o_k + u, mean over rows."""
        self._fit(mine, turn, mine.scratch.pop("o") + gap.u)

    @party_step
    def fit_paper(self, mine: Mine, turn: Turn, target: PaperResidual) -> None:
        """Take the steps of ``fit`` from the paper's message."""
        self._fit(mine, turn, target.residual - target.dual / self.rho)

    def _fit(self, mine: Mine, turn: Turn, goal: Tensor) -> None:
        x, weight = mine.inputs(turn), self.rho / (2 * len(turn.rows))
        for _ in range(typing.cast(int, self.local_steps)):
            gap = mine.head(mine.net(x)) - goal
            descend(weight * gap.square().sum((-1, -2)), mine.net, mine.head)

    @party_step
    def head_norm(self, mine: Mine, turn: Turn) -> Norm:
        """How large this party's head is."""
        return Norm(mine.head.parameters[0].detach().square().sum((-1, -2)).sqrt())

    # owner: holds y

    def start(self, owner: Owner) -> None:
        """A dual for every row of the training table."""
        owner.dual = torch.zeros(owner.rows, owner.outputs)

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Algorithm 3: the sum up, one gap down."""
        if self.messages == "paper":
            return self._paper_round(owner, parties, turn)
        total = parties.sum(self.logits, turn).o
        z, dual = self.solve(owner, turn, total)
        parties.tell(self.fit, turn, all=Gap(z - total - dual / self.rho))
        return owner.loss(total, turn)

    def _paper_round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        o = torch.stack([reply.o for reply in parties.ask(self.logits, turn)])
        total = o.sum(0)
        z, dual = self.solve(owner, turn, total)
        parties.tell(self.fit_paper, turn, each=[PaperResidual(dual, s) for s in z - (total - o)])  # eq. 18
        return owner.loss(total, turn)

    def solve(self, owner: Owner, turn: Turn, total: Tensor) -> tuple[Tensor, Tensor]:
        """Z by eq. 16 and the dual by eq. 17."""
        at = owner.places(turn)
        dual = owner.dual.index_select(0, at)
        z = owner.task.prox(total, dual, owner.labels(turn), self.rho)
        dual += self.rho * (total - z)
        owner.dual.index_copy_(0, at, dual)
        return z, dual

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """V = sum_k o_k."""
        return parties.sum(self.logits, turn).o

    def importance(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The norm of each party's head, for which the parties are asked."""
        return torch.stack([reply.norm for reply in parties.ask(self.head_norm, turn)])
