"""Solving equations: where what a party sends is linear in its columns, known rows give every other row exactly.

A message m = A x + b of at least as many numbers as there are columns is undone by as many known rows as columns and
one, whatever A and b are, as long as they are the same for all these rows: in one round, or in rounds that all have
all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import blind_guess, choose
from colonnade.privacy.attacks.decoder import ROWS
from colonnade.privacy.attacks.row_features import presence, received, side_by_side, standardised, without_streams
from colonnade.privacy.attacks.secret_streams import Maker, with_secret
from colonnade.privacy.attacks.small_models import line
from colonnade.privacy.material import Array, Material, Stream

STACKED = 16
"""How many whole rounds are solved together at most."""
PRECISION = 1e-5
"""Relative size of the numbers that are taken for rounding errors of float32."""


@register
class Equations(Attack):
    """Least squares from messages to columns, round by round."""

    name: ClassVar[str] = "equations"
    secret: ClassVar[str] = "columns"
    citation: ClassVar[str] = (
        "Luo, Wu, Xiao, Ooi: Feature inference attack on model predictions in vertical federated learning, ICDE 2021 "
        "(its equality solving attack, with known rows in place of known weights)"
    )
    adversary: ClassVar[str] = (
        f"keeps the messages that it receives and knows all columns of a few of {ROWS} rows: in one round as many as "
        "there are columns and one"
    )
    without: ClassVar[str] = "fits the same rows to what it has of its own (columns, labels)"
    rows_known: ClassVar[int] = ROWS

    def unfit(self, material: Material) -> str:
        """It needs as many numbers as there are columns, and known rows that share a round."""
        systems = [system for stream in received(material) for system in _systems(stream)]
        columns = material.truth.shape[1]
        if not systems:
            return "no messages were received"
        if max(system.shape[1] for system in systems) < columns:
            return f"no message has as many numbers as there are columns ({columns})"
        most = max(len(_known_in(material, system)) for system in systems)
        if most > columns:
            return ""
        return f"it needs {columns + 1} known rows in one round, and at most {most} are there"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """Each row by that round of a stream which fits best on the rows to choose on."""
        return choose(material, _solutions(material))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The mean, or a line from what it has of its own."""
        return choose(material, _own_solutions(material))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """What a linear network gives, with other weights in every round."""
        return with_secret(material, received(material), _linear(material.truth, rng))


def _systems(stream: Stream) -> list[Array]:
    """Values [n, numbers] that one system of equations may explain; NaN for rows that are not in it."""
    there = presence(stream.values)
    whole = stream.values[there.all(1)]
    if len(whole) < 2:
        return list(stream.values)
    places = np.unique(np.linspace(0, len(whole) - 1, STACKED).astype(int))
    return [*stream.values, np.concatenate(list(whole[places]), axis=1)]


def _known_in(material: Material, system: Array) -> Array:
    rows = material.known[:ROWS]
    return np.asarray(rows[np.isfinite(system[rows]).all(1)])


def _own_solutions(material: Material) -> Iterator[Array]:
    yield blind_guess(material)
    rows, own = material.known[:ROWS], without_streams(material)
    if own and len(rows):
        yield line(side_by_side(own), rows, np.asarray(material.truth[rows], dtype=np.float64))


def _solutions(material: Material) -> Iterator[Array]:
    """Guesses of all rows: by each stream, and without any."""
    yield from _own_solutions(material)
    for stream in received(material):
        best = np.array(blind_guess(material))
        error = np.full(len(best), np.inf)
        for system in _systems(stream):
            rows = _known_in(material, system)
            if len(rows) > material.truth.shape[1]:
                solved = _solve(system, rows, material.truth[rows])
                here = np.isfinite(system).all(1)
                missed = _error(material, solved, here)
                better = here & (missed < error)
                best[better], error[better] = solved[better], missed
        yield best


def _solve(system: Array, rows: Array, columns: Array) -> Array:
    with_one = np.concatenate([standardised(system), np.ones((len(system), 1))], axis=1)
    return np.asarray(with_one @ np.linalg.lstsq(with_one[rows], columns.astype(np.float64), rcond=PRECISION)[0])


def _error(material: Material, solved: Array, here: Array) -> float:
    """The mean squared error on the rows to choose on that this system has; great if it has none."""
    rows = material.chosen_on[here[material.chosen_on]]
    scale = np.maximum(material.truth.std(0), np.finfo(np.float32).eps)
    return float(np.square((solved[rows] - material.truth[rows]) / scale).mean()) if len(rows) else 1e9


def _linear(columns: Array, rng: np.random.Generator) -> Maker:
    def make(rounds: int, width: int) -> Array:
        weights = rng.standard_normal((rounds, columns.shape[1], width))
        return np.asarray(standardised(columns) @ weights + rng.standard_normal((rounds, 1, width)))

    return make
