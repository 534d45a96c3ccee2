"""Canaries for seals on labels: the labels of rows are fair coins between two classes, and somebody guesses them.

The guess is about the rows on which the seal, if it is correct, shows most: for randomised response those whose noisy
label is one of the two classes, for Laplace noise those whose noisy entries lie beyond 0 and 1. There the odds of a
right guess are exactly e^epsilon, so nearly all of what is granted can be proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from colonnade.errors import TableError
from colonnade.privacy.epsilon_bound import one_run
from colonnade.privacy.epsilon_proof import EpsilonProof, confirmed
from colonnade.privacy.material import Array, Stream
from colonnade.seal import LaplaceLabels, RandomLabels

CANARIES = 100_000
PAIR = 0, 1  # the two classes
_LEAST = 20  # canaries: even if all guesses are right, fewer prove less than epsilon 2
_MARGIN = 0.99  # of the rows that are expected to show most, because by chance there are a few fewer


def prove_labels(
    seal: RandomLabels | LaplaceLabels, classes: int, rng: np.random.Generator, canaries: int = CANARIES
) -> EpsilonProof:
    """The epsilon proved by one call of the seal's ``protect``, which an owner makes once before training."""

    def audit() -> EpsilonProof:
        coins = canary_labels(canaries, rng)
        soft = seal.protect(torch.from_numpy(coins), classes, rng.bytes(32)).double().numpy()
        return judge(f"'{seal.kind}'", seal, classes, coins, _lean(soft))

    return confirmed(audit)


def canary_labels(rows: int, rng: np.random.Generator) -> Array:
    """Labels that are fair coins between the two classes, int64 [rows]."""
    return rng.choice(np.array(PAIR), rows)


def prove_from_messages(
    name: str, seal: RandomLabels | LaplaceLabels, classes: int, coins: Array, streams: Sequence[Stream]
) -> EpsilonProof:
    """The epsilon proved by what a party received in a training whose labels were ``coins``.

    A stream has one number per class for every row: gradients by logits, or duals. Its entry of the label's class is
    lower than it would be otherwise. All that is sent follows from the protected labels, so the seal's grant holds.
    """
    if not streams:
        raise TableError("no messages came to prove an epsilon from; give streams with one number per class.")
    for stream in streams:
        if stream.values.shape[1:] != (len(coins), classes):
            raise TableError(
                f"{stream.name} came as {list(stream.values.shape)}, expected [rounds, {len(coins)}, {classes}]: a "
                "number per class for every canary."
            )
    first, second = PAIR
    scores = np.concatenate([stream.values[..., first] - stream.values[..., second] for stream in streams])
    received = np.maximum((~np.isnan(scores)).sum(0), 1)
    return judge(name, seal, classes, coins, np.nansum(scores, axis=0) / received)


def judge(name: str, seal: RandomLabels | LaplaceLabels, classes: int, coins: Array, scores: Array) -> EpsilonProof:
    """A proof from one score per canary: the higher, the more it speaks for the second class of the pair."""
    if len(coins) < _LEAST:
        raise TableError(f"{len(coins)} canaries came, expected at least {_LEAST}; fewer prove next to nothing.")
    count = int(_MARGIN * telling(seal, classes) * len(coins))
    chosen = np.argsort(-np.abs(scores), kind="stable")[:count]
    chosen = chosen[scores[chosen] != 0.0]
    right = int(((scores[chosen] > 0) == (coins[chosen] == PAIR[1])).sum())
    return EpsilonProof(
        seal=name,
        granted=seal.epsilon,
        proved=one_run(len(coins), len(chosen), right),
        delta=0.0,
        canaries=len(coins),
        guesses=len(chosen),
        correct=right,
        reach=one_run(len(coins), len(coins), len(coins)),
    )


def telling(seal: RandomLabels | LaplaceLabels, classes: int) -> float:
    """The share of canaries on which the seal shows as much as it ever does."""
    if isinstance(seal, LaplaceLabels):  # one noisy entry is 1 or more, and the other 0 or less
        return 0.25 * (1.0 + math.exp(-seal.epsilon))
    keep = seal.keep_probability(classes)
    return keep + (1.0 - keep) / (classes - 1)


def _lean(soft: Array) -> Array:
    """How much a soft target leans to the second class, from -1 to 1; one-hot and unbiased targets included."""
    first, second = soft[:, PAIR[0]], soft[:, PAIR[1]]
    return np.asarray((second - first) / np.maximum(np.abs(first) + np.abs(second), 1e-300))
