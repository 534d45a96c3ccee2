"""The information of columns about the labels: Ross's nearest-neighbour estimator, from neighbour orders alone.

B. C. Ross, "Mutual information between discrete and continuous data sets", PLoS ONE 2014. For each query row let d be
the distance to its k-th neighbour of the same class and m the number of rows of any class within d; then

    I = psi(N) - mean psi(N_class) + psi(k) - mean psi(m)        (in nats; N rows, N_class of the query's class)

It uses no distance, only which row is nearer than which. Parties therefore need to send only ranks. With ties k is the
number of rows of the same class within d, as in Gao et al. 2017; without ties that is Ross's k.

A query is a row too: queries are the first rows of every sample, and no row is its own neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from colonnade.errors import ConfigError, TableError

SURE = 3.0  # standard errors; queries share their rows, so with two noise would sometimes seem to have information


@dataclass(frozen=True)
class Estimate:
    """An amount of information in nats, as the mean over the queries, with its standard error.

    The difference of two estimates is taken query by query, so its error is much smaller than either's.

    >>> gain = Estimate(torch.tensor([2.0, 4.0])) - Estimate(torch.tensor([1.0, 3.0]))
    >>> gain.value, gain.error
    (1.0, 0.0)
    """

    each: Tensor
    """The information by query."""

    @property
    def value(self) -> float:
        """The estimate; near zero it may be negative."""
        return float(self.each.mean())

    @property
    def error(self) -> float:
        """Its standard error."""
        return float(self.each.std() / len(self.each) ** 0.5) if len(self.each) > 1 else 0.0

    @property
    def is_nothing(self) -> bool:
        """Whether it cannot be distinguished from zero: it is at most three standard errors above."""
        return self.value <= SURE * self.error

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.each - other.each)


def ranks(distances: Tensor) -> Tensor:
    """For each query [Q, N] how many rows are nearer than each row; equal distances have equal ranks.

    The query itself, which is column q of query q, comes last and so never counts as a neighbour.

    >>> ranks(torch.tensor([[0.0, 5.0, 1.0, 5.0]]))
    tensor([[3, 1, 0, 1]], dtype=torch.int16)
    """
    apart = distances.clone().fill_diagonal_(torch.inf)
    values, order = apart.sort(dim=1)
    place = torch.arange(values.shape[1], dtype=torch.int16).expand_as(order)
    starts = torch.ones_like(values, dtype=torch.bool)
    starts[:, 1:] = values[:, 1:] != values[:, :-1]
    first = torch.where(starts, place, torch.zeros_like(place)).cummax(dim=1).values
    return torch.empty_like(first).scatter_(1, order, first)


def same_class(labels: Tensor, queries: int) -> Tensor:
    """Which rows [Q, N] have the class of each query, without the query itself."""
    return (labels[:queries, None] == labels[None, :]).fill_diagonal_(False)


def information(ranked: Tensor, labels: Tensor, neighbours: int = 3) -> Estimate:
    """The information about ``labels`` [N] in columns whose neighbour ranks are ``ranked`` [Q, N].

    >>> column = torch.tensor([0.0, 1.0, 4.0, 4.5])
    >>> ranked = ranks((column[:, None] - column).square())
    >>> round(information(ranked, torch.tensor([0, 0, 1, 1]), neighbours=1).value, 3)
    0.833
    """
    rows = len(labels)
    check_neighbours(neighbours, rows)
    same = same_class(labels, len(ranked))
    alike = same.sum(1)
    if not bool(alike.any()):
        raise TableError(
            f"no query has another row of its class among the {rows} rows; use more rows, or classes that occur twice."
        )
    usable = alike > 0  # a row that is alone in its class has no information
    same, alike, ranked = same[usable], alike[usable], ranked[usable]
    nearest = torch.where(same, ranked, rows).topk(min(neighbours, rows), dim=1, largest=False).values
    radius = nearest.gather(1, alike.clamp(max=neighbours)[:, None] - 1)
    within = ranked <= radius
    psi = torch.digamma(torch.arange(rows + 2, dtype=torch.float64))
    return Estimate(psi[rows] - psi[alike + 1] + psi[(within & same).sum(1)] - psi[within.sum(1)])


def check_neighbours(neighbours: int, rows: int) -> None:
    """Refuse a number of neighbours that is out of range."""
    if isinstance(neighbours, bool) or not isinstance(neighbours, int) or neighbours < 1:
        raise ConfigError(f"neighbours={neighbours!r} is out of range; give a whole number from 1, such as 3.")
    if rows <= neighbours:
        raise ConfigError(
            f"neighbours={neighbours} were asked for among {rows} rows; give more rows than neighbours, "
            "or fewer neighbours."
        )
