"""Linear heads at the owner, one per party: the predictions and the refitting of VIMSGD and VIMADMM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from colonnade.core.method import Method, Owner, Parties, Turn
from colonnade.methods.steps import Embedding

REFIT_STEPS, REFIT_HOLD = 30, 0.01


@dataclass(frozen=True, kw_only=True)
class OwnerHeads(Method):
    """A head per party above its embeddings; how a round trains them is the method's own."""

    refits: ClassVar[bool] = True
    embed: ClassVar[Callable[..., Embedding]]

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """V = sum_k h_k W_k."""
        return (torch.stack([reply.h for reply in parties.ask(self.embed, turn)]) @ owner.heads).sum(0)  # type: ignore[no-any-return]

    def refit(self, owner: Owner, outputs: Tensor, turn: Turn, here: list[int]) -> None:
        """Fit the heads of the parties that are present to the labels, without the absent ones."""
        _refit(owner, outputs, turn, here)

    def importance(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """|W_k| for every party."""
        return owner.heads.detach().square().sum((-1, -2)).sqrt()  # type: ignore[no-any-return]


def new_heads(owner: Owner, embedding: int, fan_in: int) -> nn.Parameter:
    """Heads W_k [E, C] without bias, one per party, uniform within 1/sqrt(fan_in) as torch's linear layers are."""
    bound = fan_in**-0.5
    return nn.Parameter(torch.empty(owner.parties, embedding, owner.outputs).uniform_(-bound, bound))


def _refit(owner: Owner, outputs: Tensor, turn: Turn, here: list[int]) -> None:
    """Fit the heads of the parties ``here`` in place, by the task's loss on stored outputs [M, rows, E].

    One batch is few rows for many weights, so a penalty keeps the fit near the trained heads.
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
