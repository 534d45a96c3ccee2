"""A learner that the owner fits to what it has gathered; nothing of it is sent."""

from __future__ import annotations

from torch import Tensor

from colonnade.core.method import Owner, Turn
from colonnade.learners import make_learner
from colonnade.learners.learner import State
from colonnade.methods.party_fits import draw_seed


def fit_at_owner(owner: Owner, learner: str, learnt: State, x: Tensor, turn: Turn) -> Tensor:
    """Fit a learner to these rows and the true labels, keep what it learnt in ``learnt``, and return its mean loss."""
    fitted, y = make_learner(learner), owner.own_labels(turn)
    with owner.randomness.drawing("top", turn.round):
        found = fitted.fit(x, y, owner.task, draw_seed())
    learnt.clear()
    learnt.update(found)
    return owner.task.loss(fitted.outputs(learnt, x), y)
