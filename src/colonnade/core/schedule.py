"""Turns and their rows. The rows of a round follow from (seed, round) alone, so row numbers are never sent."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from colonnade.core.settings import Settings
from colonnade.errors import ConfigError

OWNER = "owner"
"""The owner's name in turns and in the ledger, whatever its table is called."""


def derive_seed(*parts: object) -> int:
    """A 63-bit seed derived from any printable parts, the same on every machine.

    >>> derive_seed(0, "rows", 3) == derive_seed(0, "rows", 3) != derive_seed(0, "rows", 4)
    True
    """
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def permutation(count: int, *seed: object) -> Tensor:
    """A seeded permutation of ``range(count)``."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(derive_seed(*seed)))


def sampling_order(table: str, rows: int) -> Tensor:
    """All rows of a table in the order in which a witness samples them: the same at every side, and no secret."""
    return permutation(rows, "witness", table)


@dataclass(frozen=True)
class Schedule:
    """Rows of every round, and which rows are held out for validation.

    An epoch visits every training row once, in batches; the last batch may be smaller.
    ``shuffle="epoch"`` draws a new order each epoch, ``"once"`` keeps the first (as VIM's authors do).

    >>> schedule = Schedule(rows=10, batch=4, seed=0, valid=0.2)
    >>> schedule.rounds_per_epoch, [len(schedule.batch_of(r)) for r in range(3)]
    (2, [4, 4, 4])
    """

    rows: int
    batch: int
    seed: int = 0
    valid: float = 0.0
    shuffle: str = "epoch"
    train_rows: Tensor = field(init=False, repr=False, compare=False)
    valid_rows: Tensor = field(init=False, repr=False, compare=False)
    _orders: dict[int, Tensor] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.valid, int | float) or not 0 <= self.valid < 1:
            raise ConfigError(f"valid={self.valid!r} is not a share; give a number from 0 to less than 1.")
        if self.shuffle not in ("epoch", "once"):
            raise ConfigError(f"shuffle='{self.shuffle}' is unknown; use 'epoch' or 'once'.")
        order = permutation(self.rows, self.seed, "split")
        held_out = round(self.valid * self.rows)
        object.__setattr__(self, "valid_rows", order[:held_out])
        object.__setattr__(self, "train_rows", order[held_out:])
        if not isinstance(self.batch, int) or not 1 <= self.batch <= len(self.train_rows):
            raise ConfigError(
                f"batch={self.batch} does not fit a table with {len(self.train_rows)} training rows; "
                f"give a number from 1 to {len(self.train_rows)}."
            )

    @property
    def held_out(self) -> list[Tensor]:
        """The held-out rows of each owner, of which there is one."""
        return [self.valid_rows]

    @property
    def rounds_per_epoch(self) -> int:
        """How many rounds visit every training row once."""
        return math.ceil(len(self.train_rows) / self.batch)

    def smallest_batch(self, rounds: int) -> int:
        """How many rows the smallest batch of the first ``rounds`` rounds has."""
        left = len(self.train_rows) % self.batch
        return left if left and rounds >= self.rounds_per_epoch else self.batch

    def batch_of(self, number: int) -> Tensor:
        """The rows of round ``number``."""
        epoch, position = divmod(number, self.rounds_per_epoch)
        order = self._order_of(epoch if self.shuffle == "epoch" else 0)
        return order[position * self.batch : (position + 1) * self.batch].clone()

    def rows_of(self, number: int, owner: int = 0) -> Tensor:
        """The rows of round ``number``; the one owner has all rows."""
        return self.batch_of(number)

    def _order_of(self, epoch: int) -> Tensor:
        if epoch not in self._orders:
            self._orders.clear()  # only the present epoch's order is needed
            self._orders[epoch] = self.train_rows[permutation(len(self.train_rows), self.seed, "epoch", epoch)]
        return self._orders[epoch]


@dataclass(frozen=True)
class SharedSchedule:
    """Rows of every round when several owners have the labels: each round uses the same number of rows of every owner.

    ``places`` are each owner's rows as the parties number them. An owner goes through its own rows in batches, in an
    order of its own. The last batch of a pass is filled up with rows of the batch before it, so all batches have the
    same size. An owner with fewer rows than a batch repeats them. In an epoch the rounds visit as many rows as there
    are in total: an owner with many rows may not use all of them, and one with few rows uses them more than once.

    >>> schedule = SharedSchedule((torch.arange(0, 10), torch.arange(10, 13)), batch=4)
    >>> schedule.rounds_per_epoch, schedule.batch_of(0).shape
    (2, torch.Size([2, 4]))
    """

    places: tuple[Tensor, ...]
    batch: int
    seed: int = 0
    valid: float = 0.0
    shuffle: str = "epoch"
    _each: tuple[Schedule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = sum(map(len, self.places))
        Schedule(rows, self.batch, self.seed, self.valid, self.shuffle)  # refuses values out of range
        each = []
        for number, place in enumerate(self.places):
            training = len(place) - round(self.valid * len(place))
            if not training:
                raise ConfigError(
                    f"valid={self.valid} leaves owner {number + 1} of {len(self.places)} no row to train on; "
                    "hold out fewer rows, or give that owner more."
                )
            seed = derive_seed(self.seed, "owner", number)
            each.append(Schedule(len(place), min(self.batch, training), seed, self.valid, self.shuffle))
        object.__setattr__(self, "_each", tuple(each))

    @property
    def held_out(self) -> list[Tensor]:
        """Each owner's rows that are held out, as the parties number them."""
        return [place[own.valid_rows] for place, own in zip(self.places, self._each, strict=True)]

    @property
    def valid_rows(self) -> Tensor:
        """All rows that are held out, as the parties number them."""
        return torch.cat(self.held_out)

    @property
    def rounds_per_epoch(self) -> int:
        """How many rounds visit as many rows as all owners train on."""
        return math.ceil(sum(len(own.train_rows) for own in self._each) / (self.batch * len(self._each)))

    def smallest_batch(self, rounds: int) -> int:
        """How many rows every batch of an owner has; it does not depend on the number of rounds."""
        return self.batch

    def batch_of(self, number: int) -> Tensor:
        """The rows of round ``number`` [owners, batch], each owner's numbered as its own table numbers them."""
        return torch.stack([self._filled(own, number) for own in self._each])

    def rows_of(self, number: int, owner: int = 0) -> Tensor:
        """One owner's rows of round ``number``, as the parties number them."""
        return self.places[owner][self._filled(self._each[owner], number)]

    def _filled(self, own: Schedule, number: int) -> Tensor:
        rows = own.batch_of(number)
        if len(rows) < own.batch:
            rows = torch.cat([own.batch_of(number - 1)[len(rows) - own.batch :], rows])
        return rows.repeat(math.ceil(self.batch / len(rows)))[: self.batch]


def schedule_of(
    how: Settings, rows: int, *, several_owners: bool, places: tuple[Tensor, ...] = ()
) -> Schedule | SharedSchedule:
    """The rows of every round of a training with these settings, as each side works them out by itself."""
    facts = how.batch, how.seed, how.valid, how.shuffle
    return SharedSchedule(places or (torch.arange(rows),), *facts) if several_owners else Schedule(rows, *facts)


PREDICT_ROWS = 4096  # rows per message when predicting; bounds memory, not bytes


@dataclass(frozen=True)
class Turn:
    """The facts of one round, the same at every side: its number, its rows, and their purpose.

    With several owners the rows of a round are [owners, rows], each owner's in its own numbers;
    :meth:`colonnade.core.method.Owners.turns` gives every owner's turn with the parties.
    """

    round: int
    rows: Tensor
    table: str = "train"
    purpose: str = "train"
    leader: str = OWNER
    """The owner that the parties reply to: the only one, or one of several by its name."""
    part: int = 0
    """The number of this part, when a table's rows are predicted in several parts."""
    training: bool = field(init=False, repr=False, compare=False)
    """Whether networks are in training mode (dropout, batch norm) in this turn."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "training", self.purpose == "train")
