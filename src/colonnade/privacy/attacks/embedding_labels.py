"""Labels from embeddings and logits that reached a side which is not the owner of the labels.

Such a side may be one of several owners, a party that is told the mean of all embeddings (``vfedmh``) or the others'
part of the top net's first layer (``cvfl``). What a passive party of ``apfed`` is told has an attack of its own.
"""

from __future__ import annotations

from typing import ClassVar

from colonnade.privacy.attack import register
from colonnade.privacy.attacks.embedding_attack import EmbeddingAttack
from colonnade.privacy.attacks.passive_embedding import owner_embeddings
from colonnade.privacy.attacks.row_features import forward
from colonnade.privacy.material import Material, Stream


@register
class EmbeddingLabels(EmbeddingAttack):
    """Ten known labels a class, and others' embeddings of all rows."""

    name: ClassVar[str] = "labels from embeddings"
    citation: ClassVar[str] = (
        "Sun, Yang, Yao, Wang: Label leakage and protection from forward embedding in vertical federated learning, 2022"
    )
    adversary: ClassVar[str] = (
        "keeps the embeddings and logits of others that it receives and knows the labels of ten rows of every class"
    )
    missing: ClassVar[str] = "no embeddings or logits of others were received"
    window: ClassVar[str] = "late"

    def embeddings(self, material: Material) -> list[Stream]:
        """All that are forward, but those of the owner of ``apfed``."""
        passive = {stream.name for stream in owner_embeddings(material)}
        return [stream for stream in forward(material) if stream.name not in passive]
