"""TVFL: SplitNN training, and then the owner predicts alone with made-up embeddings of the others.

The baselines TVFL-0, TVFL-A and TVFL-R of the APFed paper: what happens to typical vertical federated learning when
nobody answers any more.

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
import torch.nn.functional as F
from torch import Tensor, nn

from colonnade.errors import unknown
from colonnade.method import Method, Owner, Parties, Turn, register
from colonnade.methods.steps import embed, follow, learn, leaves
from colonnade.schedule import derive_seed

FILLS = ("zero", "mean", "random", "none")


@register
@dataclass(frozen=True, kw_only=True)
class TVFL(Method):
    """Concatenated embeddings under one top net; predictions with the others' embeddings filled in."""

    name: ClassVar[str] = "tvfl"
    summary: ClassVar[str] = "splitnn whose owner predicts alone with the others filled in (split with owner='first')"
    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "gradients of embeddings"
    needs_owner_columns: ClassVar[bool] = True
    alone: ClassVar[str] = "unless fill='none'"
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden")

    hidden: int = 60
    fill: str = "zero"

    embed = staticmethod(embed)
    follow = staticmethod(follow)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fill not in FILLS:
            raise unknown("fill of tvfl", self.fill, FILLS)

    @property
    def predicts_alone(self) -> bool:
        """Whether the others are filled in anyway."""
        return self.fill != "none"

    def start(self, owner: Owner) -> None:
        """The top net."""
        owner.top = nn.Sequential(
            nn.Linear(owner.parties * self.embedding, self.hidden), nn.ReLU(), nn.Linear(self.hidden, owner.classes)
        )
        owner.optimizer = self.owner_optimizer(owner.top.parameters())

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Embeddings up, gradients down."""
        h = leaves(parties.ask(self.embed, turn))
        loss = F.cross_entropy(owner.top(torch.cat(h, dim=-1)), owner.labels(turn))
        parties.tell(self.follow, turn, each=learn(loss, h, owner.optimizer))
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The top net on the owner's embeddings and what stands for the others'."""
        asked = None if self.fill == "none" else [0]
        known = [reply.h for reply in parties.ask(self.embed, turn, to=asked)]
        missing = [self._filled(owner, known[0], turn, k) for k in range(len(known), len(parties))]
        return owner.top(torch.cat([*known, *missing], dim=-1))  # type: ignore[no-any-return]

    def _filled(self, owner: Owner, own: Tensor, turn: Turn, party: int) -> Tensor:
        if self.fill == "zero":
            return torch.zeros_like(own)
        if self.fill == "mean":
            return torch.full_like(own, float(own.mean()))
        seed = derive_seed(owner.seed, "fill", party, turn.round, turn.rows[:1].tolist())
        drawn = torch.rand(own.shape, generator=torch.Generator().manual_seed(seed))
        return own.min() + (own.max() - own.min()) * drawn
