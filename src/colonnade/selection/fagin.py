"""Fagin's algorithms: find the nearest rows by summed distance without adding up the distances of all rows.

Every party ranks the rows by its own distance. All lists are read from the top at the same time. Reading can stop
early, because a row that was in no list so far is farther away, at every party, than the last row that was read there.

* *By order* (R. Fagin 1996): stop when the wanted rows were seen in every list. It needs no distance.
* *By threshold* (Fagin, Lotem, Naor 2001): stop when the best sums are not above the sum of the last distances seen.
  It stops earlier, but somebody must know those sums meanwhile.

Only rows that were seen are *touched*, that is, added up. With many parties the lists disagree, and nearly all rows are
touched.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Nearest(NamedTuple):
    """The nearest rows of one query by summed distance, nearest first, and how many rows were touched."""

    rows: Tensor
    touched: int


def touched_by_order(ranked: Tensor, wanted: Tensor, count: int) -> Tensor:
    """Which rows [Q, N] are seen until ``count`` wanted ones were seen in all parties' lists ``ranked`` [K, Q, N].

    All rows that are nearer by the sum than the nearest ``count`` wanted ones are among them. A query with fewer
    wanted rows stops when all of those were seen, one with none at once.

    >>> lists = torch.tensor([[[0, 1, 2, 3]], [[1, 0, 3, 2]]])
    >>> touched_by_order(lists, torch.ones(1, 4, dtype=torch.bool), 1).int()
    tensor([[1, 1, 0, 0]], dtype=torch.int32)
    """
    rows = ranked.shape[-1]
    seen_by_all = torch.where(wanted, ranked.amax(0), rows).sort(dim=-1).values
    there = wanted.sum(-1, keepdim=True)
    depth = seen_by_all.gather(-1, (there.clamp(max=count) - 1).clamp(min=0))
    return torch.where(there > 0, ranked.amin(0) <= depth, False)


def nearest(distances: Tensor, count: int) -> Nearest:
    """The ``count`` nearest rows by the sum of the parties' ``distances`` [K, N], by the threshold algorithm.

    >>> nearest(torch.tensor([[0.0, 1.0, 5.0, 9.0], [0.0, 2.0, 7.0, 8.0]]), count=2)
    Nearest(rows=tensor([0, 1]), touched=2)
    """
    values, order = distances.sort(dim=1, stable=True)
    touched = torch.zeros(distances.shape[1], dtype=torch.bool)
    sums = torch.full((distances.shape[1],), torch.inf, dtype=distances.dtype)
    for depth in range(distances.shape[1]):
        new = order[:, depth].unique()
        new = new[~touched[new]]
        touched[new] = True
        sums[new] = distances[:, new].sum(0)
        best = sums.topk(min(count, len(sums)), largest=False)
        if best.values[-1] <= values[:, depth].sum():
            break
    return Nearest(best.indices, int(touched.sum()))


def touched_by_threshold(distances: Tensor, count: int) -> float:
    """The mean share of rows that the threshold algorithm touches, over the queries of ``distances`` [K, Q, N]."""
    touched = [nearest(query, count).touched for query in distances.transpose(0, 1)]
    return sum(touched) / len(touched) / distances.shape[-1]
