"""What the attacks on labels by embeddings share: ten known labels a class, and embeddings of all rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack
from colonnade.privacy.attacks.candidates import choose
from colonnade.privacy.attacks.few_labels import features_of, guesses_by, own_features
from colonnade.privacy.attacks.row_features import side_by_side, windows_of
from colonnade.privacy.attacks.secret_streams import embeddings_of, label_targets, with_secret
from colonnade.privacy.attacks.small_models import lacks_known
from colonnade.privacy.material import Array, Material, Stream


class EmbeddingAttack(Attack):
    """Ten known labels a class, and embeddings that the adversary received."""

    secret: ClassVar[str] = "labels"
    without: ClassVar[str] = "guesses by the same labels from its own columns"
    rows_known: ClassVar[int] = 10
    missing: ClassVar[str]
    """Why it cannot be tried without such embeddings."""
    window: ClassVar[str]
    """Which rounds' embeddings stand beside own columns, see ``row_features.windows_of``."""

    @abstractmethod
    def embeddings(self, material: Material) -> list[Stream]:
        """The embeddings that it reads."""

    def unfit(self, material: Material) -> str:
        """It needs embeddings, and known rows."""
        return lacks_known(material, self.rows_known) if self.embeddings(material) else self.missing

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By the embeddings, alone and beside own columns, or if they tell less by own columns."""
        streams, own = self.embeddings(material), own_features(material)
        both = [side_by_side([windows_of(stream.values)[self.window] for stream in streams] + own)]
        return choose(material, guesses_by(material, [*features_of(streams), *both, *own], self.rows_known))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """By own columns."""
        return choose(material, guesses_by(material, own_features(material), self.rows_known))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings that separate the classes."""
        targets = label_targets(material)
        separate = targets + 0.1 * rng.standard_normal(targets.shape)
        return with_secret(material, self.embeddings(material), embeddings_of(separate, rng))
