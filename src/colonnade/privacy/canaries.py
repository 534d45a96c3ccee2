"""What the seals with differential privacy grant, beside what canaries prove that they do not keep.

A canary is an input whose secret is a fair coin. The seal's own code protects many of them, an adversary that knows the
seal guesses the coins from what was released, and ``epsilon_bound.py`` turns the right guesses into an epsilon that is
refuted: the seal cannot be better than that. It can be worse, so canaries find bugs and prove no privacy.
"""

from __future__ import annotations

import numpy as np

from colonnade.privacy.epsilon_proof import EpsilonProof
from colonnade.privacy.label_canaries import prove_labels
from colonnade.privacy.noise_canaries import WORK, prove_noise
from colonnade.seal import Seals

__all__ = ["EpsilonProof", "prove_epsilon"]

_RATE = WORK / 4.0  # released rows in a CPU-second


def prove_epsilon(
    seals: Seals, classes: int, rng: np.random.Generator, *, seconds: float = 4.0
) -> tuple[EpsilonProof, ...]:
    """A proof for each seal of a run that grants an epsilon, within about so many CPU-seconds.

    If a proof is :attr:`~EpsilonProof.violated`, up to four times as long is needed to confirm it.

    >>> from colonnade.seal import RandomLabels
    >>> (proof,) = prove_epsilon(Seals(labels=RandomLabels(epsilon=2.0)), 2, np.random.default_rng(0))
    >>> proof.granted, proof.violated, round(proof.proved, 1)
    (2.0, False, 2.0)
    """
    proofs = [] if seals.labels is None else [prove_labels(seals.labels, classes, rng)]
    if seals.noise is not None:
        proofs.append(prove_noise(seals.noise, rng, int(_RATE * seconds)))
    return tuple(proofs)
