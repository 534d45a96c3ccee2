"""TVFL: SplitNN training, and then the owner predicts alone with made-up embeddings of the others.

The baselines TVFL-0, TVFL-A and TVFL-R of the APFed paper: typical vertical federated learning whose parties no longer
answer when the owner wants predictions.

====================  ==========================================================
paper                 here
====================  ==========================================================
TVFL-0                ``fill="zero"``
TVFL-A                ``fill="mean"``: one number, the mean of the owner's own embeddings of the rows asked for together
TVFL-R                ``fill="random"``: uniform between their least and greatest entry
(all clients answer)  ``fill="none"``: the embeddings themselves, as ``splitnn``
====================  ==========================================================

So ``mean`` and ``random`` depend on which rows are asked for together, as in the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.core.method import Owner, Parties, Turn, register
from colonnade.methods.side_by_side import SideBySide
from colonnade.methods.steps import learn, leaves


@register
@dataclass(frozen=True, kw_only=True)
class TVFL(SideBySide):
    """Concatenated embeddings under one top net; predictions with the others' embeddings filled in."""

    name: ClassVar[str] = "tvfl"
    summary: ClassVar[str] = "splitnn whose owner predicts alone with the others filled in (split with owner='first')"
    needs_owner_columns: ClassVar[bool] = True
    alone: ClassVar[str] = "unless fill='none'"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"fill": ("zero", "mean", "random", "none")}

    fill: str = "zero"

    @property
    def predicts_alone(self) -> bool:
        """Whether the other parties' embeddings are filled in, so that nobody is asked."""
        return self.fill != "none"

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """SplitNN's round: embeddings up, one step of the top net, the gradients of the embeddings down."""
        h = leaves(parties.ask(self.embed, turn))
        loss = owner.loss(owner.top(torch.cat(h, dim=-1)), turn)
        parties.tell(self.follow, turn, each=learn(loss, h, owner.optimizer))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top net on the owner's embeddings and the filled-in embeddings of the other parties."""
        asked = None if self.fill == "none" else [0]
        known = [reply.h for reply in parties.ask(self.embed, turn, to=asked)]
        missing = [self._filled(owner, known[0], turn, k) for k in range(len(known), len(parties))]
        return owner.top(torch.cat([*known, *missing], dim=-1))  # type: ignore[no-any-return]

    def _filled(self, owner: Owner, own: Tensor, turn: Turn, party: int) -> Tensor:
        """A stand-in for one party's embeddings, of the shape of the owner's own."""
        if self.fill == "zero":
            return torch.zeros_like(own)
        if self.fill == "mean":
            return torch.full_like(own, float(own.mean()))
        generator = owner.randomness.generator("fill", party, turn.round, turn.rows[:1].tolist())
        drawn = torch.rand(own.shape, generator=generator).to(own.device)
        return own.min() + (own.max() - own.min()) * drawn
