"""SplitNN: parties send embeddings, the owner's top net reads them side by side.

Vepakomma, Gupta, Swedish, Raskar: *Split learning for health*, 2018; with vertically split data
as in PyVertical (Romanini et al., 2021).

====================  ==========================================================
paper                 here
====================  ==========================================================
cut-layer activations ``h_k``, message ``Embedding.h``
server network        ``owner.top``: two linear layers over all h_k side by side
gradient at the cut   message ``Gradient.slope``
====================  ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.core.disclosure import Disclosure
from colonnade.core.method import Owner, Parties, Turn, register
from colonnade.errors import ConfigError
from colonnade.methods.side_by_side import SideBySide
from colonnade.methods.steps import learn, leaves


@register
@dataclass(frozen=True, kw_only=True)
class SplitNN(SideBySide):
    """Concatenated embeddings under one top net; one step per round."""

    name: ClassVar[str] = "splitnn"
    summary: ClassVar[str] = "embeddings side by side under the owner's top net"

    party_rounds: int | None = None
    """In how many rounds the parties learn; then only the top net does, and nothing is sent down. None is all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.party_rounds is not None and self.party_rounds < 0:
            raise ConfigError(
                f"splitnn: party_rounds={self.party_rounds} is out of range; give 0 or more, or leave it out."
            )

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """No gradients, if the parties never learn."""
        return tuple(one for one in super().disclosures if one.way == "up" or self.party_rounds != 0)

    @property
    def sends(self) -> tuple[str, str]:
        """Gradients only while the parties learn."""
        return self.party_sends, "nothing" if self.party_rounds == 0 else self.owner_sends

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up, one step of the top net, the gradients of the embeddings down while the parties learn."""
        taught = self.party_rounds is None or turn.round < self.party_rounds
        labels = owner.labels(turn) if taught else owner.own_labels(turn)  # nothing of the latter reaches anybody
        h = leaves(parties.ask(self.embed, turn))
        loss = owner.task.loss(owner.top(torch.cat(h, dim=-1)), labels)
        gradients = learn(loss, h, owner.optimizer)
        if taught:
            parties.tell(self.follow, turn, each=gradients)
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top net on everybody's embeddings."""
        return owner.top(torch.cat([reply.h for reply in parties.ask(self.embed, turn)], dim=-1))  # type: ignore[no-any-return]
