"""Reading one categorical attribute from messages, with 200 known rows: often easier than all columns, and enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import blind_guess, choose
from colonnade.privacy.attacks.decoder import ROWS, lacks_rows, last_and_all
from colonnade.privacy.attacks.row_features import received, side_by_side, without_streams
from colonnade.privacy.attacks.secret_streams import embeddings_of, label_targets, with_secret
from colonnade.privacy.attacks.small_models import as_guess, logistic
from colonnade.privacy.material import Array, Material

COMMON = 0.95
"""The greatest share that the commonest value may have: of rarer ones too few rows are known, and judged."""


@register
class OneCategory(Attack):
    """The categorical column whose values are most evenly spread."""

    name: ClassVar[str] = "one category"
    secret: ClassVar[str] = "columns"
    citation: ClassVar[str] = (
        "Song, Shmatikov: Overlearning reveals sensitive attributes, ICLR 2020 (attribute inference from embeddings)"
    )
    adversary: ClassVar[str] = f"keeps the messages that it receives and knows one categorical column of {ROWS} rows"
    without: ClassVar[str] = "fits the same rows to what it has of its own (columns, labels)"
    rows_known: ClassVar[int] = ROWS

    def judged(self, material: Material) -> Material:
        """The material with the numbers of the column's values as its truth."""
        if material.truth.ndim == 1 or not material.categories:
            return material
        column = max(material.categories, key=lambda number: _evenness(material.truth[:, number]))
        values, numbers = np.unique(material.truth[:, column], return_inverse=True)
        return replace(material, truth=numbers.astype(np.int64), classes=max(len(values), 2))

    def unfit(self, material: Material) -> str:
        """It needs a categorical column, messages and known rows."""
        if not material.categories:
            return "no column is categorical"
        counts = np.bincount(self.judged(material).truth)
        if counts.max() > COMMON * counts.sum():
            return f"every categorical column has the same value in more than {COMMON:.0%} of the rows"
        return lacks_rows(material) if received(material) else "no messages were received"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By messages, alone and beside what it has of its own, or by the latter alone."""
        material, streams = self.judged(material), received(material)
        own, (last, messages) = without_streams(material), last_and_all(streams)
        return choose(material, _told(material, [own, last, messages + own]))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """By what it has of its own, or the commonest value."""
        material = self.judged(material)
        return choose(material, _told(material, [without_streams(material)]))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings that separate the values."""
        material = self.judged(material)
        targets = label_targets(material)
        separate = targets + 0.1 * rng.standard_normal(targets.shape)
        return with_secret(material, received(material), embeddings_of(separate, rng))


def _evenness(column: Array) -> float:
    """The entropy of a column's values, as a share of what it could be."""
    shares = np.unique(column, return_counts=True)[1] / len(column)
    return float(-(shares * np.log(shares)).sum() / np.log(len(shares))) if len(shares) > 1 else 0.0


def _told(material: Material, features: list[list[Array]]) -> Iterator[Array]:
    rows = material.known[:ROWS]
    yield blind_guess(material)
    for parts in features:
        if parts:
            yield as_guess(logistic(side_by_side(parts), rows, material.truth[rows], material.classes))
