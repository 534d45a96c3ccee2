"""What the owner can rebuild of the parties' columns from the numbers that it read in training.

The owner is given some training rows in full, as a leak or customers of its own would give them. It learns a decoder
from the numbers that it last read about these rows to all columns of all parties, and is scored on other training
rows: R2 is 1 if every column is rebuilt, and 0 for whoever gives every row the mean of the known ones.

Two controls. *Labels only*: the decoder reads nothing but the labels, which the owner has anyway. *Shuffled*: the
decoder reads the numbers of other rows; above 0 it would say that the measure itself is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.linear_model import RidgeCV
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import colonnade as cn
from colonnade.core.schedule import Turn, permutation
from colonnade.wire.owner_half import OwnerHalf

Array = np.ndarray
PENALTIES = 10.0 ** np.arange(0, 6)
WATCHED, SCORED = 12_000, 4_000  # rows


class Heard:
    """The last numbers that the owner read about some training rows, by sender and field."""

    def __init__(self, rows: int, watched: int = WATCHED) -> None:
        self.rows = permutation(rows, "watched")[:watched]
        self._place = torch.full((rows,), -1)
        self._place[self.rows] = torch.arange(len(self.rows))
        self._last: dict[str, Tensor] = {}
        self._total: dict[str, Tensor] = {}
        self._count: dict[str, Tensor] = {}

    def note(self, sender: str, message: Any, turn: Turn) -> None:
        """Keep a reply's numbers of the watched rows, if it is one of training and has numbers of every row."""
        place = self._place[turn.rows] if turn.training else torch.empty(0)
        for name, value in zip(message._fields, message, strict=True):
            if turn.training and value.ndim > 1 and len(value) == len(place):
                numbers = value.detach().flatten(1)
                last = self._last.setdefault(f"{sender} {name}", torch.full((len(self.rows), numbers.shape[1]), np.nan))
                last[place[place >= 0]] = numbers[place >= 0]
                total = self._total.setdefault(f"{sender} {name}", torch.zeros_like(last))
                total[place[place >= 0]] += numbers[place >= 0]
                count = self._count.setdefault(f"{sender} {name}", torch.zeros(len(self.rows), 1))
                count[place[place >= 0]] += 1

    def numbers(self) -> tuple[Array, Array]:
        """The rows that the owner read something about from everybody, and those numbers [rows, numbers]."""
        read = torch.cat(list(self._last.values()), 1)
        known = ~read.isnan().any(1)
        return self.rows[known].numpy(), read[known].numpy()

    def averaged(self) -> tuple[Array, Array]:
        """As :meth:`numbers`, with the mean over all messages about a row instead of the last one."""
        means = torch.cat([total / self._count[key] for key, total in self._total.items()], 1)
        known = ~means.isnan().any(1)
        return self.rows[known].numpy(), means[known].numpy()


@contextmanager
def listening(rows: int, watched: int = WATCHED) -> Iterator[Heard]:
    """Notes every reply in training as the owner reads it; of a blinded sum there is only the sum to be noted."""
    heard, opened, summed = Heard(rows, watched), OwnerHalf.open, OwnerHalf.open_sum

    def open_one(half: OwnerHalf, answer: Any, party: str, step: str, turn: Turn, **options: Any) -> Any:
        message = opened(half, answer, party, step, turn, **options)
        heard.note(party, message, turn)
        return message

    def open_sum(half: OwnerHalf, blinding: Any, kind: Any, form: Any, task: Any) -> Any:
        message = summed(half, blinding, kind, form, task)
        heard.note("sum", message, task.turn)
        return message

    with patch.object(OwnerHalf, "open", open_one), patch.object(OwnerHalf, "open_sum", open_sum):
        yield heard


def columns_of(tables: Sequence[cn.Table], rows: Array) -> Array:
    """All that the parties have about these rows [rows, numbers]."""
    whole = torch.cat([table.columns[rows].flatten(1) for table in tables if table.columns is not None], 1)
    return (whole.float() / 255 if whole.dtype == torch.uint8 else whole).numpy()


def classes_of(tables: Sequence[cn.Table], rows: Array) -> Array:
    """The owner's classes of these rows, one column each."""
    y = np.asarray(tables[0].labels)
    return np.asarray(np.eye(int(y.max()) + 1)[y[rows]])


def r2(read: Array, columns: Array, *, known: int = 200, by: str = "ridge", seed: int = 0) -> float:
    """How well a decoder that was given ``known`` rows rebuilds rows that it was not given."""
    order = np.random.default_rng([seed, known]).permutation(len(read))
    given, rest = order[:known], order[known : known + SCORED]
    scale = StandardScaler().fit(read[given])
    model = decoder(by, seed).fit(scale.transform(read[given]), columns[given])
    rebuilt = model.predict(scale.transform(read[rest])).reshape(len(rest), -1)
    around = np.square(columns[rest] - columns[given].mean(0)).sum()
    return float(1 - np.square(columns[rest] - rebuilt).sum() / around)


def decoder(by: str, seed: int) -> Any:
    """A line, its penalty chosen on known rows, or a network that stops when it gets worse on some of them."""
    if by == "ridge":
        return RidgeCV(PENALTIES)
    return MLPRegressor(hidden_layer_sizes=(256,), alpha=0.01, early_stopping=True, max_iter=300, random_state=seed)


def shuffled(read: Array, seed: int = 0) -> Array:
    """The numbers of other rows."""
    return np.random.default_rng([seed, 99]).permutation(read)
