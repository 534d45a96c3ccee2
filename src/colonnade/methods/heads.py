"""Linear heads, one per party, that live at the owner."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from colonnade.method import Owner, Turn

REFIT_STEPS, REFIT_HOLD = 30, 0.01


def new_heads(owner: Owner, embedding: int, fan_in: int) -> nn.Parameter:
    """Heads W_k [E, C] without bias, one per party, uniform within 1/sqrt(fan_in) as torch's linear layers are."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(owner.parties, embedding, owner.outputs).uniform_(-bound, bound))


def head_norms(heads: Tensor) -> Tensor:
    """|W_k| for every party: who matters."""
    return heads.detach().square().sum((-1, -2)).sqrt()


def refit_heads(owner: Owner, outputs: Tensor, turn: Turn, here: list[int]) -> None:
    """Heads of those who are here, in place: the task's loss on stored outputs [M, rows, E] without the others.

    One batch is few rows for many weights, so the fit is held near the heads as they were trained.
    """
    h, before, targets = (
        outputs[here],
        owner.heads.detach()[here].clone(),
        owner.task.targets(owner.labels(turn)).float(),
    )
    fitted = before.clone().requires_grad_()
    solver = torch.optim.LBFGS([fitted], max_iter=REFIT_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        misfit = owner.task.loss((h @ fitted).sum(0), targets)
        total: Tensor = misfit + REFIT_HOLD / 2 * (fitted - before).square().sum()
        total.backward()
        return total

    with torch.enable_grad():
        solver.step(loss)
    with torch.no_grad():
        owner.heads[here] = fitted
