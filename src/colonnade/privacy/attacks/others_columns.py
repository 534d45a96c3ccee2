"""What a party tells of another side's columns from what the owner answers: means, sums, gradients, residuals.

An answer that is computed from everybody's part holds the others' part as well: less its own part, a mean embedding is
that of the others, and a gradient of outputs is what all columns predict, less the label. What labels alone tell of
columns is no news to a party that reads them, and is declared of labels; so the control is given them too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import blind_guess, choose
from colonnade.privacy.attacks.decoder import ROWS, decoded, lacks_rows, last_and_all
from colonnade.privacy.attacks.row_features import label_columns, received, without_streams
from colonnade.privacy.attacks.secret_streams import embeddings_of, with_secret
from colonnade.privacy.material import Array, Material


@register
class OthersColumns(Attack):
    """A decoder of the owner's answers, beside the party's own columns, what it sent, and the labels."""

    name: ClassVar[str] = "columns from answers"
    secret: ClassVar[str] = "columns"
    from_answers: ClassVar[bool] = True
    citation: ClassVar[str] = (
        "Luo, Wu, Xiao, Ooi: Feature inference attack on model predictions in vertical federated learning, ICDE 2021 "
        "(its adversary, a party that sees what all predict together, here with known rows and messages of training)"
    )
    adversary: ClassVar[str] = (
        f"keeps the answers that it receives, knows the labels and all of those columns of {ROWS} rows"
    )
    without: ClassVar[str] = "fits the same rows to its own columns and messages and to the labels"
    rows_known: ClassVar[int] = ROWS
    trains: ClassVar[bool] = True

    def unfit(self, material: Material) -> str:
        """It needs answers, and known rows."""
        return lacks_rows(material) if received(material) else "no messages were received"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By answers, alone and beside what it has of its own, or by the latter alone."""
        last, every = last_and_all(received(material))
        own = _own(material)
        with_answers = [last, last + own, every + own]
        return choose(material, chain(_without(material), _rebuilt(material, with_answers, rng)))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The mean, what it has of its own, or that beside shuffled answers."""
        others = rng.permutation(len(material.truth))
        shuffled = [values[others] for values in last_and_all(received(material))[0]]
        return choose(material, chain(_without(material), _rebuilt(material, [shuffled + _own(material)], rng)))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings along the main directions of the columns."""
        return with_secret(material, received(material), embeddings_of(material.truth, rng))


def _own(material: Material) -> list[Array]:
    """Its columns, the labels, and what it sent itself."""
    return without_streams(material) + last_and_all(material.sent)[0]


def _without(material: Material) -> Iterator[Array]:
    """The same models for the attack and for its control, with labels of more or of less weight."""
    labels = [] if material.labels is None else [label_columns(material.labels)]
    yield blind_guess(material)
    yield from _rebuilt(material, [_own(material), _own(material) + labels], np.random.default_rng(0))


def _rebuilt(material: Material, features: list[list[Array]], rng: np.random.Generator) -> Iterator[Array]:
    for parts in features:
        yield from decoded(material, parts, rng)
