"""What the owner can rebuild of the parties' columns from the numbers that it read in training.

The owner is given some training rows in full, as a leak or customers of its own would give them. It learns a decoder
from the numbers that it last read about these rows to all columns of all parties, and is scored on other training
rows: R2 is 1 if every column is rebuilt, and 0 for whoever gives every row the mean of the known ones.

Two controls. *Labels only*: the decoder reads nothing but the labels, which the owner has anyway. *Shuffled*: the
decoder reads the numbers of other rows; above 0 it would say that the measure itself is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import RidgeCV
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import colonnade as cn
from colonnade.wire.ledger import OWNER
from colonnade.wire.view import View

Array = np.ndarray
PENALTIES = 10.0 ** np.arange(0, 6)
SCORED = 4_000  # rows
WATCHED = cn.Recording(rows=12_000, megabytes=512)
"""What a run must record (``record=WATCHED``) so that enough rows are there to learn from and to score."""


def last_read(view: View) -> tuple[Array, Array]:
    """The rows that the owner read something about from everybody in training, and the last such numbers of each.

    Of a blinded sum there is only the sum to be read.
    """
    last: dict[str, Array] = {}
    for name, places, numbers in _read(view):
        last.setdefault(name, np.full((len(view.sample), numbers.shape[1]), np.nan, dtype=np.float32))[places] = numbers
    return _of_everybody(view, last)


def mean_read(view: View) -> tuple[Array, Array]:
    """As :func:`last_read`, with the mean over all recorded messages about a row instead of the last one."""
    totals: dict[str, Array] = {}
    counts: dict[str, Array] = {}
    for name, places, numbers in _read(view):
        totals.setdefault(name, np.zeros((len(view.sample), numbers.shape[1]), dtype=np.float32))[places] += numbers
        counts.setdefault(name, np.zeros((len(view.sample), 1), dtype=np.float32))[places] += 1
    with np.errstate(invalid="ignore"):  # no message about a row: not a number
        return _of_everybody(view, {name: total / counts[name] for name, total in totals.items()})


def _read(view: View) -> Iterator[tuple[str, Array, Array]]:
    """What the owner read in training: sender and field, the rows' places in the sample, the numbers."""
    for one in view.seen:
        if one.purpose == "train" and one.receiver == OWNER:
            for name, value in one.fields.items():
                if value.ndim > 1:
                    places = np.searchsorted(view.sample, one.rows)
                    yield f"{one.sender} {name}", places, value.reshape(len(value), -1)


def _of_everybody(view: View, read: dict[str, Array]) -> tuple[Array, Array]:
    whole = np.concatenate([*read.values()], 1)
    known = ~np.isnan(whole).any(1)
    return view.sample[known], whole[known]


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
