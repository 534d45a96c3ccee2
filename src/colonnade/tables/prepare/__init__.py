"""From raw columns to network inputs. Each party prepares its own columns, and keeps what it learnt with its model."""

from colonnade.tables.prepare.label_column import LabelColumn, labels_of
from colonnade.tables.prepare.preparation import Preparation, fit

__all__ = ["LabelColumn", "Preparation", "fit", "labels_of"]
