"""FedOptimus: Multi-VFL with those parties that matter most, averages every K rounds, and two kinds of momentum.

Shrivastava, Uniyal, Chatterjee: *FedOptimus: optimizing vertical federated learning for scalability and efficiency*,
Algorithm 1.

====================  ==========================================================
paper                 here
====================  ==========================================================
label, data owners    as in ``methods/multivfl.py``
P_t                   ``share`` of the parties; the others' embeddings are zeros to the top nets
ESTIMATE_MI           ``methods/party_scores.py`` at every owner, on embeddings that it received anyway
K (K-step)            ``every`` = 5
mu, m_t (FedAvgM)     ``mu`` = 0.9: m = mu m + (1 - mu) (average - w_t), w = w_t + eta m
SlowMo, gamma = 0.01  ``alpha`` = 1 - gamma = 0.99: w_{t+1} = (1 - alpha) w_t + alpha w
====================  ==========================================================

*What we take where the paper contradicts itself.* Its FedAvgM subtracts m and does not say what Delta is; here m is
added and Delta = average - w_t. Its SlowMo is a step from w_t in the text and is combined with w_0 in Algorithm 1; we
take the text's. With alpha = gamma = 0.01 an average would keep a hundredth of what was learnt, and nothing would
move; so gamma is the part that the old weights keep.

*Who takes part.* In the last of every ``select_every`` rounds all parties do. Then every owner scores them by the
mutual information of their embeddings and its labels, the first owner averages the scores (D numbers per owner), and
the best take part until the next scores, also in predictions. Before the first scores all take part: the scores of
untrained networks mean little. ``run.importance()`` gives the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from colonnade.core.method import Disclosure, Mine, Owner, Parties, Turn, owner_step, register
from colonnade.errors import ConfigError, unknown
from colonnade.methods.declarations import of_nothing
from colonnade.methods.party_scores import PartyScores, scores_of
from colonnade.methods.several import SeveralOwners, average_of, concatenated, gradients_of, mean_loss
from colonnade.methods.steps import Embedding
from colonnade.selection.information import check_neighbours
from colonnade.selection.participation import how_many, participants

PRESETS: dict[str, dict[str, Any]] = {
    "cs+fedavg": {"every": 1, "server": "fedavg"},
    "cs+slowmo": {"every": 1, "server": "damped"},
    "cs+k-step": {"every": 5, "server": "fedavg"},
    "fedavg": {"every": 1, "server": "fedavg", "share": 1.0},
    "slowmo": {"every": 1, "server": "damped", "share": 1.0},
    "k-step": {"every": 5, "server": "fedavg", "share": 1.0},
    "fedoptimus": {},
}
"""The rows of the paper's Table 1; CS is the selection of parties, its SlowMo the damped form."""


