"""One-shot: every party learns alone, sends once, and the owner learns from what came.

================  ======================  =====================================  =======================================
``learn``         the owner sends         a party learns                         a party sends, once
================  ======================  =====================================  =======================================
``"labels"``      labels                  to predict them from its columns       out-of-fold scores (Wolpert, *Stacked
                                                                                 generalization*, 1992)
``"pca"``         nothing                 its main directions                    each row's place along them
``"autoencoder"`` nothing                 to rebuild its columns from few        those few numbers
                                          numbers
``"gradients"``   gradients of what came  classes, as clusters of the gradients  its main directions, then out-of-fold
                                                                                 scores for the classes
================  ======================  =====================================  =======================================

``"gradients"`` is one-shot VFL of Sun et al., *Communication-efficient vertical federated learning with limited
overlapping samples*, ICCV 2023, Algorithm 1; more rounds make it their few-shot VFL: each begins with the scores of the
one before. Their networks learn with FixMatch; here a learner is fitted, and then once more with those rows of its own
of which it is sure (``SURE``).

Scores are *out of fold*: a row's score comes from a learner that has not seen its label. New rows get the mean score of
all folds' learners. The owner fits ``top`` to its own columns and all that came. With a label seal the parties learn
from noisy labels; ``top`` learns from the true ones, since nothing of it is sent.

A row that a party does not have, or a party that is absent, is a missing value, as ``top`` knows them in tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from colonnade.core.method import Builder, Method, Mine, Owner, Part, Parties, Turn, owner_step, party_step, register
from colonnade.core.net import descend
from colonnade.core.optim import Adam, OptimizerBuilder
from colonnade.core.task import Task
from colonnade.errors import ConfigError, MessageError
from colonnade.learners import Learner, make_learner
from colonnade.learners.clusters import clusters_of
from colonnade.learners.folds import cross_fit, mean_outputs
from colonnade.learners.learner import State
from colonnade.learners.projection import directions_of, projected
from colonnade.methods.label_codes import Labels, labels_received, labels_to_send
from colonnade.methods.steps import Embedding, Gradient
from colonnade.models import MLP

WAYS = ("labels", "pca", "autoencoder", "gradients")
LARGEST_SCORE = 8.0  # a logit of 8 is a probability of 0.9997; larger ones would waste the range of few bits
MOST_OF_A_SCORE = 1000.0  # with noise and rounding
SURE = 0.9
BATCH = 256  # of an autoencoder


@register
@dataclass(frozen=True, kw_only=True)
class OneShot(Method):
    """One message from every party, and one to it if it learns from labels."""

    name: ClassVar[str] = "oneshot"
    summary: ClassVar[str] = "every party learns alone and sends once: scores of boosted trees, or main directions"
    party_sends: ClassVar[str] = "scores, or few numbers of its columns, once"
    owner_sends: ClassVar[str] = "labels or gradients once, or nothing"
    labels: ClassVar[str] = "shown"
    partial_rows: ClassVar[bool] = True
    any_subset: ClassVar[bool] = True
    whole_rounds: ClassVar[bool] = True
    usual_rounds: ClassVar[int | None] = 1
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"learn": WAYS}
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "folds", "epochs")

    learn: str = "labels"
    learner: str = "trees"
    top: str = "trees"
    folds: int = 5
    embedding: int = 8
    epochs: int = 30
    lr: float = 0.001
    momentum: float = 0.0
    decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.folds <= 100 or self.epochs > 1000:
            raise ConfigError(
                f"{self.name}: folds={self.folds}, epochs={self.epochs} are out of range; folds are 2 to 100, epochs "
                "at most 1000."
            )
        for text in (self.learner, self.top):
            make_learner(text)

    @property
    def tells_labels(self) -> str:
        """Labels are sent, can be inferred from gradients, or stay where they are."""
        return {"labels": "shown", "gradients": "inferable"}.get(self.learn, "unsent")

    @property
    def most_rounds(self) -> int | None:
        """One, unless scores are refined by gradients of the scores before."""
        return None if self.learn == "gradients" else 1

    @property
    def rehearsed(self) -> OneShot:
        """With learners that are quick: what is sent does not depend on them."""
        return replace(self, learner="linear", top="linear", epochs=1)

    def linear_numbers(self, outputs: int) -> int | None:
        """Main directions are linear in the columns, and so are the scores of a linear learner."""
        if self.learn in ("pca", "gradients"):
            return self.embedding
        if self.learn == "autoencoder":
            return None
        return outputs if self.learner.startswith("linear") else 0

    @property
    def party_optimizer(self) -> OptimizerBuilder:
        """What trains an autoencoder unless the user says otherwise."""
        return Adam(self.lr, self.decay)

    def why_not(self, task: str, *, weighted: bool) -> str:
        """Gradients of values form no clusters."""
        if self.learn == "gradients" and task != "classes":
            return "classes are found as clusters of gradients; set learn='labels'"
        return super().why_not(task, weighted=weighted)

    def check_batch(self, rows: int) -> None:
        """Two rows in every fold."""
        if self.learn in ("labels", "gradients") and rows < 2 * self.folds:
            raise ConfigError(
                f"{self.name}: {rows} rows are too few for folds={self.folds}; cross-fitting needs two rows in each."
            )

    def kind_of(self, party: int) -> int:
        """Every party is computed by itself: learners do not stack."""
        return party

    # party: holds x_k

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """An autoencoder's two networks; other ways have no network."""
        if self.learn != "autoencoder":
            return {}
        decoder = build.decoder(self.embedding) or MLP().decoder(build.shape, self.embedding)
        return {
            "net": Part(build(self.embedding), optimizer),
            "decoder": Part(decoder, optimizer, reads=self.embedding),
        }

    @party_step
    def project(self, mine: Mine, turn: Turn) -> Embedding:
        """Learn from all rows that this party has, whoever else has them, and show those of the turn."""
        known = mine.known(turn)
        rows, own = mine.inputs(turn)[known], mine.unaligned()
        whole = rows if own is None else torch.cat([rows, own])
        if self.learn == "autoencoder":
            self._learn_to_rebuild(mine, whole)
        elif "directions" not in mine.memory:
            mine.memory["directions"] = directions_of(whole, self.embedding)
        return self.show(mine, turn)

    @party_step
    def score(self, mine: Mine, turn: Turn, sent: Labels) -> Embedding:
        """Learn to predict the labels, and show out-of-fold scores."""
        return self._fit(mine, turn, labels_received(sent, len(turn.rows), mine.task))

    @party_step
    def cluster(self, mine: Mine, turn: Turn, gradient: Gradient) -> Embedding:
        """Take the clusters of the gradients for classes, learn to predict them, and show out-of-fold scores."""
        return self._fit(mine, turn, clusters_of(gradient.slope, mine.task.outputs, _seed()))

    @party_step
    def refine(self, mine: Mine, turn: Turn, gradient: Gradient) -> Embedding:
        """The same in later rounds, where the gradients are those of scores."""
        return self.cluster(mine, turn, gradient)

    @party_step
    def show(self, mine: Mine, turn: Turn) -> Embedding:
        """The numbers of the turn's rows, as they were learnt; zeros for rows that this party does not have."""
        x = mine.inputs(turn)
        if self.learn == "autoencoder":
            with torch.no_grad():
                h = mine.net(x)
        elif "directions" in mine.memory:
            h = projected(x, mine.memory["directions"])
        else:
            h = as_scores(mean_outputs(make_learner(self.learner), mine.memory, x.flatten(1)), mine.task)
        return Embedding(torch.where(mine.known(turn)[:, None], h, 0.0))

    def _fit(self, mine: Mine, turn: Turn, y: Tensor) -> Embedding:
        learner, known, seed = make_learner(self.learner), mine.known(turn), _seed()
        x, y = mine.inputs(turn)[known].flatten(1), y[known]
        fitted = cross_fit(learner, x, y, mine.task, self.folds, seed)
        own = mine.unaligned()
        if own is not None and self.learn == "gradients":
            more, guessed = sure_rows(learner, fitted.state, own.flatten(1), mine.task)
            whole, labels = torch.cat([x, more]), torch.cat([y, guessed])
            fitted = cross_fit(learner, whole, labels, mine.task, self.folds, seed)
        mine.memory, scores = fitted.state, as_scores(fitted.outputs[: len(x)], mine.task)
        h = torch.zeros(len(known), scores.shape[1])
        h[known] = scores
        return Embedding(h)

    def _learn_to_rebuild(self, mine: Mine, rows: Tensor) -> None:
        for _ in range(self.epochs):
            for batch in rows[torch.randperm(len(rows))].split(BATCH):
                rebuilt = mine.nets["decoder"](mine.net(batch))
                descend((rebuilt - batch.reshape(rebuilt.shape)).square().mean(), mine.net, mine.nets["decoder"])

    # owner: holds y, and its own columns if it has some

    @owner_step
    def columns(self, mine: Mine, turn: Turn) -> Embedding:
        """The owner's own columns, for itself."""
        return Embedding(mine.inputs(turn).flatten(1))

    def start(self, owner: Owner) -> None:
        """Nothing is learnt yet."""
        owner.top = {}

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """What the parties have learnt comes up, and the owner learns from it."""
        others = _others(owner, parties)
        if not others:
            replies: list[Embedding] = []
        elif self.learn == "labels":
            replies = parties.ask(self.score, turn, all=labels_to_send(owner, turn), to=others)
        elif self.learn == "gradients":
            before, learn = (self.show, self.refine) if owner.top else (self.project, self.cluster)
            first = parties.ask(before, turn, to=others)
            replies = parties.ask(learn, turn, each=_slopes(owner, first, turn), to=others)
        else:
            replies = parties.ask(self.project, turn, to=others)
        x, y = self._inputs(owner, parties, turn, replies), owner.own_labels(turn)
        with owner.randomness.drawing("top", turn.round):
            owner.top.clear()
            owner.top.update(make_learner(self.top).fit(x, y, owner.task, _seed()))
        return owner.task.loss(make_learner(self.top).outputs(owner.top, x), y)

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The owner's learner reads its own columns and what the parties show."""
        others = _others(owner, parties)
        replies = parties.ask(self.show, turn, to=others) if others else []
        return make_learner(self.top).outputs(owner.top, self._inputs(owner, parties, turn, replies))

    def _inputs(self, owner: Owner, parties: Parties, turn: Turn, replies: list[Embedding]) -> Tensor:
        """The owner's columns and all that came, side by side; NaN for rows that a party does not have."""
        came, known = dict(zip(_others(owner, parties), replies, strict=True)), owner.known(turn)
        width = as_scores(torch.zeros(1, owner.outputs), owner.task).shape[1]
        width = width if self.learn in ("labels", "gradients") else self.embedding
        parts = [reply.h for reply in parties.ask(self.columns, turn, to=parties.home)] if parties.home else []
        for k in (k for k in range(len(parties)) if k not in parties.home):
            h = came[k].h if k in came else torch.zeros(len(turn.rows), width)
            _check_scores(parties.names[k], h)
            parts.append(torch.where(known[k][:, None], h, torch.nan))
        return torch.cat(parts, dim=1).detach()


