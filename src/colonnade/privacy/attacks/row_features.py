"""What an adversary makes of streams: a row of numbers for every row of the sample."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from colonnade.privacy.material import Array, Material, Stream

FORWARD = frozenset({"h", "h_others", "o"})
"""Names of fields that are computed from columns alone: embeddings and logits. All others may be computed from labels.

Methods name their fields so (CONTRIBUTING.md).
"""


def received(material: Material) -> list[Stream]:
    """The streams that the adversary did not send itself, with a number for at least one row."""
    others = [stream for stream in material.streams if stream.sender != material.adversary]
    return [stream for stream in others if presence(stream.values).any()]


def forward(material: Material) -> list[Stream]:
    """Received embeddings and logits."""
    return [stream for stream in received(material) if stream.field in FORWARD]


def backward(material: Material) -> list[Stream]:
    """Received gradients, duals and the like."""
    return [stream for stream in received(material) if stream.field not in FORWARD]


def presence(values: Array) -> Array:
    """Which rows have all their numbers in which round, bool [rounds, n]."""
    return np.asarray(np.isfinite(values).all(-1)) if values.shape[-1] else np.zeros(values.shape[:2], dtype=bool)


def windows_of(values: Array) -> dict[str, Array]:
    """Means [n, width] over five windows of each row's own appearances; NaN for rows that never appear."""
    there = presence(values)
    clean = np.where(there[..., None], values, 0)
    place, count = there.cumsum(0), there.sum(0)
    quarter = np.ceil(count / 4)
    masks = {
        "first": place == 1,
        "early": place <= quarter,
        "all": place > 0,
        "late": place > count - quarter,
        "last": place == count,
    }
    return {name: _means(clean, mask & there) for name, mask in masks.items()}


def _means(clean: Array, mask: Array) -> Array:
    count = mask.sum(0)[:, None]
    total = np.einsum("rn,rnw->nw", mask.astype(clean.dtype), clean).astype(np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def standardised(x: Array) -> Array:
    """Columns of mean 0 and deviation 1; constant columns and missing rows are 0."""
    wide = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    there = np.asarray(np.isfinite(wide).all(1))
    if not there.any() or not wide.shape[1]:
        return np.zeros((len(wide), max(wide.shape[1], 1)))
    mean, deviation = wide[there].mean(0), wide[there].std(0)
    scaled = (wide - mean) / np.where(deviation > 1e-12 * (1 + np.abs(mean)), deviation, np.inf)
    return np.where(there[:, None], scaled, 0.0)


def unit(x: Array) -> Array:
    """Every row scaled to length 1; missing rows are 0."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.where(np.isfinite(length) & (length > 0), x / np.where(length > 0, length, 1), 0.0)


def side_by_side(parts: Iterable[Array]) -> Array:
    """Standardised columns of several arrays [n, ...] next to each other."""
    return np.concatenate([standardised(part) for part in parts], axis=1)


def label_columns(labels: Array) -> Array:
    """Labels as columns: a class number as one column per class, values as they are."""
    if np.issubdtype(labels.dtype, np.integer) and labels.ndim == 1:
        return np.asarray(labels.reshape(-1, 1) == np.unique(labels).reshape(1, -1), dtype=np.float64)
    return np.asarray(labels, dtype=np.float64).reshape(len(labels), -1)


def without_streams(material: Material) -> list[Array]:
    """What the adversary knows of every row without messages: its own columns, and labels if it has them."""
    own = [] if material.own is None else [material.own]
    return own + ([] if material.labels is None else [label_columns(material.labels)])
