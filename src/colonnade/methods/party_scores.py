"""How much the parties' embeddings tell an owner about its labels: what FedOptimus selects parties by."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from colonnade.selection.distances import squared_distances
from colonnade.selection.participation import information_of_embeddings


class PartyScores(NamedTuple):
    """One number per party."""

    each: Tensor


def scores_of(h: Tensor, labels: Tensor, neighbours: int) -> Tensor:
    """The mutual information of each party's embeddings and the labels: one number per party, computed on the host.

    ``h`` is [parties, rows, E] and ``labels`` [rows]; owners that are computed together have one more axis in front.
    """
    if h.ndim > 3:
        return torch.stack([scores_of(own, theirs, neighbours) for own, theirs in zip(h, labels, strict=True)])
    h, labels = h.cpu(), labels.cpu()
    if len(labels.unique()) == len(labels):
        return torch.zeros(len(h))  # no two rows share a class, so nothing can be said
    distances = [squared_distances(embeddings, len(labels)) for embeddings in h]
    return torch.tensor(information_of_embeddings(distances, labels, neighbours))
