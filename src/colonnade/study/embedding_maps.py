"""Maps of embeddings: each party's outputs of some rows as points in the plane, to be coloured by class.

A party makes its map itself and sends the owner, who has the classes, two numbers per row; the ledger counts them under
``explain``. What is mapped is what the party's own network gives: embeddings, or logits where the whole model lies at
the party. Classes that lie apart are easy to tell by that party alone; classes that overlap may still be told apart in
more than two dimensions, or together with others. t-SNE keeps neighbours, not distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from colonnade.core.options import seed_of, whole
from colonnade.core.schedule import permutation
from colonnade.core.table import Table, check_federation
from colonnade.errors import ConfigError, unknown
from colonnade.run import map_step
from colonnade.run.map_step import WAYS, MapOptions
from colonnade.run.training import Run
from colonnade.study.compared_score import check_run, check_seals

LEAST = 5  # rows


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
    privacy, and under ``Blind``, because it shows what that hides. So are those of a federation, whose parties serve
    only the steps of the signed method.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4)
    >>> maps = cn.embedding_map(cn.train(train, "vimadmm", epochs=1), test, rows=100)
    >>> maps.points["party 2"].shape, maps.labels.shape
    (torch.Size([100, 2]), torch.Size([100]))
    """
    check_run(run)
    if by not in WAYS:
        raise unknown("kind of map", by, WAYS)
    if whole(rows, "rows") < LEAST:
        raise ConfigError(f"rows={rows} is out of range; a map needs at least {LEAST}.")
    check_federation(tables)
    _check_may_map(run)
    some = permutation(tables[0].rows, seed_of(seed), "map")[:rows]
    few = [table.take(some) for table in tables]
    options = MapOptions(torch.tensor(WAYS.index(by)), torch.tensor(seed))
    replies = zip(run.parties.names, run.ask(map_step.embedding_map, few, all=options), strict=True)
    return EmbeddingMap({name: reply.points for name, reply in replies if len(reply.points)}, few[0].labels, by)


def _check_may_map(run: Run) -> None:
    if run.settings.runtime == "federation":
        raise ConfigError(
            "a map of embeddings is a step beside the method's own, and parties of a federation serve only the steps "
            "that all sides signed; draw it of a run within one organisation, such as one with runtime='apart'."
        )
    check_seals(run)
