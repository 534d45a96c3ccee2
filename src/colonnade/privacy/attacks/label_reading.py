"""Reading labels from duals, gaps and gradients of outputs: the one entry of a row with the other sign is its class.

The gradient of cross-entropy by the outputs is softmax(v) - onehot(y), and so is the dual of VIMADMM at its exact
z-step; of standardised values it is v - y. A gap u = z - v - dual/rho gives the dual by dual' = (dual - rho u) / 2, in
whose units rho plays no part; a goal t = h W + u gives the gap, because the party has sent h and was told W.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import choose
from colonnade.privacy.attacks.row_features import presence, received, standardised, windows_of
from colonnade.privacy.attacks.row_scores import blind_guesses
from colonnade.privacy.attacks.secret_streams import fits_width, output_errors, outputs_with, with_secret
from colonnade.privacy.attacks.small_models import as_guess
from colonnade.privacy.material import Array, Material, SharedValue, Stream


@register
class LabelReading(Attack):
    """The sign, or the least entry, of numbers that are as wide as the model's outputs."""

    name: ClassVar[str] = "label reading"
    secret: ClassVar[str] = "labels"
    citation: ClassVar[str] = (
        "Liu, Zou, Kang, Liu, He, Yi, Yang: Batch label inference and replacement attacks in black-boxed vertical "
        "federated learning, 2021; for ADMM the arithmetic is in methods/vimadmm.py"
    )
    adversary: ClassVar[str] = (
        "keeps the duals, gaps and gradients of outputs that it receives and knows no label; of values it knows "
        "mean and deviation"
    )
    without: ClassVar[str] = "guesses from its own columns without a label"

    def unfit(self, material: Material) -> str:
        """It needs a stream as wide as the outputs."""
        if any(fits_width(material, stream) for stream in received(material)):
            return ""
        return "no message has as many numbers for a row as the model has outputs"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """Of all ways to read every stream, the best one on the rows to choose on; own columns if they are better."""
        readings = (told(material, evidence) for evidence in _readings(material))
        return choose(material, chain(blind_guesses(material), readings))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The main direction of own columns, or a constant."""
        return choose(material, blind_guesses(material))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Gradients of the outputs of a model that knows the base rates."""
        wide = [stream for stream in received(material) if fits_width(material, stream)]
        return with_secret(material, wide, outputs_with(output_errors(material, rng)))


def told(material: Material, evidence: Array) -> Array:
    """Evidence for each output [n, outputs] as a guess; of values it is scaled to their mean and deviation."""
    evidence = np.nan_to_num(evidence)
    if material.classes:
        return as_guess(evidence)
    values = material.truth[material.chosen_on].reshape(len(material.chosen_on), -1)
    if set(np.unique(values)) <= {0.0, 1.0}:
        return np.asarray(evidence > 0, dtype=np.float64)
    return np.asarray(standardised(evidence) * values.std(0) + values.mean(0))


def _readings(material: Material) -> Iterator[Array]:
    """Evidence for each output [n, outputs], by every way to read every stream."""
    for stream in received(material):
        if fits_width(material, stream):
            gaps = [stream.values, *_gaps(material, stream)]
            for values in [*gaps, *(2 * duals_of(gap) for gap in gaps)]:
                for sign, window in product((-1, 1), windows_of(values).values()):
                    yield sign * window


def duals_of(gaps: Array) -> Array:
    """The duals, divided by rho, behind a row's gaps: dual' = (dual - u) / 2, from 0 on."""
    duals, there = np.full_like(gaps, np.nan), presence(gaps)
    last = np.zeros(gaps.shape[1:], dtype=gaps.dtype)
    for number, here in enumerate(there):
        last[here] = (last[here] - gaps[number, here]) / 2
        duals[number, here] = last[here]
    return duals


def _gaps(material: Material, goals: Stream) -> Iterator[Array]:
    """Goals less what the adversary's own embeddings give under the heads that came with the goals, or before them."""
    heads = [value for value in material.shared if (value.sender, value.step) == (goals.sender, goals.step)]
    for head, sent in product(heads, material.sent):
        if head.values.shape[1:] == (sent.values.shape[-1], goals.values.shape[-1]):
            yield _less_own(goals, sent, head, 0)
            yield _less_own(goals, sent, head, 1)


def _less_own(goals: Stream, sent: Stream, head: SharedValue, before: int) -> Array:
    """In each round the head that came ``before`` rounds earlier counts, if it did; otherwise that of the round."""
    gaps = np.full_like(goals.values, np.nan)
    embeddings, heads = (
        dict(zip(sent.rounds, sent.values, strict=True)),
        dict(zip(head.rounds, head.values, strict=True)),
    )
    for place, number in enumerate(goals.rounds):
        used = heads.get(number - before, heads.get(number))
        if used is not None and number in embeddings:
            gaps[place] = goals.values[place] - embeddings[number] @ used
    return gaps
