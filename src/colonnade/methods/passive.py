"""The losses of passive parties: functions of the owner's embedding and the party's own columns.

A loss is a plain function of the party's own side, the turn and h_A that gives the mean over the turn's rows, one
number per party; its gradient by h_A is what the party sends. To add one is to write it::

    from colonnade.methods.passive import passive_loss

    @passive_loss("agreement", nets=("net",))
    def agreement(mine, turn, h):
        return (h - mine.net(mine.inputs(turn))).square().mean((-1, -2))

and then ``cn.APFed(loss="agreement")``. ``nets`` are the networks that the party is to have for it: ``net`` is the
user's own (rows to embeddings), ``decoder`` the way back (embeddings to all numbers of a row), ``project_owner`` and
``project_own`` linear layers on h_A and on the party's embedding, if the method has a ``projection``. A keyword-only
argument is given the method's option of that name. Rows are axis -2: reduce over the last two axes only. A loss that
compares rows says how many a batch must have, such as ``least_rows=2``. At a party that does not have all of the
owner's rows, turn and h_A hold only those that it has, so no loss needs a mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from colonnade.core.method import Builder, Mine, Part, Turn, take_step
from colonnade.core.optim import OptimizerBuilder
from colonnade.errors import ConfigError, TrainingError, unknown
from colonnade.models import MLP

NETS = ("net", "decoder", "project_owner", "project_own")
LossFunction = TypeVar("LossFunction", bound=Callable[..., Tensor])


class PassiveLoss(NamedTuple):
    """A loss and the networks that a party needs for it."""

    name: str
    function: Callable[..., Tensor]
    nets: tuple[str, ...]
    least_rows: int = 1

    def check_batch(self, rows: int, where: str, error: type[ConfigError | TrainingError]) -> None:
        """Refuse a batch with too few rows."""
        if rows < self.least_rows:
            raise error(
                f"the passive loss '{self.name}' needs at least {self.least_rows} rows in a batch and {where} has "
                f"{rows}; choose a batch size that leaves no smaller last batch."
            )

    def parts(self, build: Builder, optimizer: OptimizerBuilder, embedding: int, projection: int) -> dict[str, Part]:
        """The party's networks."""
        made: dict[str, Part] = {}
        for name in self.nets:
            if name == "net":
                made[name] = Part(build(embedding), optimizer)
            elif name == "decoder":
                decoder = build.decoder(embedding) or MLP().decoder(build.shape, embedding)
                made[name] = Part(decoder, optimizer, reads=embedding)
            elif projection:
                made[name] = Part(nn.Linear(embedding, projection), optimizer, reads=embedding)
        return made

    def descend(self, mine: Mine, turn: Turn, h: Tensor, options: dict[str, Any]) -> Tensor:
        """One step of all the party's networks, and the loss's gradient by h_A before it."""
        self.check_batch(len(turn.rows), f"round {turn.round}", TrainingError)
        known, h = mine.known(turn), mine.own(h).detach()
        if bool(known.all()):
            return self._step(mine, turn, h, options)
        # Parties that lack rows are never computed together, so the mask is one party's.
        slope = torch.zeros_like(h)
        if int(known.sum()) >= self.least_rows:
            slope[known] = self._step(mine, replace(turn, rows=turn.rows[known.cpu()]), h[known], options)
        return slope

    def _step(self, mine: Mine, turn: Turn, h: Tensor, options: dict[str, Any]) -> Tensor:
        """The step and the gradient over rows that the party has."""
        h = h.requires_grad_()
        given = {key: options[key] for key in wanted(self)}
        loss = self._checked(self.function(mine, turn, h, **given), h)
        nets = list(mine.nets.values())
        parameters = [parameter for net in nets for parameter in net.parameters]
        slope, *slopes = torch.autograd.grad(loss.sum(), [h, *parameters], allow_unused=True)
        if slope is None:
            raise self._wrong("does not depend on the owner's embedding; use its third argument")
        take_step(slopes, *nets)
        return slope

    def _checked(self, loss: Any, h: Tensor) -> Tensor:
        expected = tuple(h.shape[:-2])
        if not isinstance(loss, Tensor) or tuple(loss.shape) != expected:
            given = f"the shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            raise self._wrong(
                f"gave {given} where {expected} was expected; reduce it over its last two axes (rows, features)"
            )
        if not bool(torch.isfinite(loss).all()):
            raise self._wrong("is not finite; lower the learning rate or check that party's columns")
        if not loss.requires_grad:
            raise self._wrong("has no gradient; compute it with torch from the owner's embedding")
        return loss

    def _wrong(self, what: str) -> ValueError:
        """The error; the runtime adds the party and the round."""
        return ValueError(f"the passive loss '{self.name}' {what}.")


_losses: dict[str, PassiveLoss] = {}


def passive_loss(
    name: str, nets: tuple[str, ...] = ("net",), least_rows: int = 1
) -> Callable[[LossFunction], LossFunction]:
    """Add a loss for passive parties under a name, with the networks and the rows in a batch that it needs."""
    for net in nets:
        if net not in NETS:
            raise unknown("network of a passive party", net, NETS)
    if isinstance(least_rows, bool) or not isinstance(least_rows, int) or least_rows < 1:
        raise ConfigError(
            f"least_rows={least_rows!r} of the passive loss '{name}' is no number of rows; give 1 or more."
        )

    def add(function: LossFunction) -> LossFunction:
        _losses[name] = PassiveLoss(name, function, tuple(nets), least_rows)
        return function

    return add


def find_loss(name: str) -> PassiveLoss:
    """The loss of that name."""
    if not isinstance(name, str) or name not in _losses:
        raise unknown("passive loss", name, _losses)
    return _losses[name]


def wanted(loss: PassiveLoss) -> list[str]:
    """The method's options that a loss is given: its keyword-only arguments."""
    parameters = inspect.signature(loss.function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind == parameter.KEYWORD_ONLY]


@passive_loss("reconstruction", nets=("decoder",))
def reconstruction(mine: Mine, turn: Turn, h: Tensor) -> Tensor:
    """|x_p - DEC_p(h_A)|^2, the mean over rows and columns (eq. 12, and the authors' code)."""
    rebuilt = mine.decoder(h)
    return (mine.inputs(turn).reshape(rebuilt.shape) - rebuilt).square().mean((-1, -2))


@passive_loss("contrastive", nets=("net", "project_owner", "project_own"), least_rows=2)
def contrastive(mine: Mine, turn: Turn, h: Tensor, *, temperature: float) -> Tensor:
    """The same row of both views against all other rows of both (eq. 14 to 16)."""
    own = mine.net(mine.inputs(turn))
    if "project_owner" in mine.nets:
        h, own = mine.project_owner(h), mine.project_own(own)
    h, own = _directions(h), _directions(own)
    across = h @ own.mT / temperature
    itself = torch.eye(len(turn.rows), dtype=torch.bool, device=h.device)
    within = (h @ h.mT / temperature).masked_fill(itself, -torch.inf)
    total = torch.logsumexp(torch.cat([within, across], dim=-1), dim=-1)
    return (total - across.diagonal(dim1=-2, dim2=-1)).mean(-1)


def _directions(vectors: Tensor) -> Tensor:
    """Vectors scaled to length one, for cosines. Zero vectors stay zero, without torch's huge gradient."""
    squares = vectors.square().sum(-1, keepdim=True)
    seen = squares > 1e-12
    return vectors * torch.where(seen, torch.where(seen, squares, 1.0).rsqrt(), 0.0)
