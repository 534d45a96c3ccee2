"""Scoring the gradients of embeddings by norm, by direction and along their first principal component; no label known.

With two classes the gradient of a row's embedding is (p - y) times a vector that all rows nearly share: its sign is the
label, and its length is greater for the rarer class. That fixes the sign where a model follows base rates; a model that
has learnt more, or a seal, can turn it. So every score is tried both ways on the rows ``chosen_on``, as windows and
rules are, for the attack and for its control.
"""

from __future__ import annotations

from itertools import chain
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import choose
from colonnade.privacy.attacks.row_features import backward
from colonnade.privacy.attacks.row_scores import blind_guesses, both_ways, guesses_from
from colonnade.privacy.attacks.secret_streams import output_errors, slopes_with, with_secret
from colonnade.privacy.material import Array, Material


@register
class GradientScoring(Attack):
    """Norm, direction and main component of gradients, in each round and of their means over rounds."""

    name: ClassVar[str] = "gradient scoring"
    secret: ClassVar[str] = "labels"
    citation: ClassVar[str] = (
        "Li, Sun, Yang, Gao, Zhang, Xie, Smith, Wang: Label leakage and protection in two-party split learning, "
        "ICLR 2022; Sun, Yang, Yao, Wang: Label leakage and protection from forward embedding in vertical federated "
        "learning, 2022"
    )
    adversary: ClassVar[str] = (
        "keeps the gradients that it receives and knows no label; it knows which end of its scores is which class"
    )
    without: ClassVar[str] = "scores its own columns in the same ways"

    def unfit(self, material: Material) -> str:
        """It needs gradients, and two classes."""
        if material.classes != 2:
            return "it tells two classes apart, and the labels are others"
        return "" if backward(material) else "no gradients were received"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """The rule, stream and window that are best on the rows to choose on; own columns if they are better."""
        each = [guesses_from(material, stream.values) for stream in backward(material)]
        return choose(material, both_ways(chain(blind_guesses(material), *each)))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The same rules on own columns."""
        return choose(material, both_ways(blind_guesses(material)))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Gradients through a head, of a model that knows the base rates."""
        return with_secret(material, backward(material), slopes_with(output_errors(material, rng), rng))
