"""C-VFL: all sides take Q true steps while the others' embeddings and the top net's copy grow stale.

Castiglia, Das, Wang, Patterson: *Compressed-VFL: communication-efficient learning with vertically partitioned
data*, ICML 2022, Algorithm 1.

====================  ==========================================================
paper                 here
====================  ==========================================================
h_m(theta_m; X^B)     message ``Embedding.h`` [b, E]
C_m (compressors)     a seal on the messages, no part of the method
theta_0               ``owner.top``: two linear layers over all h_k side by side
Phi^{-m} (stale)      message ``Stale`` (see below), or ``PaperStale`` with ``messages="paper"``
Q                     ``local_steps``
y^B                   known to every party in the paper; here the gradient of the logits shows it
====================  ==========================================================

*Labels.* The paper gives the labels to all parties. Here they stay at the owner, which sends the gradient
(softmax - onehot(y)) / b of the top net's logits; a party that knows the logits reads the labels from it, exactly
unless a lossy seal lies between. So this method shows the labels, as it must.

*Messages.* The paper sends every party all embeddings and the whole top net. But the first layer is linear:
party k needs only what the others' embeddings add up to behind it, A_k, and the layers above. That is
``messages="compact"``: the same steps from under a third of the numbers with four parties, and no party sees
another's embeddings. It differs from party to party, so it is no broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from colonnade.core.method import Disclosure, Method, Mine, Owner, Parties, Turn, party_step, register
from colonnade.methods.declarations import of_embeddings, of_labels
from colonnade.methods.steps import embed, labels_told, learn, slope, why_not_weighted


class Stale(NamedTuple):
    """The top net's first layer on the others' embeddings, and the weights that party k needs to go on from it."""

    h_others: Tensor  # [rows, hidden], before the ReLU, bias included
    block: Tensor  # A_k [E, hidden]
    top: Tensor  # [classes, hidden]
    bias: Tensor  # [classes]
    slope: Tensor  # [rows, classes], gradient of the logits


class PaperStale(NamedTuple):
    """All embeddings and the whole top net, and which of them are party k's."""

    h: Tensor  # [rows, parties, E]
    blocks: Tensor  # [parties, E, hidden]
    block_bias: Tensor  # [hidden]
    top: Tensor
    bias: Tensor
    slope: Tensor
    place: Tensor  # [parties], one for party k, zero for the others


@register
@dataclass(frozen=True, kw_only=True)
class CVFL(Method):
    """SplitNN's networks with Q local steps, each through a copy of the top net."""

    name: ClassVar[str] = "cvfl"
    summary: ClassVar[str] = "several local steps through a copy of the top net"
    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "the others' part, a copy of the top net, gradients of logits"
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden", "local_steps")
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"messages": ("compact", "paper")}

    with_sgd: ClassVar[dict[str, float]] = {"lr": 0.02}
    with_adam: ClassVar[dict[str, float]] = {"lr": 0.0003}  # several steps a round go as far as one
    hidden: int = 60
    local_steps: int = 5
    messages: str = "compact"

    embed = staticmethod(embed)

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Embeddings go to the owner and on to the other parties; gradients of logits show labels."""
        fit = "fit" if self.messages == "compact" else "fit_paper"
        return of_embeddings("embed"), of_labels(fit), of_embeddings(fit, "down")

    def why_not(self, task: str, *, weighted: bool) -> str:
        """With weighted rows only one local step works."""
        return super().why_not(task, weighted=weighted) or why_not_weighted(self.local_steps, weighted)

    # party: holds x_k and f_k

    @party_step
    def fit(self, mine: Mine, turn: Turn, stale: Stale) -> None:
        """Q steps of f_k through the stale top net, on the labels that the gradient shows."""
        o = _scores(stale, mine.scratch.pop("output"))
        labels = labels_told(mine.task, o, stale.slope, len(turn.rows))
        for step in range(self.local_steps):
            o = _scores(stale, mine.net(mine.inputs(turn))) if step else o
            mine.net.descend(mine.task.party_loss(o, labels))

    @party_step
    def fit_paper(self, mine: Mine, turn: Turn, stale: PaperStale) -> None:
        """Take the steps of ``fit`` from the paper's message."""
        behind = torch.einsum("...bme,...meh->...mbh", stale.h, stale.blocks)
        others = torch.einsum("...m,...mbh->...bh", 1 - stale.place, behind) + stale.block_bias.unsqueeze(-2)
        block = torch.einsum("...m,...meh->...eh", stale.place, stale.blocks)
        self.fit(mine, turn, Stale(others, block, stale.top, stale.bias, stale.slope))

    # owner: holds y and the top net

    def start(self, owner: Owner) -> None:
        """The top net."""
        owner.first = nn.Linear(owner.parties * self.embedding, self.hidden)
        owner.last = nn.Linear(self.hidden, owner.outputs)
        owner.optimizer = self.owner_optimizer([*owner.first.parameters(), *owner.last.parameters()])

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Algorithm 1: embeddings up, the stale values down, Q steps at every side."""
        h = torch.stack([reply.h for reply in parties.ask(self.embed, turn)])
        o = self._top(owner, h).detach().requires_grad_()
        loss = owner.loss(o, turn)
        self._send(owner, parties, turn, h, slope(loss, o).slope)
        for _ in range(self.local_steps):
            learn(owner.loss(self._top(owner, h), turn), [], owner.optimizer)
        return loss.detach()

    def _top(self, owner: Owner, h: Tensor) -> Tensor:
        return owner.last(torch.relu(owner.first(torch.cat(list(h), dim=-1))))  # type: ignore[no-any-return]

    @torch.no_grad()
    def _send(self, owner: Owner, parties: Parties, turn: Turn, h: Tensor, error: Tensor) -> None:
        blocks = owner.first.weight.mT.reshape(len(h), self.embedding, self.hidden)
        above = owner.last.weight, owner.last.bias, error
        if self.messages == "paper":
            paper = [
                PaperStale(h.transpose(0, 1), blocks, owner.first.bias, *above, place) for place in torch.eye(len(h))
            ]
            parties.tell(self.fit_paper, turn, each=paper)
        else:
            behind = h @ blocks
            others = behind.sum(0) + owner.first.bias - behind
            parties.tell(self.fit, turn, each=[Stale(*own, *above) for own in zip(others, blocks, strict=True)])

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top net on everybody's embeddings."""
        return self._top(owner, torch.stack([reply.h for reply in parties.ask(self.embed, turn)]))


def _scores(stale: Stale, h: Tensor) -> Tensor:
    return torch.relu(stale.h_others + h @ stale.block) @ stale.top.mT + stale.bias.unsqueeze(-2)
