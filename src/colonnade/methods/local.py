"""Local (SingleVL): the owner trains on its own columns and sends no messages.

The baseline of the VFedMH and APFed papers (SingleVL): what the owner has without any partner. The head is a linear
layer; ``hidden`` puts a hidden layer before it and ``dropout`` drops its inputs, as in the APFed paper's task net.

With ``learner`` there is no network: the learner is fitted once to all rows, as the owner of ``oneshot`` fits its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from colonnade.core.method import Builder, Method, Mine, Owner, Part, Parties, Turn, owner_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.errors import ConfigError
from colonnade.learners import make_learner
from colonnade.methods.owner_fits import fit_at_owner
from colonnade.methods.steps import Embedding, Gradient, Logits, check_task_net, follow, logits, slope, task_net


@register
@dataclass(frozen=True, kw_only=True)
class Local(Method):
    """The owner alone, one step per round or one fit, no bytes."""

    name: ClassVar[str] = "local"
    summary: ClassVar[str] = "the owner alone with its own columns (split with owner='first')"
    party_sends: ClassVar[str] = "nothing"
    owner_sends: ClassVar[str] = "nothing"
    disclosures = ()
    needs_owner_columns: ClassVar[bool] = True
    alone: ClassVar[str] = "always"
    partial_rows: ClassVar[bool] = True

    learner: str = ""
    hidden: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_task_net(self.name, self.hidden, self.dropout)
        if self.learner:
            make_learner(self.learner)
        if self.learner and (self.hidden or self.dropout):
            raise ConfigError(
                f"{self.name}: hidden={self.hidden}, dropout={self.dropout} are of a network, and with "
                f"learner='{self.learner}' there is none; leave one of them out."
            )

    @property
    def whole_rounds(self) -> bool:
        """A learner is fitted to all rows in one go."""
        return bool(self.learner)

    @property
    def usual_rounds(self) -> int | None:
        """Once, with a learner."""
        return 1 if self.learner else None

    @property
    def most_rounds(self) -> int | None:
        """A learner that was fitted has nothing left to do."""
        return 1 if self.learner else None

    def kind_of(self, party: int) -> int | None:
        """With a learner there is no network that could be computed together with others."""
        return party if self.learner else None

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The whole model, head included, under one optimiser; a learner needs no network."""
        if self.learner:
            return {}
        net, task = build(self.embedding), task_net(self.embedding, self.hidden, self.dropout, outputs)
        return {"net": Part(nn.Sequential(net, task), optimizer)}

    @owner_step
    def logits(self, mine: Mine, turn: Turn) -> Logits:
        """The logits of the owner's own columns, kept for their gradient."""
        return logits(mine, turn)

    @owner_step
    def columns(self, mine: Mine, turn: Turn) -> Embedding:
        """The owner's own columns, for its learner."""
        return Embedding(mine.inputs(turn).flatten(1))

    @owner_step
    def follow(self, mine: Mine, turn: Turn, gradient: Gradient) -> None:
        """One optimiser step along the gradient."""
        follow(mine, turn, gradient)

    def start(self, owner: Owner) -> None:
        """A learner has learnt nothing yet."""
        if self.learner:
            owner.learnt = {}

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """One step at the owner's own columns, which are party 0; or a learner is fitted to them."""
        if self.learner:
            return fit_at_owner(owner, self.learner, owner.learnt, parties.ask(self.columns, turn, to=[0])[0].h, turn)
        (mine,) = parties.ask(self.logits, turn, to=[0])
        scores = mine.o.requires_grad_()
        loss = owner.loss(scores, turn)
        parties.tell(self.follow, turn, each=[slope(loss, scores)], to=[0])
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The owner's own logits."""
        if self.learner:
            return make_learner(self.learner).outputs(owner.learnt, parties.ask(self.columns, turn, to=[0])[0].h)
        return parties.ask(self.logits, turn, to=[0])[0].o
