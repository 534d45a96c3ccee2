"""Split learning: embeddings up, their gradients down. SplitNN, TVFL, VAFL, VIMSGD and LASER-VFL exchange these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from colonnade.core.disclosure import Disclosure
from colonnade.core.method import Method
from colonnade.methods.declarations import of_split_networks
from colonnade.methods.steps import follow


@dataclass(frozen=True, kw_only=True)
class SplitNetworks(Method):
    """A network at every party below something of the owner's, which is the method's own."""

    party_sends: ClassVar[str] = "embeddings"
    owner_sends: ClassVar[str] = "gradients of embeddings"
    embedding_gradients: ClassVar[bool] = True

    follow = staticmethod(follow)

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Columns by the embeddings, labels by their gradients."""
        return of_split_networks("embed", "follow")
