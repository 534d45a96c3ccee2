"""What a passive party of ``apfed`` reads from the owner's embedding: the owner's columns and labels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import choose
from colonnade.privacy.attacks.decoder import ROWS, lacks_rows, rebuilt, rebuilt_without
from colonnade.privacy.attacks.few_labels import features_of, guesses_by, own_features
from colonnade.privacy.attacks.row_features import received, side_by_side, windows_of
from colonnade.privacy.attacks.secret_streams import embeddings_of, label_targets, with_secret
from colonnade.privacy.attacks.small_models import lacks_known
from colonnade.privacy.material import Array, Material, Stream

CITATION = (
    "Liu et al.: Active-passive federated learning for vertically partitioned multi-view data, arXiv 2409.04111 "
    "(the method; that its embedding may be read is our own point)"
)
NONE = "the owner sent no embedding of its own"


def owner_embeddings(material: Material) -> list[Stream]:
    """The streams in which the side whose secret it is sends its embedding to passive parties."""
    streams = received(material)
    return [stream for stream in streams if (stream.sender, stream.step, stream.field) == (material.of, "assist", "h")]


@register
class PassiveLabels(Attack):
    """Ten known labels a class, and the owner's embedding of all rows."""

    name: ClassVar[str] = "labels from the owner's embedding"
    secret: ClassVar[str] = "labels"
    citation: ClassVar[str] = CITATION
    adversary: ClassVar[str] = "keeps the owner's embeddings and knows the labels of ten rows of every class"
    without: ClassVar[str] = "guesses by the same labels from its own columns"
    rows_known: ClassVar[int] = 10

    def unfit(self, material: Material) -> str:
        """It needs the owner's embeddings, and known rows."""
        return lacks_known(material, self.rows_known) if owner_embeddings(material) else NONE

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By the embeddings, alone and beside own columns, or if they tell less by own columns."""
        streams, own = owner_embeddings(material), own_features(material)
        both = [side_by_side([windows_of(stream.values)["last"] for stream in streams] + own)]
        return choose(material, guesses_by(material, [*features_of(streams), *both, *own], self.rows_known))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """By own columns."""
        return choose(material, guesses_by(material, own_features(material), self.rows_known))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings that separate the classes."""
        targets = label_targets(material)
        separate = targets + 0.1 * rng.standard_normal(targets.shape)
        return with_secret(material, owner_embeddings(material), embeddings_of(separate, rng))


@register
class PassiveColumns(Attack):
    """A decoder of the owner's embedding that is fitted to rows known in full."""

    name: ClassVar[str] = "columns from the owner's embedding"
    secret: ClassVar[str] = "columns"
    citation: ClassVar[str] = CITATION
    adversary: ClassVar[str] = f"keeps the owner's embeddings and knows all of the owner's columns of {ROWS} rows"
    without: ClassVar[str] = "fits the same rows to its own columns, and to shuffled embeddings"
    rows_known: ClassVar[int] = ROWS
    trains: ClassVar[bool] = True

    def unfit(self, material: Material) -> str:
        """It needs the owner's embeddings, and known rows."""
        return lacks_rows(material) if owner_embeddings(material) else NONE

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By the embeddings, alone and beside own columns, or by own columns alone."""
        return choose(material, rebuilt(material, owner_embeddings(material), rng))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The mean, own columns, or shuffled embeddings."""
        return choose(material, rebuilt_without(material, owner_embeddings(material), rng))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings along the main directions of the columns."""
        return with_secret(material, owner_embeddings(material), embeddings_of(material.truth, rng))
