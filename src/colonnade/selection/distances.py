"""A party's replies in a selection: the distances of its rows, or only which row is nearer than which.

Squared distances add up over parties, so the distances of a group of parties are a sum, which :meth:`Parties.sum` can
blind. The sample of rows follows from the seed; its first rows are the queries. All steps are asked for and counted
like training steps, with the purpose "select".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.core.method import Mine, Turn, party_step
from colonnade.core.schedule import permutation
from colonnade.errors import ConfigError, MessageError
from colonnade.selection.information import ranks
from colonnade.selection.row_order import KEY_BYTES, Secret

MOST_QUERIES, MOST_ROWS = 500, 2000
PURPOSE = "select"


class Distances(NamedTuple):
    """Squared distances from queries to rows, [Q, N], or of the cells that were asked for."""

    squared: Tensor


class Ranks(NamedTuple):
    """How many rows are nearer to each query than each row, int16 [Q, N]."""

    nearer: Tensor


class OrderKey(NamedTuple):
    """The key from which orders and lengths follow, uint8."""

    key: Tensor


class Cells(NamedTuple):
    """The wanted rows of each query as packed bits, uint8 [Q, N / 8]."""

    bits: Tensor


@dataclass(frozen=True)
class Sample:
    """The rows between which distances are computed; the first ``queries`` of them are the queries."""

    rows: Tensor
    queries: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of queries and of rows."""
        return self.queries, len(self.rows)

    def turn(self, number: int, orders: tuple[Tensor, Tensor] | None = None) -> Turn:
        """The turn with these rows, or with the same rows in another order."""
        if orders is None:
            return Turn(number, self.rows, purpose=PURPOSE)
        return Turn(number, self.rows[torch.cat(orders)], purpose=PURPOSE)

    def shuffled(self, secret: Secret, number: int) -> tuple[Tensor, Tensor]:
        """An order of the queries, and one of the other rows."""
        queries = secret.order(self.queries, "queries", number)
        return queries, self.queries + secret.order(len(self.rows) - self.queries, "rows", number)


def draw_sample(rows: int, most_queries: int, most_rows: int, seed: int) -> Sample:
    """A seeded sample of at most ``most_rows`` rows and ``most_queries`` queries."""
    for what, count, most in (("queries", most_queries, MOST_QUERIES), ("rows", most_rows, MOST_ROWS)):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
            raise ConfigError(
                f"{what}={count!r} is out of range; give a whole number from 1 to {most}, because who has more "
                "distances can rebuild the rows better."
            )
    chosen = permutation(rows, seed, "select")[:most_rows]
    return Sample(chosen, min(most_queries, len(chosen)))


def squared_distances(values: Tensor, queries: int) -> Tensor:
    """Squared Euclidean distances [Q, N] from the first rows to all rows.

    >>> squared_distances(torch.tensor([[0.0], [3.0], [5.0]]), queries=2)
    tensor([[ 0.,  9., 25.],
            [ 9.,  0.,  4.]])
    """
    flat = values.flatten(1)
    # The faster form, a product of matrices, loses ties and can be negative.
    return torch.cdist(flat[:queries], flat, compute_mode="donot_use_mm_for_euclid_dist").square()


def standardised(values: Tensor) -> Tensor:
    """Columns of mean 0 and variance 1; a constant column becomes 0."""
    flat = values.flatten(1)
    centred = flat - flat.mean(0)
    spread = centred.square().mean(0).sqrt()
    return torch.where(spread > 0, centred / spread.clamp(min=1e-12), torch.zeros_like(centred))


@dataclass(frozen=True)
class Steps:
    """The party steps of a selection.

    ``on_one_scale`` says for each party whether its columns have the same scale already, as pixels do; otherwise they
    are standardised.
    """

    queries: int
    on_one_scale: tuple[bool, ...]

    @party_step
    def remember(self, mine: Mine, turn: Turn, message: OrderKey) -> None:
        """Keep the key that the helper must not know."""
        mine.memory["key"] = message.key

    @party_step
    def distances(self, mine: Mine, turn: Turn) -> Distances:
        """The party's own distances, unchanged."""
        values = mine.inputs(turn)
        even = values if self.on_one_scale[mine.members[0]] else standardised(values)
        return Distances(squared_distances(even, self.queries))

    @party_step
    def order(self, mine: Mine, turn: Turn) -> Ranks:
        """Only the order of the rows by the party's own distances."""
        return Ranks(ranks(self.distances(mine, turn).squared))

    @party_step
    def stretched(self, mine: Mine, turn: Turn) -> Distances:
        """The party's distances in a secret unit per query and sum, which does not change their order."""
        secret = Secret(mine.memory["key"].numpy().tobytes())
        units = secret.lengths(self.queries, "units", turn.round)
        return Distances(self.distances(mine, turn).squared * units[:, None])

    @party_step
    def want(self, mine: Mine, turn: Turn, message: Cells) -> None:
        """Keep the wanted cells for :meth:`some`."""
        mine.scratch["cells"] = message.bits

    @party_step
    def some(self, mine: Mine, turn: Turn) -> Distances:
        """As :meth:`stretched`, but only the wanted cells, as a flat tensor."""
        return Distances(self.stretched(mine, turn).squared[unpacked(Cells(mine.scratch["cells"]), len(turn.rows))])


def key_message(secret: Secret) -> OrderKey:
    """The key as the owner's message to the parties."""
    assert len(secret.key) == KEY_BYTES
    return OrderKey(torch.frombuffer(bytearray(secret.key), dtype=torch.uint8))


def packed(cells: Tensor) -> Cells:
    """The wanted cells [Q, N] as a message.

    >>> wanted = torch.tensor([[True, False, True]])
    >>> torch.equal(unpacked(packed(wanted), 3), wanted)
    True
    """
    return Cells(torch.from_numpy(np.packbits(cells.numpy(), axis=1)))


def unpacked(message: Cells, rows: int) -> Tensor:
    """The wanted cells [Q, N] of a message."""
    return torch.from_numpy(np.unpackbits(message.bits.numpy(), axis=1, count=rows).astype(bool))


def checked_distances(distances: Tensor, shape: tuple[int, ...], whose: str) -> Tensor:
    """Received distances, if they have the expected shape and none is negative."""
    if tuple(distances.shape) != shape:
        raise MessageError(
            f"{whose} answered distances of shape {tuple(distances.shape)} where {shape} were asked for; "
            "check that all sides use the same version, or leave that party out."
        )
    if distances.numel() and float(distances.min()) < 0:
        raise MessageError(
            f"{whose} answered a squared distance of {float(distances.min()):g}, and none is below 0; "
            "check the columns there, or leave that party out."
        )
    return distances


def checked_ranks(received: Tensor, shape: tuple[int, int], whose: str) -> Tensor:
    """Received ranks, if they have the expected shape and type and all are in range."""
    if tuple(received.shape) != shape or received.dtype != torch.int16:
        raise MessageError(
            f"{whose} answered an order of shape {tuple(received.shape)} and type {received.dtype} where {shape} ranks "
            "in int16 were asked for; check that all sides use the same version."
        )
    if not 0 <= int(received.min()) <= int(received.max()) < shape[1]:
        raise MessageError(
            f"{whose} answered ranks from {int(received.min())} to {int(received.max())} of {shape[1]} rows; "
            f"they go from 0 to {shape[1] - 1}, so leave that side out."
        )
    return received
