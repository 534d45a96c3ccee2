"""A few known labels and received gradients: a row has the label of the known rows whose gradients lie near its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, final

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import blind_guess, choose
from colonnade.privacy.attacks.row_features import backward, standardised, unit, windows_of
from colonnade.privacy.attacks.secret_streams import output_errors, slopes_with, with_secret
from colonnade.privacy.attacks.small_models import first_of_each_class, label_guesses, lacks_known
from colonnade.privacy.material import Array, Material, Stream


class FewLabels(Attack):
    """Known labels of a few rows, and gradients of all."""

    secret: ClassVar[str] = "labels"
    citation: ClassVar[str] = (
        "Fu, Zhang, Ji, Chen, Wu, Guo, Zhou, Liu, Wang: Label inference attacks against vertical federated learning, "
        "USENIX Security 2022 (its direct attack, with a few labels in place of the sign)"
    )
    without: ClassVar[str] = "guesses by the same labels from its own columns"

    def unfit(self, material: Material) -> str:
        """It needs gradients and known rows."""
        return lacks_known(material, self.rows_known) if backward(material) else "no gradients were received"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By gradients, or if they tell less by own columns."""
        messages = features_of(backward(material))
        return choose(material, guesses_by(material, [*messages, *own_features(material)], self.rows_known))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """By own columns."""
        return choose(material, guesses_by(material, own_features(material), self.rows_known))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Gradients through a head, of a model that knows the base rates."""
        return with_secret(material, backward(material), slopes_with(output_errors(material, rng), rng))


@register
@final
class OneLabel(FewLabels):
    """One known label a class."""

    name: ClassVar[str] = "one known label a class"
    adversary: ClassVar[str] = "keeps the gradients that it receives and knows the label of one row of every class"
    rows_known: ClassVar[int] = 1


@register
@final
class TenLabels(FewLabels):
    """Ten known labels a class."""

    name: ClassVar[str] = "ten known labels a class"
    adversary: ClassVar[str] = "keeps the gradients that it receives and knows the labels of ten rows of every class"
    rows_known: ClassVar[int] = 10


def features_of(streams: Iterable[Stream]) -> Iterator[Array]:
    """Each stream's means over windows of rounds, standardised, and as directions alone."""
    for stream in streams:
        for window in windows_of(stream.values).values():
            yield standardised(window)
            yield unit(np.nan_to_num(window))


def own_features(material: Material) -> list[Array]:
    """The adversary's own columns, standardised."""
    return [] if material.own is None else [standardised(material.own)]


def guesses_by(material: Material, features: Iterable[Array], each: int) -> Iterator[Array]:
    """Guesses by the labels of ``each`` known rows of every class, from every kind of features."""
    rows = first_of_each_class(material, each)
    yield blind_guess(material)
    for x in features:
        yield from label_guesses(material, x, rows)
