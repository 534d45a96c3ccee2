"""What a passive party of ``apfed`` reads from the owner's embedding: the owner's columns and labels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import choose
from colonnade.privacy.attacks.decoder import ROWS, lacks_rows, rebuilt, rebuilt_without
from colonnade.privacy.attacks.embedding_attack import EmbeddingAttack
from colonnade.privacy.attacks.row_features import received
from colonnade.privacy.attacks.secret_streams import embeddings_of, with_secret
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
class PassiveLabels(EmbeddingAttack):
    """Ten known labels a class, and the owner's embedding of all rows."""

    name: ClassVar[str] = "labels from the owner's embedding"
    citation: ClassVar[str] = CITATION
    adversary: ClassVar[str] = "keeps the owner's embeddings and knows the labels of ten rows of every class"
    missing: ClassVar[str] = NONE
    window: ClassVar[str] = "last"

    def embeddings(self, material: Material) -> list[Stream]:
        """The owner's."""
        return owner_embeddings(material)


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
