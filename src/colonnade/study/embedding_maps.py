"""Maps of embeddings: each party's outputs of some rows as points in the plane, to be coloured by class.

A party makes its map itself and sends the owner, who has the classes, two numbers per row; the ledger counts them under
``explain``. What is mapped is what the party's own network gives: embeddings, or logits where the whole model lies at
the party. Classes that lie apart are easy to tell by that party alone; classes that overlap may still be told apart in
more than two dimensions, or together with others. t-SNE keeps neighbours, not distances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.core.method import Mine, Turn, party_step
from colonnade.core.options import seed_of, whole
from colonnade.core.schedule import permutation
from colonnade.core.table import Table, check_federation
from colonnade.errors import ConfigError, unknown
from colonnade.run.training import Run
from colonnade.study.compared_score import check_may_compare, check_run

WAYS = ("pca", "tsne")
LEAST = 5  # rows


class Points(NamedTuple):
    """A party's rows as points [rows, 2]."""

    points: Tensor


@dataclass(frozen=True)
class EmbeddingMap:
    """Points [rows, 2] of every party that has a network of its columns, and the rows' classes."""

    points: dict[str, Tensor]
    labels: Tensor
    by: str


def embedding_map(
    run: Run, tables: Sequence[Table], *, by: str = "pca", rows: int = 1000, seed: int = 0
) -> EmbeddingMap:
    """Each party's embeddings of some rows in the plane, by "pca" or "tsne".

    ``rows`` are drawn from ``tables`` with ``seed``. Runs under ``Noise`` are refused, because a map would cost
    privacy, and under ``Blind``, because it shows what that hides.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> found = cn.embedding_map(cn.train(train, "vimadmm", epochs=1), test, rows=100)
    >>> found.points["party 2"].shape, found.labels.shape
    (torch.Size([100, 2]), torch.Size([100]))
    """
    check_run(run)
    if by not in WAYS:
        raise unknown("kind of map", by, WAYS)
    if whole(rows, "rows") < LEAST:
        raise ConfigError(f"rows={rows} is out of range; a map needs at least {LEAST}.")
    check_federation(tables)
    check_may_compare(run)
    some = permutation(tables[0].rows, seed_of(seed), "map")[:rows]
    few = [table.take(some) for table in tables]
    mapped = [k for group in run.parties.backend.grouping.groups for k in group.members if "net" in group.nets]
    replies = run.ask(_map_step(by, seed), few, to=sorted(mapped))
    names = [run.parties.names[k] for k in sorted(mapped)]
    points = {name: reply.points for name, reply in zip(names, replies, strict=True)}
    return EmbeddingMap(points, few[0].labels, by)


def _map_step(by: str, seed: int) -> Callable[[Mine, Turn], Points]:
    @party_step
    def embedding_map(mine: Mine, turn: Turn) -> Points:
        outputs = mine.net(mine.inputs(turn)).double()
        each = outputs.reshape(-1, *outputs.shape[-2:]).numpy()  # one by one also where parties are stacked
        flat = torch.from_numpy(np.stack([in_the_plane(one, by, seed) for one in each]))
        return Points(flat.float().reshape(*outputs.shape[:-1], 2))

    return embedding_map


def in_the_plane(vectors: np.ndarray, by: str, seed: int = 0) -> np.ndarray:
    """Vectors [rows, width] as points [rows, 2].

    >>> in_the_plane(np.eye(5), "pca").shape, in_the_plane(np.ones((5, 1)), "pca").tolist()[0]
    ((5, 2), [0.0, 0.0])
    """
    wide = np.pad(vectors, [(0, 0), (0, max(0, 2 - vectors.shape[1]))])
    if np.ptp(wide, axis=0).max() == 0:
        return np.zeros((len(wide), 2))  # all rows alike: neither method can say anything
    from sklearn.decomposition import PCA  # two seconds, for those who draw maps only
    from sklearn.manifold import TSNE

    if by == "pca":
        return PCA(2, svd_solver="full").fit_transform(wide)  # type: ignore[no-any-return]
    near = min(30.0, (len(wide) - 1) / 3)
    return TSNE(2, perplexity=near, init="pca", random_state=seed).fit_transform(wide)  # type: ignore[no-any-return]
