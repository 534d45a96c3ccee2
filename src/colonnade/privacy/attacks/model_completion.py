"""Completing the model: the party's trained network under a head that is fitted to ten known labels a class.

The control has the same labels, the same columns and the same network with fresh weights. Without it a completed model
looks like a leak even where the labels alone do the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import blind_guess, choose
from colonnade.privacy.attacks.row_features import standardised
from colonnade.privacy.attacks.secret_streams import embeddings_of, label_targets
from colonnade.privacy.attacks.small_models import (
    as_guess,
    first_of_each_class,
    label_guesses,
    lacks_known,
    logistic,
)
from colonnade.privacy.material import Array, Material, OwnNetwork


@register
class ModelCompletion(Attack):
    """A head on the party's own trained network."""

    name: ClassVar[str] = "model completion"
    secret: ClassVar[str] = "labels"
    citation: ClassVar[str] = (
        "Fu, Zhang, Ji, Chen, Wu, Guo, Zhou, Liu, Wang: Label inference attacks against vertical federated learning, "
        "USENIX Security 2022 (its passive attack; self-training in place of MixMatch)"
    )
    adversary: ClassVar[str] = "has its own trained network and knows the labels of ten rows of every class"
    without: ClassVar[str] = "fits the same labels on its own columns and on the same network untrained"
    rows_known: ClassVar[int] = 10
    trains: ClassVar[bool] = True

    def unfit(self, material: Material) -> str:
        """It needs a network, columns and known rows."""
        if material.network is None or material.own is None:
            return "the adversary has no network of its own"
        return lacks_known(material, self.rows_known)

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By the trained network, or if it tells less by what the control has."""
        assert material.network is not None and material.own is not None
        trained = standardised(material.network.trained(material.own))
        return choose(material, self._guesses(material, [trained, *_untrained(material)]))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """By own columns and the untrained network."""
        return choose(material, self._guesses(material, _untrained(material)))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """A trained network whose outputs separate the classes, where own columns do not."""
        assert material.network is not None and material.own is not None
        width = material.network.untrained(material.own).shape[1]
        targets = label_targets(material)
        separate = embeddings_of(targets + 0.1 * rng.standard_normal(targets.shape), rng)(1, width)[0]
        noise = rng.standard_normal(material.own.shape).astype(np.float32)
        return replace(material, own=noise, network=OwnNetwork(lambda rows: separate, material.network.untrained))

    def _guesses(self, material: Material, features: list[Array]) -> Iterator[Array]:
        rows = first_of_each_class(material, self.rows_known)
        yield blind_guess(material)
        for x in features:
            yield from label_guesses(material, x, rows)
            if material.classes:
                yield _self_trained(material, x, rows)


def _untrained(material: Material) -> list[Array]:
    assert material.network is not None and material.own is not None
    return [standardised(material.own), standardised(material.network.untrained(material.own))]


def _self_trained(material: Material, x: Array, rows: Array) -> Array:
    """A line that is fitted again, to the known rows and to the half of all rows of which it was surest."""
    first = logistic(x, rows, material.truth[rows], material.classes)
    sure = np.argsort(-first.max(1), kind="stable")[: len(x) // 2]
    labels = first.argmax(1)
    labels[rows] = material.truth[rows]
    both = np.union1d(sure, rows)
    return as_guess(logistic(x, both, labels[both], material.classes))
