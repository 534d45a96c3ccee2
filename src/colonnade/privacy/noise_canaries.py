"""Canaries for the noise seal: the coin decides between two opposite vectors, and somebody guesses it from the noise.

The vectors are much longer than the clip, and have two fields, so that a clip that does not hold is found as well as
noise that is too weak. They are released by a party's own end of the channel, round after round, until its budget
refuses: so a budget that counts too little is found too. The guess is the sign of the inner product with the vector,
added up over all releases, and is made only where that sum is large. How large follows from a few canaries of another
run, which count for nothing else: both bounds ask that it is fixed before the canaries that count.

With ``unit="row"`` the canaries are the rows of one party. With ``unit="party"`` each is a party of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.core.randomness import Sources
from colonnade.core.schedule import Turn
from colonnade.errors import PrivacyError
from colonnade.privacy.epsilon_bound import Bound, one_run, separate_runs
from colonnade.privacy.epsilon_proof import EpsilonProof, confirmed
from colonnade.privacy.material import Array
from colonnade.seal import Noise, Seals, accountant
from colonnade.seal.seal_end import SealEnd

WORK = 4_000_000
"""Released rows: about four CPU-seconds."""
_LEAST, _MOST = 500, 1_000_000  # canaries
_MESSAGE = 500  # a message costs as much as so many of its rows
_TUNING = 2_000  # canaries of another run, at most
_EACH = 0.975  # confidence of each of the two bounds, so that both hold with 95 %
_LONG = 8.0  # clips
_TOO_OFTEN = 8  # times what a budget allows, if it does not refuse
_FIELDS = {"h": 3, "o": 1}


class NoiseProofs(NamedTuple):
    """The same canaries under two bounds."""

    together: EpsilonProof
    """Steinke et al.: nothing is assumed of how rows depend on each other."""
    apart: EpsilonProof
    """If the noise of different rows is independent."""


class _Heard(NamedTuple):
    coins: Array
    scores: Array
    """What speaks for the coin 1, in deviations of the noise that the seal says."""
    releases: int


class _Spread(NamedTuple):
    """How the scores of the right coin are spread."""

    mean: float
    deviation: float


def prove_noise(seal: Noise, rng: np.random.Generator, work: int = WORK) -> EpsilonProof:
    """The larger of the two epsilons that canaries prove."""

    def audit() -> EpsilonProof:
        proofs = noise_proofs(seal, rng, work)
        best = max(proofs, key=lambda proof: proof.proved)
        return replace(best, reach=max(proof.reach for proof in proofs))

    return confirmed(audit)


def noise_proofs(seal: Noise, rng: np.random.Generator, work: int = WORK) -> NoiseProofs:
    """Both bounds from one set of canaries, which hold together with 95 % confidence."""
    count, often = _size(seal, work)
    tuning, heard = (_listen(seal, rng, canaries, often) for canaries in (min(count // 5, _TUNING), count))
    right = tuning.scores * tuning.coins
    spread = _Spread(float(right.mean()), float(right.std()))
    chosen = _strongest(heard, spread, seal.delta), _clear(heard, spread, seal.delta)
    return NoiseProofs(_judge(seal, heard, chosen[0], one_run), _judge(seal, heard, chosen[1], separate_runs))


def _strongest(heard: _Heard, spread: _Spread, delta: float) -> Array:
    """The canaries to guess in one run: their number is fixed beforehand."""
    count = len(heard.coins)
    guesses = round(count * sum(_shares(spread, _threshold(one_run, count, spread, delta))))
    return np.argsort(-np.abs(heard.scores), kind="stable")[:guesses]


def _clear(heard: _Heard, spread: _Spread, delta: float) -> Array:
    """The canaries to guess in separate runs: each by a threshold that is fixed beforehand."""
    return np.flatnonzero(np.abs(heard.scores) >= _threshold(separate_runs, len(heard.coins), spread, delta))


def _judge(seal: Noise, heard: _Heard, chosen: Array, bound: Bound) -> EpsilonProof:
    right = int((heard.scores[chosen] * heard.coins[chosen] > 0).sum())
    counts = len(heard.coins), len(chosen)
    return EpsilonProof(
        seal=f"'{seal.kind}'",
        granted=_granted(seal, heard.releases),
        proved=bound(*counts, right, seal.delta, _EACH),
        delta=seal.delta,
        canaries=counts[0],
        guesses=counts[1],
        correct=right,
        reach=bound(counts[0], counts[0], counts[0], seal.delta, _EACH),
    )


def _granted(seal: Noise, releases: int) -> float:
    """What so many releases may cost: the whole budget, unless time ended before the budget did."""
    if releases >= seal.releases:
        return seal.epsilon
    return accountant.epsilon(releases, seal.multiplier, seal.delta)


def _size(seal: Noise, work: int) -> tuple[int, int]:
    """How many canaries, and how often each is released at most: more often than the budget allows."""
    cost = _MESSAGE if seal.unit == "party" else 1
    often = min(_TOO_OFTEN * seal.releases, max(work // (_LEAST * cost), 1))
    return min(max(work // (min(often, seal.releases) * cost), _LEAST), _MOST), often


def _listen(seal: Noise, rng: np.random.Generator, canaries: int, often: int) -> _Heard:
    """Release canaries until the budget refuses, at most so often."""
    coins, direction = rng.choice(np.array([-1.0, 1.0]), canaries), _direction(rng)
    sums, releases = np.zeros(canaries), 0
    for group in _groups(seal, canaries):
        heard = [released @ direction for released in _releases(seal, coins[group], direction, rng, often)]
        sums[group], releases = np.sum(heard, axis=0), len(heard)
    return _Heard(coins, sums / (seal.sigma * seal.clip * math.sqrt(releases)), releases)


def _groups(seal: Noise, canaries: int) -> list[Array]:
    """Which canaries are rows of one party."""
    places = np.arange(canaries)
    return [places] if seal.unit == "row" else np.split(places, canaries)


def _releases(seal: Noise, coins: Array, direction: Array, rng: np.random.Generator, often: int) -> Iterator[Array]:
    """What the owner reads of one party's canaries [rows, width], once per release."""
    rows = torch.arange(len(coins))
    end = SealEnd("canary", Seals(noise=seal), Sources(0, {"canary": rng.bytes(32)}), {"train": rows})
    fields = _fields(_LONG * seal.clip * np.outer(coins, direction))
    for number in range(often):
        try:
            released = end.release(fields, "canary", Turn(number, rows))
        except PrivacyError:
            return
        yield torch.cat(list(released.values()), 1).double().numpy()


def _fields(values: Array) -> dict[str, Tensor]:
    parts = torch.from_numpy(values).float().split(list(_FIELDS.values()), 1)
    return dict(zip(_FIELDS, parts, strict=True))


def _direction(rng: np.random.Generator) -> Array:
    drawn = rng.normal(size=sum(_FIELDS.values()))
    return np.asarray(drawn / np.linalg.norm(drawn))


def _threshold(bound: Bound, canaries: int, spread: _Spread, delta: float) -> float:
    """From which score on to guess, so that most is expected to be proved."""

    def expected(threshold: float) -> float:
        right, wrong = (round(canaries * share) for share in _shares(spread, threshold))
        return bound(canaries, right + wrong, right, delta, _EACH)

    return float(max(np.linspace(0.0, abs(spread.mean) + 3.0 * spread.deviation, 16), key=expected))


def _shares(spread: _Spread, threshold: float) -> tuple[float, float]:
    """The shares of canaries about which a guess is right, and wrong, if only scores from a threshold on count."""
    mean, deviation = spread
    return _above((threshold - mean) / deviation), _above((threshold + mean) / deviation)


def _above(value: float) -> float:
    """P[normal > value]."""
    return 0.5 * math.erfc(value / math.sqrt(2.0))
