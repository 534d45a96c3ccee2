"""APFed: parties help to train the owner's model, and the owner predicts alone.

Liu et al.: *Active-passive federated learning for vertically partitioned multi-view data*, arXiv 2409.04111,
Algorithm 1, with the reconstruction loss (APFed-R, eq. 12) and the contrastive loss (APFed-C, eq. 13 to 16).

====================  ==========================================================
paper                 here
====================  ==========================================================
active client C_A     the owner, which is also party 0: split with ``owner="first"``
f, h^A (eq. 5)        ``mine.net`` at party 0, message ``Embedding.h`` [b, E], the same for all
g (task module)       ``mine.nets["task"]`` at party 0: ``hidden`` and ``dropout`` of the paper are 0 or 256, and 0.5
L_p (eq. 7)           ``loss``, or one per passive party in ``losses``; ``methods/passive.py`` says how to write one
lambda_p (eq. 8)      ``weight``, or one per passive party in ``weights``
dL_p/dh^A (eq. 9)     message ``Gradient.slope``, already times lambda_p; the owner needs only the sum
DEC_p, ENC_p          ``mine.decoder``, ``mine.net`` at party p
tau                   ``temperature``
====================  ==========================================================

L_p is over the rows that party p has, the owner's loss over all; other rows have no gradient of L_p. A passive party
steps along its own loss, without lambda_p (eq. 10). With all lambda_p = 0 the model is ``local``'s.

*Where the authors' code differs.* Its APFed-C compares linear projections of 64 numbers and sends only the owner's; the
paper compares the embeddings themselves, as we do. ``projection=64`` puts both linear layers at the passive party, as
one message goes to all. The reconstruction loss is their mean over all entries. h^A is an embedding, not a feature map.
*Contributions.* ``contribution_every=5`` measures what leaving a party's gradient out does to held-out rows, in every
fifth round and at no byte (``methods/contribution.py``, ``run.importance()``). It cannot be blinded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor

from colonnade.core.method import Builder, Method, Mine, Owner, Part, Parties, Turn, register, take_step
from colonnade.core.optim import OptimizerBuilder
from colonnade.core.step import owner_step, party_step
from colonnade.methods.choices import as_tuple, check_choices, check_count, check_rows, of_party
from colonnade.methods.contribution import mean_contributions, measure, shift, steepest, uphill
from colonnade.methods.declarations import of_embeddings, of_slopes, of_training
from colonnade.methods.passive import find_loss
from colonnade.methods.steps import Embedding, Gradient, check_task_net, slope, task_net


class Answer(NamedTuple):
    """h_A [rows, E] and its logits [rows, C]; never leaves the owner."""

    h: Tensor
    o: Tensor


@register
@dataclass(frozen=True, kw_only=True)
class APFed(Method):
    """The owner's model with the passive parties' gradients of its embedding; it predicts alone."""

    name: ClassVar[str] = "apfed"
    summary: ClassVar[str] = "parties help in training, the owner predicts alone (split with owner='first')"
    party_sends: ClassVar[str] = "gradients of the owner's embedding (only their sum is used)"
    owner_sends: ClassVar[str] = "its embedding, the same for all"
    disclosures = of_embeddings("assist", "down"), of_training("assist"), of_slopes("assist")
    needs_owner_columns: ClassVar[bool] = True
    alone: ClassVar[str] = "always"
    partial_rows: ClassVar[bool] = True
    sums: ClassVar[str] = "always"
    summed_steps: ClassVar[tuple[str, ...]] = ("assist",)
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "temperature")

    loss: str = "reconstruction"
    losses: tuple[str, ...] = ()
    weight: float = 1.0
    weights: tuple[float, ...] = ()
    temperature: float = 1.0
    projection: int = 0
    hidden: int = 0
    dropout: float = 0.0
    contribution_every: int = 0

    uphill = staticmethod(uphill)
    shift = staticmethod(shift)

    def __post_init__(self) -> None:
        for name in ("losses", "weights"):
            object.__setattr__(self, name, as_tuple(getattr(self, name)))
        super().__post_init__()
        check_task_net(self.name, self.hidden, self.dropout)
        check_choices(self.name, vars(self))

    @property
    def only_sums(self) -> bool:
        """Whether the owner sees no party's gradient by itself."""
        return not self.contribution_every

    @property
    def rare_rounds(self) -> tuple[int, ...]:
        """The first round that measures contributions."""
        return (0,) if self.contribution_every else ()

    # passive party: holds x_p and the networks of its loss

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """Encoder and task net at the owner; at a passive party what its loss needs."""
        if build.party:
            return find_loss(self.kind_of(build.party)).parts(build, optimizer, self.embedding, self.projection)
        net, task = build(self.embedding), task_net(self.embedding, self.hidden, self.dropout, outputs)
        return {"net": Part(net, optimizer), "task": Part(task, optimizer)}

    def kind_of(self, party: int) -> str:
        """The party's loss."""
        return of_party(party, self.losses, self.loss)

    @party_step
    def assist(self, mine: Mine, turn: Turn, sent: Embedding) -> Gradient:
        """Take one step on L_p, and send lambda_p dL_p/dh_A."""
        gradient = find_loss(self.kind_of(mine.members[0])).descend(mine, turn, sent.h, vars(self))
        weights = gradient.new_tensor([of_party(k, self.weights, self.weight) for k in mine.members])
        return Gradient(weights.view(-1, *[1] * (gradient.ndim - 1)) * gradient)

    # owner: holds y, and as party 0 x_A, the encoder and the task net

    @owner_step
    def logits(self, mine: Mine, turn: Turn) -> Answer:
        """h_A and its logits; both are kept for the step along their gradients."""
        mine.scratch["h"] = h = mine.net(mine.inputs(turn))
        mine.scratch["o"] = o = mine.nets["task"](h)
        return Answer(h, o)

    @owner_step
    def follow(self, mine: Mine, turn: Turn, slopes: Answer) -> None:
        """One step of both nets along the gradients of h_A and of the logits."""
        outputs = [mine.scratch.pop("o"), mine.scratch.pop("h")]
        parameters = [*mine.net.parameters, *mine.nets["task"].parameters]
        gradients = torch.autograd.grad(outputs, parameters, [slopes.o, slopes.h], allow_unused=True)
        take_step(gradients, mine.net, mine.nets["task"])

    def check_batch(self, rows: int) -> None:
        """As many rows as every loss needs."""
        check_rows(self.losses or (self.loss,), rows)

    def start(self, owner: Owner) -> None:
        """The sum of the contributions measured so far, and how often they were measured."""
        check_count(self.name, owner.parties - 1, losses=self.losses, weights=self.weights)
        if self.contribution_every:
            owner.contributions, owner.measured = torch.zeros(owner.parties), torch.zeros(())

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Algorithm 1: h_A down, the sum of the gradients up, then the owner's own step."""
        measures = self.contribution_every and turn.round % self.contribution_every == 0
        direction = steepest(owner, parties, turn) if measures else None
        (mine,) = parties.ask(self.logits, turn, to=[0])
        passive, sent = range(1, len(parties)), Embedding(mine.h)
        if direction is None:
            total = parties.sum(self.assist, turn, all=sent, to=passive).slope
        else:
            slopes = [reply.slope for reply in parties.ask(self.assist, turn, all=sent, to=passive)]
            measure(owner, parties, turn, direction, slopes, cast(float, self.lr))
            total = sum(slopes[1:], slopes[0])
        o = mine.o.requires_grad_()
        loss = owner.loss(o, turn)
        parties.tell(self.follow, turn, all=Answer(total, slope(loss, o).slope), to=[0])
        return loss.detach()

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The owner's own logits; nobody else is asked."""
        return parties.ask(self.logits, turn, to=[0])[0].o

    def importance(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Mean rise of the held-out loss when the party's gradient is left out of one step."""
        return mean_contributions(owner, measured=bool(self.contribution_every and owner.measured))
