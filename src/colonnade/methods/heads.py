"""Linear heads, one per party, that live at the owner."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from colonnade.method import Owner


def new_heads(owner: Owner, embedding: int, fan_in: int) -> nn.Parameter:
    """Heads W_k [E, C] without bias, one per party, uniform within 1/sqrt(fan_in) as torch's linear layers are."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(owner.parties, embedding, owner.classes).uniform_(-bound, bound))


def head_norms(heads: Tensor) -> Tensor:
    """|W_k| for every party: who matters."""
    return heads.detach().square().sum((-1, -2)).sqrt()
