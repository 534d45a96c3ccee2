"""FedOptimus: Multi-VFL with those parties that matter most, averages every K rounds, and two kinds of momentum.

Shrivastava, Uniyal, Chatterjee: *FedOptimus: optimizing vertical federated learning for scalability and efficiency*,
Algorithm 1.

====================  ==========================================================
paper                 here
====================  ==========================================================
label, data owners    as in ``methods/multivfl.py``
P_t                   ``share`` of the parties; the others' embeddings are zeros to the top nets
ESTIMATE_MI           ``selection/participation.py`` at every owner, on embeddings that it received anyway
K (K-step)            ``every`` = 5
mu, m_t (FedAvgM)     ``mu`` = 0.9: m = mu m + (1 - mu) (average - w_t), w = w_t + eta m
SlowMo, gamma = 0.01  ``alpha`` = 1 - gamma = 0.99: w_{t+1} = (1 - alpha) w_t + alpha w
====================  ==========================================================

*What we take where the paper contradicts itself.* Its FedAvgM subtracts m and does not say what Delta is; here m is
added and Delta = average - w_t. Its SlowMo is a step from w_t in the text and is combined with w_0 in Algorithm 1; we
take the text's. With alpha = gamma = 0.01 an average would keep a hundredth of what was learnt, and nothing would
move; so gamma is the part that the old weights keep.

*Who takes part.* In the last round of every ``select_every`` all parties do. Then every owner scores them by the mutual
information of their embeddings and its labels, the first owner averages the scores (D numbers per owner), and the
best take part until the next time, also in predictions. Before the first scores all do: those of untrained
networks mean little. ``run.importance()`` gives the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from colonnade.core.method import Mine, Owner, Parties, Turn, owner_step, register
from colonnade.errors import ConfigError, unknown
from colonnade.methods.several import SeveralOwners
from colonnade.selection.distances import squared_distances
from colonnade.selection.information import check_neighbours
from colonnade.selection.participation import how_many, information_of_embeddings, participants

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


class PartyScores(NamedTuple):
    """One number per party."""

    each: Tensor


def scores_of(h: Tensor, labels: Tensor, neighbours: int) -> Tensor:
    """What each party's embeddings [parties, rows, E] tell about the labels [rows]; also of owners that are stacked."""
    if h.ndim > 3:
        return torch.stack([scores_of(own, theirs, neighbours) for own, theirs in zip(h, labels, strict=True)])
    if len(labels.unique()) == len(labels):
        return torch.zeros(len(h))  # no row has another one of its class, so nothing can be said
    distances = [squared_distances(one, len(labels)) for one in h]
    return torch.tensor(information_of_embeddings(distances, labels, neighbours))


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

    def start(self, owner: Owner) -> None:
        """All parties, until they have scores."""
        owner.scores = torch.zeros(owner.parties)

    def taking_part(self, owner: Owner, turn: Turn) -> list[int]:
        """Those with the highest scores; all in a round that scores them, and while nobody has a score."""
        if (turn.training and self._scores_in(turn)) or not bool(owner.scores.any()):
            return list(range(owner.parties))
        return participants(owner.scores.tolist(), self.share)

    def look_back(self, owner: Owner, turn: Turn) -> None:
        """Score the parties at every owner, and let all owners know the means."""
        if not self._scores_in(turn):
            return
        each = torch.stack([reply.each for reply in owner.owners.ask(self.score, turn)])
        owner.scores = owner.owners.shares @ each
        owner.owners.tell(self.choose, turn, all=PartyScores(owner.scores))

    def _scores_in(self, turn: Turn) -> bool:
        return self.share < 1 and (turn.round + 1) % self.select_every == 0

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

    def importance(self, owner: Owner, parties: Parties, turn: Turn) -> Tensor:
        """The mean scores, if there are some."""
        if not bool(owner.scores.any()):
            raise ConfigError(
                f"fedoptimus has no scores of parties: share={self.share}, select_every={self.select_every}."
            )
        return owner.scores  # type: ignore[no-any-return]
