"""How much a passive party's gradient helps the owner: what leaving it out of a step does to held-out rows.

Without party p the owner's encoder would take the step theta - lr (G - J^T s_p) instead of theta - lr G, where s_p is
the gradient that p sent and J = dh_A / dtheta. To first order that changes the loss L of other rows by

    L(without p) - L(with p) = lr <dL/dtheta, J^T s_p> = lr <J dL/dtheta, s_p>.

So one direction per round, J dL/dtheta [rows, E], serves all parties however many there are: it costs one pass over
the held-out rows and two over the batch. Positive means that the party helped. It is the change by a plain step of
``lr``; momentum, decay and other optimisers scale it for all parties alike, or nearly so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from colonnade.core.method import Mine, Owner, Parties, Turn, owner_step
from colonnade.errors import ConfigError


class RowLabels(NamedTuple):
    """The labels of the turn's rows; never leaves the owner."""

    y: Tensor


class Direction(NamedTuple):
    """A direction in the space of the encoder's weights or of h_A; never leaves the owner."""

    along: Tensor


def left_out(direction: Tensor, slopes: Sequence[Tensor], lr: float) -> Tensor:
    """By how much the held-out loss would rise without each of the slopes, to first order.

    ``direction`` is J dL/dtheta of that loss.

    >>> left_out(torch.tensor([[1.0, 0.0]]), [torch.tensor([[2.0, 5.0]]), torch.tensor([[-1.0, 0.0]])], 0.1)
    tensor([ 0.2000, -0.1000])
    """
    return lr * torch.stack([(direction * slope).sum() for slope in slopes])


def pushed(output: Tensor, parameters: Sequence[Tensor], along: Tensor) -> Tensor:
    """J v: how the output moves when its parameters move along v; the output's graph is kept."""
    probe = torch.zeros_like(output, requires_grad=True)  # J^T u is linear in u, and its gradient by u is J
    slopes = torch.autograd.grad(output, parameters, probe, create_graph=True, allow_unused=True)
    parts = zip(slopes, along.split([p.numel() for p in parameters]), strict=True)
    known = [(slope, part.view_as(slope)) for slope, part in parts if slope is not None]
    (moved,) = torch.autograd.grad([slope for slope, _ in known], probe, [part for _, part in known], retain_graph=True)
    return moved


@owner_step
def uphill(mine: Mine, turn: Turn, labels: RowLabels) -> Direction:
    """At the owner's own columns: dL/dtheta, the gradient of the loss of the turn's rows by the encoder's weights."""
    with torch.enable_grad():
        loss = mine.task.loss(mine.nets["task"](mine.net(mine.inputs(turn))), labels.y)
        slopes = torch.autograd.grad(loss, mine.net.parameters, allow_unused=True)
    pairs = zip(mine.net.parameters, slopes, strict=True)
    return Direction(torch.cat([(torch.zeros_like(p) if s is None else s).flatten() for p, s in pairs]))


@owner_step
def shift(mine: Mine, turn: Turn, direction: Direction) -> Direction:
    """At the owner's own columns: how h_A moves when the encoder's weights move in that direction."""
    return Direction(pushed(mine.scratch["h"], mine.net.parameters, direction.along))


def other_rows(owner: Owner, turn: Turn) -> Turn:
    """As many rows as the turn has, of those held out for validation, or else of those that are not in the turn."""
    pool = owner.held_out
    if not len(pool):
        outside = torch.ones(owner.rows, dtype=torch.bool)
        outside[turn.rows] = False
        pool = outside.nonzero()[:, 0]
    if not len(pool):
        raise ConfigError(
            "contributions are measured on rows outside the batch and there are none; "
            "give valid=0.1, say, or a smaller batch."
        )
    order = torch.randperm(len(pool), generator=owner.randomness.generator("contribution", turn.round))
    return Turn(turn.round, pool[order[: len(turn.rows)]], turn.table, "explain")


def steepest(owner: Owner, parties: Parties, turn: Turn) -> Direction:
    """dL/dtheta of other rows than the turn's, before its first step; nothing travels."""
    other = other_rows(owner, turn)
    return parties.ask(uphill, other, all=RowLabels(owner.labels(other)), to=[0])[0]


def measure(
    owner: Owner, parties: Parties, turn: Turn, direction: Direction, slopes: Sequence[Tensor], lr: float
) -> None:
    """Add the passive parties' contributions in this round to the owner's sums; ``direction`` is ``steepest``'s."""
    (moved,) = parties.ask(shift, turn, all=direction, to=[0])
    owner.contributions += pad(left_out(moved.along, slopes, lr), (1, 0))  # the owner's own is not measured
    owner.measured += 1


def mean_contributions(owner: Owner, *, measured: bool) -> Tensor:
    """The mean over the rounds that measured contributions, refused if there was none."""
    if not measured:
        raise ConfigError("apfed has measured no contributions; train with contribution_every=5, say, or longer.")
    return owner.contributions / owner.measured  # type: ignore[no-any-return]
