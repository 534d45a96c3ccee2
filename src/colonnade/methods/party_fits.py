"""What a party fits by itself for ``oneshot``: scores by cross-fitting, and an autoencoder."""

from __future__ import annotations

import torch
from torch import Tensor

from colonnade.core.method import Mine, Turn
from colonnade.core.net import descend
from colonnade.core.task import Task
from colonnade.learners import Learner
from colonnade.learners.folds import cross_fit

LARGEST_SCORE = 8.0  # a logit of 8 is a probability of 0.9997; larger ones would waste the range of few bits
BATCH = 256  # of an autoencoder


def fit_scores(learner: Learner, mine: Mine, turn: Turn, y: Tensor, folds: int, *, guess: bool) -> Tensor:
    """Out-of-fold scores of the turn's rows, zeros for those that the party does not have; keeps what was learnt.

    With ``guess`` it learns also from rows that only this party has and whose class the learner is sure of.
    """
    known, own, seed = mine.known(turn), mine.unaligned(), draw_seed()
    x, y = mine.inputs(turn)[known].flatten(1), y[known]
    more = own.flatten(1) if guess and own is not None else None
    fitted = cross_fit(learner, x, y, mine.task, folds, seed, more)
    mine.memory, scores = fitted.state, as_scores(fitted.outputs, mine.task)
    h = torch.zeros(len(known), scores.shape[1])
    h[known] = scores
    return h


def as_scores(o: Tensor, task: Task) -> Tensor:
    """What is sent of a learner's outputs: of two logits only their difference, and nothing beyond the largest score.

    >>> from colonnade.core.task import Classes
    >>> as_scores(torch.tensor([[1.0, 3.0], [0.0, -20.0]]), Classes(2)).tolist()
    [[2.0], [-8.0]]
    """
    sent = o[:, 1:] - o[:, :1] if task.name == "classes" and task.outputs == 2 else o
    return sent.clamp(-LARGEST_SCORE, LARGEST_SCORE)


def learn_to_rebuild(mine: Mine, rows: Tensor, epochs: int) -> None:
    """Train the party's network and its decoder to rebuild the rows."""
    for _ in range(epochs):
        for batch in rows[torch.randperm(len(rows))].split(BATCH):
            rebuilt = mine.nets["decoder"](mine.net(batch))
            descend((rebuilt - batch.reshape(rebuilt.shape)).square().mean(), mine.net, mine.nets["decoder"])


def draw_seed() -> int:
    """A seed for a learner, from the randomness that is being drawn from."""
    return int(torch.randint(2**31 - 1, ()))
