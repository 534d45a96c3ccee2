"""From raw columns to network inputs, each party for itself: what is learnt stays with the party's model."""

from colonnade.prepare.labels import Labels, labels_of
from colonnade.prepare.preparation import Preparation, fit

__all__ = ["Labels", "Preparation", "fit", "labels_of"]
