"""Labels from embeddings and logits that reached a side which is not the owner of the labels.

Such a side may be one of several owners, a party that is told the mean of all embeddings (``vfedmh``) or the others'
part of the top net's first layer (``cvfl``). What a passive party of ``apfed`` is told has an attack of its own.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import choose
from colonnade.privacy.attacks.few_labels import features_of, guesses_by, own_features
from colonnade.privacy.attacks.passive_embedding import owner_embeddings
from colonnade.privacy.attacks.row_features import forward, side_by_side, windows_of
from colonnade.privacy.attacks.secret_streams import embeddings_of, label_targets, with_secret
from colonnade.privacy.attacks.small_models import lacks_known
from colonnade.privacy.material import Array, Material, Stream


@register
class EmbeddingLabels(Attack):
    """Ten known labels a class, and others' embeddings of all rows."""

    name: ClassVar[str] = "labels from embeddings"
    secret: ClassVar[str] = "labels"
    citation: ClassVar[str] = (
        "Sun, Yang, Yao, Wang: Label leakage and protection from forward embedding in vertical federated learning, 2022"
    )
    adversary: ClassVar[str] = (
        "keeps the embeddings and logits of others that it receives and knows the labels of ten rows of every class"
    )
    without: ClassVar[str] = "guesses by the same labels from its own columns"
    rows_known: ClassVar[int] = 10

    def unfit(self, material: Material) -> str:
        """It needs embeddings of others, and known rows."""
        if not _embeddings(material):
            return "no embeddings or logits of others were received"
        return lacks_known(material, self.rows_known)

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By what came, alone and beside own columns, or if that tells less by own columns."""
        streams, own = _embeddings(material), own_features(material)
        both = [side_by_side([windows_of(stream.values)["late"] for stream in streams] + own)]
        return choose(material, guesses_by(material, [*features_of(streams), *both, *own], self.rows_known))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """By own columns."""
        return choose(material, guesses_by(material, own_features(material), self.rows_known))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings that separate the classes."""
        targets = label_targets(material)
        separate = targets + 0.1 * rng.standard_normal(targets.shape)
        return with_secret(material, _embeddings(material), embeddings_of(separate, rng))


def _embeddings(material: Material) -> list[Stream]:
    passive = {stream.name for stream in owner_embeddings(material)}
    return [stream for stream in forward(material) if stream.name not in passive]