@register
@dataclass(frozen=True, kw_only=True)
class FedOptimus(SeveralOwners):
    """Several owners; selected parties, averages every K rounds, FedAvgM and the damped step."""

    name: ClassVar[str] = "fedoptimus"
    summary: ClassVar[str] = "multivfl with selected parties, K-step averages and server momentum"
    party_sends: ClassVar[str] = "embeddings, to each owner those of its rows, if it takes part"
    owner_sends: ClassVar[str] = "gradients of embeddings; owners send each other top nets and scores of parties"
    positive: ClassVar[tuple[str, ...]] = ("embedding", "lr", "hidden", "every", "select_every", "neighbours")

    server: str = "fedavgm+damped"
    share: float = 0.75
    select_every: int = 25
    neighbours: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        how_many(self.share, 1)  # refuses a share that selects nobody
        if self.select_every % self.every:
            raise ConfigError(
                f"{self.name}: select_every={self.select_every} is no multiple of every={self.every}; "
                "parties are selected when models are averaged."
            )

    def why_not(self, task: str, *, weighted: bool) -> str:
        """Parties are scored by what they tell about classes."""
        if task != "classes" and self.share < 1:
            return "it selects parties by what they tell about classes; set share=1.0 to train with all"
        return super().why_not(task, weighted=weighted)

    @classmethod
    def preset(cls, name: str, **options: Any) -> FedOptimus:
        """A row of the paper's Table 1 by its name, with any option changed.

        >>> FedOptimus.preset("cs+k-step").every, FedOptimus.preset("fedavg", lr=0.05).share
        (5, 1.0)
        """
        if name not in PRESETS:
            raise unknown("preset of fedoptimus", name, PRESETS)
        return cls(**{**PRESETS[name], **options})

    def check_batch(self, rows: int) -> None:
        """Every row needs its neighbours in a batch, if parties are scored."""
        if self.share < 1:
            check_neighbours(self.neighbours, rows)

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:  # type: ignore[override]
        """With a selection every owner also scores the parties, and is told the mean."""
        ways = [("score", "up"), ("choose", "down")] if self.share < 1 else []
        scores = [of_nothing(*way, "labels", "one number per party about all rows") for way in ways]
        return *super().disclosures, *scores

    @property
    def rare_rounds(self) -> tuple[int, ...]:
        """The first round that averages the models and, with a selection, the first that scores the parties."""
        return (*super().rare_rounds, self.select_every - 1) if self.share < 1 else super().rare_rounds

    def start(self, owner: Owner) -> None:
        """No party has a score yet."""
        owner.scores = torch.zeros(owner.parties)

    # owner: holds the labels of its rows

    @owner_step
    def score(self, mine: Mine, turn: Turn) -> PartyScores:
        """The mutual information of every party's embeddings of this turn and the labels."""
        h, labels = mine.scratch["h"].detach().unflatten(-1, (-1, self.embedding)), mine.labels(turn)
        labels = labels.argmax(-1) if labels.is_floating_point() else labels
        return PartyScores(scores_of(h.transpose(-2, -3), labels, self.neighbours))

    @owner_step
    def choose(self, mine: Mine, turn: Turn, scores: PartyScores) -> None:
        """Know from the mean scores whom to ask from now on."""
        mine.memory["scores"] = mine.own(scores.each).clone()

    # all owners, the first of them in the lead

    def round(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """Algorithm 1: Multi-VFL's round with the parties P_t, which are selected again in some rounds."""
        owners, selected = owner.owners, self._selected(owner, turn)
        turns, lead = owners.turns(turn), replace(turn, leader=owners.names[0])
        received = [self._received(parties, owner_turn, selected) for owner_turn in turns]
        lessons = owners.work(self.learn, lead, each=received)
        for owner_turn, lesson in zip(turns, lessons, strict=True):
            gradients = gradients_of(lesson, self.embedding)
            parties.tell(self.follow, owner_turn, each=[gradients[k] for k in selected], to=selected)
        if self._scores_in(turn):
            owner.scores = owners.shares @ torch.stack([reply.each for reply in owners.ask(self.score, lead)])
            owners.tell(self.choose, lead, all=PartyScores(owner.scores))
        if self.averages_in(turn):
            owners.tell(self.adopt, lead, all=average_of(owners.ask(self.top, lead), owners.shares))
            parties.tell(self.settle, turn, to=selected)
        return mean_loss(lessons, owners.shares)

    def _scores_in(self, turn: Turn) -> bool:
        return self.share < 1 and (turn.round + 1) % self.select_every == 0

    def _selected(self, owner: Owner, turn: Turn) -> list[int]:
        """P_t: the parties with the highest scores; all in a round that scores them, and before the first scores."""
        if (turn.training and self._scores_in(turn)) or not bool(owner.scores.any()):
            return list(range(owner.parties))
        return participants(owner.scores.tolist(), self.share)

    def _received(self, parties: Parties, turn: Turn, selected: list[int]) -> Embedding:
        """The selected parties' embeddings at the turn's owner, side by side with zeros for the other parties'."""
        replies = dict(zip(selected, parties.ask(self.embed, turn, to=selected), strict=True))
        zeros = Embedding(torch.zeros_like(next(iter(replies.values())).h))
        return concatenated([replies.get(k, zeros).h for k in range(len(parties))])

    def predict(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The logits of the owner who leads the turn, on the selected parties' embeddings."""
        return self.leader_logits(owner, turn, self._received(parties, turn, self._selected(owner, turn)))

    def importance(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The mean scores, if there are some."""
        if not bool(owner.scores.any()):
            raise ConfigError(
                f"fedoptimus has no scores of parties: share={self.share}, select_every={self.select_every}."
            )
        return owner.scores  # type: ignore[no-any-return]
