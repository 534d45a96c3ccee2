"""GAL: the owner sends what is still wrong, every party fits it with a learner, and the owner weighs the fits.

Diao, Ding, Tarokh: *GAL: Gradient Assisted Learning for Decentralized Multi-Organization Collaborations*, NeurIPS 2022,
Algorithm 1. Gradient boosting whose weak learner is all parties together; a party's learner may be any.

=====================  ==============================================================================
paper                  here
=====================  ==============================================================================
F^t(x), organisation   ``owner.total`` [rows, outputs]; it starts from 0, which of standardised values
Alice                  is the mean (the paper: E[y])
r^t, pseudo-residual   ``Residual.slope``, the negative gradient of each row's loss by F
f_m^t(x_m)             ``Fit.slope``, of a learner that is fitted to r^t by the squared loss
w^t, on the simplex    ``weights_of``: least squares of r^t by the fits
eta^t                  ``step_along``: the loss of F + eta sum_m w_m f_m is least
=====================  ==============================================================================

A party is told eta^t w_m^t and keeps it with its fit, so it answers a prediction with its part of F in one message. A
row that a party does not have gets nothing from it, and so does every row if the party is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from colonnade.core.method import Builder, Disclosure, Method, Mine, Owner, Part, Parties, Turn, party_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.state import under
from colonnade.core.task import Values
from colonnade.learners import make_learner
from colonnade.methods.assistance import step_along, weights_of
from colonnade.methods.declarations import of_labels, of_logits, of_nothing, of_numbers, of_predictions
from colonnade.methods.gathering import check_scores
from colonnade.methods.party_fits import draw_seed
from colonnade.methods.steps import Logits


class Residual(NamedTuple):
    """r^t [rows, outputs]: what is still wrong with the owner's outputs."""

    slope: Tensor


class Fit(NamedTuple):
    """f_m^t(x_m) [rows, outputs]: what a party's learner makes of it."""

    slope: Tensor


class FitShare(NamedTuple):
    """eta^t w_m^t: how much of a party's fit was added to the outputs."""

    factor: Tensor


@register
@dataclass(frozen=True, kw_only=True)
class GAL(Method):
    """Assisted gradient boosting: residuals down, fits up, about ten rounds."""

    name: ClassVar[str] = "gal"
    summary: ClassVar[str] = "gradient boosting: every party fits the owner's residuals with a learner"
    party_sends: ClassVar[str] = "its fit of the residuals; in a prediction its weighted fits"
    owner_sends: ClassVar[str] = "residuals, the same for all, and a weight"
    partial_rows: ClassVar[bool] = True
    any_subset: ClassVar[bool] = True

    learner: str = "trees(iterations=30, rate=0.1)"

    def __post_init__(self) -> None:
        super().__post_init__()
        make_learner(self.learner)

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Residuals show labels, and of others' columns what these predict; fits show columns, linear ones the most."""
        of_fit = of_numbers if self.learner.startswith("linear") else of_logits
        share = of_nothing("keep", "down", "labels", "one number about all rows")
        return of_labels("assist"), of_predictions("assist"), of_fit("assist"), of_fit("add_up"), share

    @property
    def whole_rounds(self) -> bool:
        """All rows: a learner is fitted in one go."""
        return True

    @property
    def usual_rounds(self) -> int | None:
        """As many as in the paper."""
        return 10

    @property
    def most_rounds(self) -> int | None:
        """So many that a party's memory stays bounded."""
        return 100

    @property
    def rehearsed(self) -> Self:
        """With a learner that is quick: what is sent does not depend on it."""
        return replace(self, learner="linear")

    def linear_numbers(self, outputs: int) -> int | None:
        """With a linear learner every round shows other sums of a party's columns."""
        return 100 * outputs if self.learner.startswith("linear") else 0

    def kind_of(self, party: int) -> int:
        """Every party is computed by itself: learners do not stack."""
        return party

    # party: holds x_m

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """No network."""
        return {}

    @party_step
    def assist(self, mine: Mine, turn: Turn, sent: Residual) -> Fit:
        """Fit the residuals of the rows that this party has, and show the fit."""
        known, learner = mine.known(turn), make_learner(self.learner)
        x, fit = mine.inputs(turn)[known].flatten(1), torch.zeros_like(sent.slope)
        state = learner.fit(x, sent.slope[known], Values(mine.task.outputs), draw_seed())
        mine.memory = mine.memory | {f"{turn.round:04d}/{name}": value for name, value in state.items()}
        fit[known] = learner.outputs(state, x)
        return Fit(fit)

    @party_step
    def keep(self, mine: Mine, turn: Turn, share: FitShare) -> None:
        """Remember how much of the fit counts."""
        mine.memory = mine.memory | {f"{turn.round:04d}/factor": share.factor}

    @party_step
    def add_up(self, mine: Mine, turn: Turn) -> Logits:
        """This party's part of the outputs: the sum of all its fits, each with its share."""
        learner, x = make_learner(self.learner), mine.inputs(turn).flatten(1)
        total = torch.zeros(len(x), mine.task.outputs)
        for number in sorted({name.partition("/")[0] for name in mine.memory}):
            state = under(mine.memory, number)
            factor = state.pop("factor", torch.zeros(1))  # a fit whose share was never told counts for nothing
            total += factor * learner.outputs(state, x)
        return Logits(torch.where(mine.known(turn)[:, None], total, 0.0))

    # owner: holds y

    def start(self, owner: Owner) -> None:
        """Outputs of all training rows, which are nothing yet."""
        owner.total = torch.zeros(owner.rows, owner.outputs)

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Residuals go down, fits come up, and the best step along their best mix is taken."""
        here = [k for k in range(len(parties)) if k not in owner.absent]
        before, y = owner.total[turn.rows], owner.labels(turn)
        if not here:
            return owner.task.loss(before, y)
        residual = Residual(-owner.task.error(before, y).float())
        replies = parties.ask(self.assist, turn, all=residual, to=here)
        for k, reply in zip(here, replies, strict=True):
            check_scores(parties.names[k], reply.slope)
        fits = self._known(owner, turn, here, [reply.slope for reply in replies])
        weights = weights_of(fits, residual.slope)
        direction = torch.einsum("k,knc->nc", weights, fits)
        step = step_along(before, direction, y, owner.task)
        owner.total[turn.rows] = after = before + step * direction
        parties.tell(self.keep, turn, each=[FitShare((step * weight).reshape(1)) for weight in weights], to=here)
        return owner.task.loss(after, y)

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The sum of the parties' parts."""
        here = [k for k in range(len(parties)) if k not in owner.absent]
        replies = parties.ask(self.add_up, turn, to=here)
        return self._known(owner, turn, here, [reply.o for reply in replies]).sum(0)

    def _known(self, owner: Owner, turn: Turn, here: list[int], came: list[Tensor]) -> Tensor:
        """What came [parties, rows, outputs], and nothing of rows that a party does not have."""
        fits = torch.stack(came) if came else torch.zeros(0, len(turn.rows), owner.outputs)
        return torch.where(owner.known(turn)[here][:, :, None], fits, 0.0).detach()
