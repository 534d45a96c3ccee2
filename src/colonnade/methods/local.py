"""Local (SingleVL): the owner trains on its own columns and sends no messages.

The baseline of the VFedMH and APFed papers (SingleVL): what the owner has without any partner. The head is a linear
layer; ``hidden`` puts a hidden layer before it and ``dropout`` drops its inputs, as in the APFed paper's task net.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from colonnade.core.method import Builder, Method, Mine, Owner, Part, Parties, Turn, owner_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.methods.steps import Gradient, Logits, check_task_net, follow, logits, slope, task_net


@register
@dataclass(frozen=True, kw_only=True)
class Local(Method):
    """The owner alone, one step per round, no bytes."""

    name: ClassVar[str] = "local"
    summary: ClassVar[str] = "the owner alone with its own columns (split with owner='first')"
    party_sends: ClassVar[str] = "nothing"
    owner_sends: ClassVar[str] = "nothing"
    labels: ClassVar[str] = "unsent"
    needs_owner_columns: ClassVar[bool] = True
    alone: ClassVar[str] = "always"
    partial_rows: ClassVar[bool] = True

    hidden: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_task_net(self.name, self.hidden, self.dropout)

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """The whole model, head included, under one optimiser."""
        net, task = build(self.embedding), task_net(self.embedding, self.hidden, self.dropout, outputs)
        return {"net": Part(nn.Sequential(net, task), optimizer)}

    @owner_step
    def logits(self, mine: Mine, turn: Turn) -> Logits:
        """The logits of the owner's own columns, kept for their gradient."""
        return logits(mine, turn)

    @owner_step
    def follow(self, mine: Mine, turn: Turn, gradient: Gradient) -> None:
        """One optimiser step along the gradient."""
        follow(mine, turn, gradient)

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """One step at the owner's own columns, which are party 0."""
        (mine,) = parties.ask(self.logits, turn, to=[0])
        scores = mine.o.requires_grad_()
        loss = owner.loss(scores, turn)
        parties.tell(self.follow, turn, each=[slope(loss, scores)], to=[0])
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The owner's own logits."""
        return parties.ask(self.logits, turn, to=[0])[0].o
