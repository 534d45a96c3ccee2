"""Attacks on what sides received, one file each, with a citation, a threat model and a control.

Importing this package registers them. Their helpers are ``row_features.py`` (from streams to numbers of a row),
``row_scores.py`` (scores without a label), ``small_models.py`` (models of few known rows), ``candidates.py`` (which
guess is taken) and ``secret_streams.py`` (positive controls).
"""

from colonnade.privacy.attacks import (
    category,
    counting_ids,
    decoder,
    embedding_labels,
    equations,
    few_labels,
    gradient_scoring,
    label_reading,
    membership,
    model_completion,
    others_columns,
    passive_embedding,
    shadow_run,
)

__all__ = [
    "category",
    "counting_ids",
    "decoder",
    "embedding_labels",
    "equations",
    "few_labels",
    "gradient_scoring",
    "label_reading",
    "membership",
    "model_completion",
    "others_columns",
    "passive_embedding",
    "shadow_run",
]
