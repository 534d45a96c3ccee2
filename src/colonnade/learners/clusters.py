"""Rows that are alike, as numbered clusters."""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor


def clusters_of(points: Tensor, count: int, seed: int) -> Tensor:
    """The cluster of every row (k-means, on directions: gradients of sure rows are short, and point the same way).

    >>> clusters_of(torch.tensor([[1.0, 0.0], [0.1, 0.0], [0.0, 2.0]]), 2, seed=0).unique().tolist()
    [0, 1]
    """
    from sklearn.cluster import KMeans

    unit = torch.nn.functional.normalize(points.double(), dim=1)
    with threadpool_limits(torch.get_num_threads(), user_api="openmp"):
        found = KMeans(count, n_init=4, random_state=seed).fit(unit.numpy())
    return torch.from_numpy(found.labels_).long()
