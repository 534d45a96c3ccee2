"""Linear heads, one per party, that live at the owner."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from colonnade.method import Owner

REFIT_STEPS, REFIT_HOLD = 30, 0.01


def new_heads(owner: Owner, embedding: int, fan_in: int) -> nn.Parameter:
    """Heads W_k [E, C] without bias, one per party, uniform within 1/sqrt(fan_in) as torch's linear layers are."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(owner.parties, embedding, owner.classes).uniform_(-bound, bound))


def head_norms(heads: Tensor) -> Tensor:
    """|W_k| for every party: who matters."""
    return heads.detach().square().sum((-1, -2)).sqrt()


def refit_heads(heads: nn.Parameter, outputs: Tensor, targets: Tensor, here: list[int]) -> None:
    """Heads of those who are here, in place: cross-entropy on stored outputs [M, rows, E] without the others.

    One batch is few rows for many weights, so the fit is held near the heads as they were trained.
    """
    h, before = outputs[here], heads.detach()[here].clone()
    fitted = before.clone().requires_grad_()
    solver = torch.optim.LBFGS([fitted], max_iter=REFIT_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        misfit = nn.functional.cross_entropy((h @ fitted).sum(0), targets.float())
        total: Tensor = misfit + REFIT_HOLD / 2 * (fitted - before).square().sum()
        total.backward()
        return total

    with torch.enable_grad():
        solver.step(loss)
    with torch.no_grad():
        heads[here] = fitted
