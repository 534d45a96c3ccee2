"""Streams with the secret put into them, for positive controls: the shapes of real ones, made without any seal.

Nothing else is left to the adversary, so that an attack passes only by what it makes of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from colonnade.privacy.attacks.candidates import width_of
from colonnade.privacy.attacks.row_features import presence, standardised
from colonnade.privacy.material import Array, Material, Stream

Maker = Callable[[int, int], Array]
"""From the number of rounds and a width to values [rounds, n, width]."""


def with_secret(material: Material, streams: Collection[Stream], make: Maker) -> Material:
    """The material with other values in these streams, where the real ones have values, and without own columns."""
    names = {stream.name for stream in streams}
    made = [_planted(stream, make) if stream.name in names else stream for stream in material.streams]
    labels = material.labels if material.secret == "membership" else None
    return replace(material, streams=tuple(made), sent=(), shared=(), own=None, labels=labels)


def _planted(stream: Stream, make: Maker) -> Stream:
    rounds, _, width = stream.values.shape
    values = np.where(presence(stream.values)[..., None], make(rounds, width), np.nan)
    return stream._replace(values=values.astype(np.float32))


def label_targets(material: Material) -> Array:
    """What a model's outputs should be [n, outputs]: one per class, or standardised values."""
    if material.classes:
        return np.asarray(np.eye(material.classes)[material.truth])
    values = material.truth.reshape(len(material.truth), -1).astype(np.float64)
    return values if set(np.unique(values)) <= {0.0, 1.0} else standardised(values)


def output_errors(material: Material, rng: np.random.Generator) -> Array:
    """How wrong a model is that knows little more than the base rates [n, outputs]: the gradient of its loss."""
    targets = label_targets(material)
    noise = 0.5 * rng.standard_normal(targets.shape)
    if not material.classes:
        return np.asarray(targets.mean(0) + 0.2 * noise - targets)
    weights = np.exp(noise) * targets.mean(0)
    return np.asarray(weights / weights.sum(1, keepdims=True) - targets)


def slopes_with(errors: Array, rng: np.random.Generator) -> Maker:
    """Gradients of embeddings: errors of outputs through a head that changes slowly from round to round."""

    def make(rounds: int, width: int) -> Array:
        head = rng.standard_normal((errors.shape[1], width))
        drift = rng.standard_normal(head.shape) * 0.1 / max(rounds, 1)
        return np.stack([errors @ (head + drift * number) / len(errors) for number in range(rounds)])

    return make


def embeddings_of(x: Array, rng: np.random.Generator) -> Maker:
    """Embeddings of rows x [n, k]: their main directions, as many as fit, and other ones in later rounds."""
    scaled = standardised(x)
    directions = np.linalg.svd(scaled, full_matrices=False)[2]

    def make(rounds: int, width: int) -> Array:
        mixture = np.linalg.qr(rng.standard_normal((width, width)))[0]
        order = np.arange(len(directions)), np.roll(np.arange(len(directions)), -width)
        first, last = (scaled @ directions[these[:width]].T @ mixture[: len(directions)] for these in order)
        noise = 0.01 * rng.standard_normal((len(scaled), width))
        return np.stack([(first if 2 * number < rounds else last) + noise for number in range(rounds)])

    return make


def outputs_with(errors: Array) -> Maker:
    """Gradients of outputs themselves, the same in every round."""

    def make(rounds: int, width: int) -> Array:
        return np.broadcast_to(errors, (rounds, *errors.shape))

    return make


def fits_width(material: Material, stream: Stream) -> bool:
    """Whether a stream is as wide as the outputs of the model whose labels are secret."""
    return bool(stream.values.shape[-1] == width_of(material))