def _others(owner: Owner, parties: Parties) -> list[int]:
    """The parties to ask: all that are not the owner's own part and not absent."""
    return [k for k in range(len(parties)) if k not in parties.home and k not in owner.absent]


def as_scores(o: Tensor, task: Task) -> Tensor:
    """What is sent of a learner's outputs: of two logits only their difference, and nothing beyond the largest score.

    >>> from colonnade.core.task import Classes
    >>> as_scores(torch.tensor([[1.0, 3.0], [0.0, -20.0]]), Classes(2)).tolist()
    [[2.0], [-8.0]]
    """
    sent = o[:, 1:] - o[:, :1] if task.name == "classes" and task.outputs == 2 else o
    return sent.clamp(-LARGEST_SCORE, LARGEST_SCORE)


def _check_scores(party: str, h: Tensor) -> None:
    if h.numel() and float(h.abs().max()) > MOST_OF_A_SCORE:
        raise MessageError(
            f"'{party}' sent the score {float(h.abs().max()):g}; scores lie within {MOST_OF_A_SCORE:g}, so its learner "
            "or its columns have gone astray."
        )


def _slopes(owner: Owner, replies: list[Embedding], turn: Turn) -> list[Gradient]:
    """The gradient of the owner's loss by each party's numbers, under a head that is drawn for it."""
    with owner.randomness.drawing("heads", turn.round), torch.enable_grad():
        each = [reply.h.detach().requires_grad_() for reply in replies]
        heads = [torch.randn(h.shape[1], owner.outputs) / h.shape[1] ** 0.5 for h in each]
        total = torch.stack([h @ head for h, head in zip(each, heads, strict=True)]).sum(0) / len(each)
        owner.loss(total, turn).backward()
    return [Gradient(cast(Tensor, h.grad)) for h in each]


def sure_rows(learner: Learner, state: State, rows: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Those rows whose class the learner is sure of, and these classes."""
    p = task.probabilities(mean_outputs(learner, state, rows)).max(1)
    sure = p.values >= SURE
    return rows[sure], p.indices[sure]


def _seed() -> int:
    """A seed for a learner, from the randomness that is being drawn from."""
    return int(torch.randint(2**31 - 1, ()))
