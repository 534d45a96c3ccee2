"""Who takes part: parties by what their embeddings tell about the labels."""

from __future__ import annotations

import torch
from torch import Tensor


def mutual_information(h: Tensor, labels: Tensor, neighbours: int = 3) -> Tensor:
    """Estimated mutual information, in nats, of vectors [..., rows, E] and class numbers [..., rows].

    Ross: *Mutual information between discrete and continuous data sets*, 2014. For each row: the distance to its k-th
    neighbour of the same class, and the number m of rows of any class that are nearer. Rows alone in their class
    say nothing and are left out.

    >>> labels = torch.tensor([0] * 50 + [1] * 50)
    >>> apart = torch.linspace(0, 1, 100).unsqueeze(-1) + 5 * labels.unsqueeze(-1)
    >>> round(float(mutual_information(apart, labels)), 2), round(float(mutual_information(apart % 0.5, labels)), 2)
    (0.7, 0.0)
    """
    labels = labels.expand(h.shape[:-1])
    same = labels.unsqueeze(-1) == labels.unsqueeze(-2)
    alike = same.sum(-1)
    kept = alike > 1
    # Matrix products would blur small distances, and another order of sums would choose other neighbours.
    distances = torch.cdist(h, h, compute_mode="donot_use_mm_for_euclid_dist")
    distances = distances.masked_fill(~kept.unsqueeze(-2), torch.inf)
    others = distances.masked_fill(~same | torch.eye(labels.shape[-1], dtype=torch.bool), torch.inf)
    k = (alike - 1).clamp(1, neighbours)
    reach = others.sort(-1).values.gather(-1, (k - 1).unsqueeze(-1))
    nearer = (distances <= torch.nextafter(reach, torch.zeros(()))).sum(-1)
    k = torch.maximum(k, (others == 0).sum(-1))  # rows that cannot be told apart are all nearest (Gao et al. 2017)
    count = kept.sum(-1)
    terms = torch.digamma(k.double()) - torch.digamma(alike.double()) - torch.digamma(nearer.clamp(min=1).double())
    mean = torch.where(kept, terms, 0).sum(-1) / count.clamp(min=1)
    return torch.where(count > 0, torch.digamma(count.double()) + mean, 0).clamp(min=0).float()


def participants(scores: Tensor, share: float) -> list[int]:
    """The share of parties with the highest scores, in their order.

    >>> participants(torch.tensor([0.1, 0.9, 0.5, 0.7]), share=0.5)
    [1, 3]
    """
    return sorted(scores.topk(how_many(len(scores), share)).indices.tolist())


def how_many(parties: int, share: float) -> int:
    """How many parties a share is, to the nearest whole number; it may be none."""
    return round(share * parties)
