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
one before. Their networks learn with FixMatch; here a learner is fitted, and again with own rows that it is sure of.

Scores are *out of fold*: a row's score comes from a learner that has not seen its label. New rows get the mean score of
all folds' learners. The owner fits ``top`` to its own columns and all that came. With a label seal the parties learn
from noisy labels; ``top`` learns from the true ones, since nothing of it is sent.

A row that a party does not have, or a party that is absent, is a missing value, as ``top`` knows them in tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.core.method import Builder, Mine, Owner, Part, Parties, Turn, owner_step, party_step, register
from colonnade.core.optim import OptimizerBuilder
from colonnade.learners import make_learner
from colonnade.learners.clusters import clusters_of
from colonnade.learners.folds import mean_outputs
from colonnade.learners.projection import directions_of, projected
from colonnade.methods.gathering import others_of, slopes_of, wide_table
from colonnade.methods.label_codes import Labels, labels_received, labels_to_send
from colonnade.methods.oneshot_options import OneShotOptions
from colonnade.methods.owner_fits import fit_at_owner
from colonnade.methods.party_fits import as_scores, draw_seed, fit_scores, learn_to_rebuild
from colonnade.methods.steps import Embedding, Gradient
from colonnade.models import MLP


@register
@dataclass(frozen=True, kw_only=True)
class OneShot(OneShotOptions):
    """One message from every party, and one to it if it learns from labels."""

    name: ClassVar[str] = "oneshot"
    summary: ClassVar[str] = "every party learns alone and sends once: scores of boosted trees, or main directions"
    party_sends: ClassVar[str] = "scores, or few numbers of its columns, once"
    owner_sends: ClassVar[str] = "labels or gradients once, or nothing"

    # party: holds x_k

    def party_parts(self, build: Builder, optimizer: OptimizerBuilder, outputs: int) -> dict[str, Part]:
        """An autoencoder's two networks; other ways have no network."""
        if self.learn != "autoencoder":
            return {}
        decoder = build.decoder(self.embedding) or MLP().decoder(build.shape, self.embedding)
        net = Part(build(self.embedding), optimizer)
        return {"net": net, "decoder": Part(decoder, optimizer, reads=self.embedding)}

    @party_step
    def project(self, mine: Mine, turn: Turn) -> Embedding:
        """Learn from all rows that this party has, whoever else has them, and show those of the turn."""
        rows, own = mine.inputs(turn)[mine.known(turn)], mine.unaligned()
        whole = rows if own is None else torch.cat([rows, own])
        if self.learn == "autoencoder":
            learn_to_rebuild(mine, whole, self.epochs)
        else:
            mine.memory = {"directions": directions_of(whole, self.embedding)}
        return self.show(mine, turn)

    @party_step
    def score(self, mine: Mine, turn: Turn, sent: Labels) -> Embedding:
        """Learn to predict the labels, and show out-of-fold scores."""
        y = labels_received(sent, len(turn.rows), mine.task)
        return Embedding(fit_scores(make_learner(self.learner), mine, turn, y, self.folds, guess=False))

    @party_step
    def cluster(self, mine: Mine, turn: Turn, gradient: Gradient) -> Embedding:
        """Take the clusters of the gradients for classes, learn to predict them, and show out-of-fold scores."""
        y = clusters_of(gradient.slope, mine.task.outputs, draw_seed())
        return Embedding(fit_scores(make_learner(self.learner), mine, turn, y, self.folds, guess=True))

    @party_step
    def refine(self, mine: Mine, turn: Turn, gradient: Gradient) -> Embedding:
        """The same in later rounds, where the gradients are those of scores."""
        return self.cluster(mine, turn, gradient)

    @party_step
    def show(self, mine: Mine, turn: Turn) -> Embedding:
        """The numbers of the turn's rows, as they were learnt; zeros for rows that this party does not have."""
        x = mine.inputs(turn)
        if self.learn == "autoencoder":
            h = mine.net(x).detach()
        elif "directions" in mine.memory:
            h = projected(x, mine.memory["directions"])
        else:
            h = as_scores(mean_outputs(make_learner(self.learner), mine.memory, x.flatten(1)), mine.task)
        return Embedding(torch.where(mine.known(turn)[:, None], h, 0.0))

    # owner: holds y, and its own columns if it has some

    @owner_step
    def columns(self, mine: Mine, turn: Turn) -> Embedding:
        """The owner's own columns, for itself."""
        return Embedding(mine.inputs(turn).flatten(1))

    def start(self, owner: Owner) -> None:
        """Nothing is learnt yet, and nothing has come."""
        owner.top, owner.replies = {}, {}

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """What the parties have learnt comes up, and the owner learns from it.

        What came is kept, so a party whose reply is here already is not asked again (``cn.extend``).
        """
        kept = owner.replies if self.most_rounds == 1 else {}
        others = others_of(owner, parties)
        asked, replies = [k for k in others if parties.names[k] not in kept], list[Embedding]()
        if asked and self.learn == "labels":
            replies = parties.ask(self.score, turn, all=labels_to_send(owner, turn), to=asked)
        elif asked and self.learn == "gradients":
            before, learn = (self.show, self.refine) if owner.top else (self.project, self.cluster)
            first = parties.ask(before, turn, to=asked)
            replies = parties.ask(learn, turn, each=slopes_of(owner, first, turn), to=asked)
        elif asked:
            replies = parties.ask(self.project, turn, to=asked)
        owner.replies.update({parties.names[k]: reply.h for k, reply in zip(asked, replies, strict=True)})
        whole = [Embedding(owner.replies[parties.names[k]]) for k in others]
        return fit_at_owner(owner, self.top, owner.top, self._inputs(owner, parties, turn, whole), turn)

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The owner's learner reads its own columns and what the parties show."""
        others = others_of(owner, parties)
        replies = parties.ask(self.show, turn, to=others) if others else []
        return make_learner(self.top).outputs(owner.top, self._inputs(owner, parties, turn, replies))

    def _inputs(self, owner: Owner, parties: Parties, turn: Turn, replies: list[Embedding]) -> Tensor:
        scores = as_scores(torch.zeros(1, owner.outputs), owner.task).shape[1]
        width = scores if self.learn in ("labels", "gradients") else self.embedding
        came = {k: reply.h for k, reply in zip(others_of(owner, parties), replies, strict=True)}
        own = [reply.h for reply in parties.ask(self.columns, turn, to=parties.home)] if parties.home else []
        return wide_table(owner, parties, turn, own, came, width)
