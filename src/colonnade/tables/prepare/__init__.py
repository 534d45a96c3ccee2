"""From raw columns to network inputs, each party for itself: what is learnt stays with the party's model."""

from colonnade.tables.prepare.label_column import LabelColumn, labels_of
from colonnade.tables.prepare.preparation import Preparation, fit

__all__ = ["LabelColumn", "Preparation", "fit", "labels_of"]
