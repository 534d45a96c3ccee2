"""Shapley values of parties, from a model that predicts from every set of them: what a party adds to the others' score.

One message of each party is enough: the owner has everybody's embeddings of the held-out rows and scores all sets by
itself. If the owner has columns they are in every set, and the values say what each partner adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import torch
from torch import Tensor

from colonnade.core.schedule import derive_seed
from colonnade.core.table import Table
from colonnade.errors import ConfigError
from colonnade.run.model import Question
from colonnade.run.training import Run
from colonnade.study.compared_score import score

MOST_PLAYERS = 8  # 2^8 sets are scored, once for all rows and once for every repeat


def shapley_values(worth: Tensor) -> Tensor:
    """Each player's exact Shapley value [players] from the worth of all sets [2, 2, ...]: an axis a player, in or not.

    >>> shapley_values(torch.tensor([[0.0, 1.0], [2.0, 3.0]])).tolist()  # the first adds 2, the second 1
    [2.0, 1.0]
    """
    players, values = worth.ndim, []
    sizes = _sizes(players - 1)
    weights = torch.tensor([1 / (players * comb(players - 1, size)) for size in range(players)]).to(worth)
    for player in range(players):
        added = worth.select(player, 1) - worth.select(player, 0)
        values.append((weights[sizes] * added).sum())
    return torch.stack(values)


def _sizes(players: int) -> Tensor:
    """How many are in each set [2, 2, ...]."""
    sizes = torch.zeros((2,) * players, dtype=torch.int64)
    for player in range(players):
        sizes.select(player, 1).add_(1)
    return sizes


def measured(run: Run, test: Sequence[Table], seeds: Sequence[tuple[int, int]]) -> tuple[dict[str, Tensor], float]:
    """Each player's Shapley value on all rows and then on a bootstrap for each seed, and the score with everybody."""
    owned = int(run.owner.has_columns)
    players = run.parties.names[owned:]
    if not 1 <= len(players) <= MOST_PLAYERS:
        raise ConfigError(
            f"{len(players)} parties beside the owner came for Shapley values, which score every set of them; "
            f"from 1 to {MOST_PLAYERS} can be scored: keep fewer, or use by='permutation'."
        )
    outputs, labels = run.model.outputs_of_subsets(Question("predict", test)), test[0].labels
    outputs = outputs[len(outputs) // 2 :] if owned else [_constant(run, labels), *outputs[1:]]
    chosen = [torch.arange(len(labels)), *(_bootstrap(len(labels), seed) for seed in seeds)]
    worth = [torch.tensor([score(run, o[rows], labels[rows]) for o in outputs]).double() for rows in chosen]
    values = torch.stack([shapley_values(each.view((2,) * len(players))) for each in worth])
    return dict(zip(players, values.T, strict=True)), float(worth[0][-1])


def _bootstrap(rows: int, seed: tuple[int, int]) -> Tensor:
    random = torch.Generator().manual_seed(derive_seed(*seed, "bootstrap"))
    return torch.randint(rows, (rows,), generator=random)


def _constant(run: Run, labels: Tensor) -> Tensor:
    """What nobody predicts: for every row the mean of all labels."""
    task = run.task
    mean = task.targets(task.inside(labels)).float().mean(0)
    if task.name == "classes":
        mean = mean.clamp(min=1e-9).log()
    if task.name == "several":
        mean = torch.logit(mean, 1e-6)
    return mean.expand(len(labels), -1)
