"""What the owner of ``oneshot`` makes of the parties' replies: one wide table, with missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from colonnade.core.method import Owner, Parties, Turn
from colonnade.errors import MessageError
from colonnade.methods.steps import Embedding, Gradient

MOST_OF_A_SCORE = 1000.0  # with noise and rounding


def others_of(owner: Owner, parties: Parties) -> list[int]:
    """The parties to ask: all that are not the owner's own part and not absent."""
    return [k for k in range(len(parties)) if k not in parties.home and k not in owner.absent]


def wide_table(
    owner: Owner, parties: Parties, turn: Turn, own: Sequence[Tensor], came: Mapping[int, Tensor], width: int
) -> Tensor:
    """The owner's columns and all that came, side by side; NaN for rows that a party does not have."""
    known, parts = owner.known(turn), list(own)
    for k in (k for k in range(len(parties)) if k not in parties.home):
        h = came.get(k, torch.zeros(len(turn.rows), width))
        check_scores(parties.names[k], h)
        parts.append(torch.where(known[k][:, None], h, torch.nan))
    return torch.cat(parts, dim=1).detach()


def check_scores(party: str, h: Tensor) -> None:
    """Refuse scores that no learner gives."""
    if h.numel() and float(h.abs().max()) > MOST_OF_A_SCORE:
        raise MessageError(
            f"'{party}' sent the score {float(h.abs().max()):g}; scores lie within {MOST_OF_A_SCORE:g}, so its learner "
            "or its columns have gone astray."
        )


def slopes_of(owner: Owner, replies: Sequence[Embedding], turn: Turn) -> list[Gradient]:
    """The gradient of the owner's loss by each party's numbers, under a head that is drawn for it."""
    with owner.randomness.drawing("heads", turn.round), torch.enable_grad():
        each = [reply.h.detach().requires_grad_() for reply in replies]
        heads = [torch.randn(h.shape[1], owner.outputs) / h.shape[1] ** 0.5 for h in each]
        total = torch.stack([h @ head for h, head in zip(each, heads, strict=True)]).sum(0) / len(each)
        owner.loss(total, turn).backward()
    return [Gradient(cast(Tensor, h.grad)) for h in each]
