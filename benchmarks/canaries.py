"""What canaries prove of every seal with differential privacy, beside what the seal grants.

    python -m benchmarks.canaries                  about two CPU-minutes
    python -m benchmarks.canaries --half           the same for seals that add half the noise they say
    python -m benchmarks.canaries --work 48000000  more canaries for Noise

Three tables: label seals, by one call of what an owner calls before training; ``Noise``, by a party's end of the
channel until its budget refuses; and whole trainings on credit default whose labels are coins, judged by what a party
receives.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import colonnade as cn
from benchmarks.table import show
from colonnade.core.schedule import Turn
from colonnade.privacy.epsilon_proof import EpsilonProof, confirmed
from colonnade.privacy.label_canaries import PAIR, canary_labels, prove_from_messages, prove_labels
from colonnade.privacy.material import Stream
from colonnade.privacy.noise_canaries import WORK, noise_proofs
from colonnade.seal import LaplaceLabels, Noise, RandomLabels
from colonnade.seal.noise import NoiseSource
from colonnade.wire.party_half import PartyHalf

EPSILONS = 1.0, 2.0, 4.0, 8.0
SIGMA = {1.0: 40.0, 2.0: 20.0, 4.0: 20.0, 8.0: 10.0}  # so that every epsilon pays for 21 to 74 releases
LABEL_SEALS: tuple[type[RandomLabels | LaplaceLabels], ...] = RandomLabels, LaplaceLabels


class HalfNoise(NoiseSource):
    """Noise that is too weak: half of what a seal asks for."""

    def gaussian(self, label: str, digest: bytes, shape: Sequence[int]) -> Tensor:
        """Normal numbers of standard deviation one half."""
        return super().gaussian(label, digest, shape) / 2.0


@dataclass(frozen=True)
class HalfRandomLabels(RandomLabels):
    """Keeps labels as a seal of twice the epsilon does."""

    def keep_probability(self, classes: int) -> float:
        """What twice the epsilon allows."""
        return RandomLabels(epsilon=2.0 * self.epsilon).keep_probability(classes)


@dataclass(frozen=True)
class HalfLaplaceLabels(LaplaceLabels):
    """Adds Laplace noise of half the scale."""

    def protect(self, labels: Tensor, classes: int, key: bytes | None = None) -> Tensor:
        """Soft targets of twice the epsilon."""
        return LaplaceLabels(epsilon=2.0 * self.epsilon).protect(labels, classes, key)


class Tap:
    """What one party receives in training, of one field."""

    def __init__(self, party: str, field: str, rows: int, classes: int) -> None:
        self.party, self.field, self.shape = party, field, (rows, classes)
        self.heard: dict[str, dict[int, np.ndarray]] = defaultdict(dict)

    def note(self, half: PartyHalf, message: Any, step: str, turn: Turn) -> None:
        """Keep the field's numbers of a message to the party, by row."""
        values = getattr(message, self.field, None)
        if half.name == self.party and turn.training and values is not None:
            of_rows = self.heard[step].setdefault(turn.round, np.full(self.shape, np.nan, dtype=np.float32))
            of_rows[turn.rows.numpy()] = values.detach().numpy()

    @property
    def streams(self) -> list[Stream]:
        """What was heard, one stream per step."""
        return [
            Stream("owner", self.party, step, self.field, np.array(sorted(by_round)), _stacked(by_round))
            for step, by_round in self.heard.items()
        ]


def _stacked(by_round: dict[int, np.ndarray]) -> np.ndarray:
    return np.stack([by_round[number] for number in sorted(by_round)])


@contextmanager
def listening(tap: Tap) -> Iterator[None]:
    """Give a tap every message that a party hears."""
    hear = PartyHalf.hear

    def heard(half: PartyHalf, wire: Any, kind: Any, form: Any, step: str, turn: Turn, check: Any = None) -> Any:
        message = hear(half, wire, kind, form, step, turn, check)
        tap.note(half, message, step, turn)
        return message

    with patch.object(PartyHalf, "hear", heard):
        yield


def of_training(
    method: Any,
    field: str,
    seal: RandomLabels | LaplaceLabels,
    tables: Sequence[cn.Table],
    rng: np.random.Generator,
) -> EpsilonProof:
    """Train one epoch with coins for labels, and judge by what the last party received; again if it seems a bug."""
    name, classes = f"'{seal.kind}' under '{method.name}'", len(PAIR)

    def audit() -> EpsilonProof:
        coins = canary_labels(len(tables[0].ids), rng)
        canaries = [replace(tables[0], labels=torch.from_numpy(coins)), *tables[1:]]
        tap = Tap(tables[-1].name, field, len(coins), classes)
        with listening(tap):
            cn.train(canaries, method, epochs=1, seal=seal, seed=int(rng.integers(2**31)), runtime="bytes")
        return prove_from_messages(name, seal, classes, coins, tap.streams)

    return confirmed(audit)


def cells(proof: EpsilonProof, began: float) -> list[str]:
    counts = f"{proof.correct:,} of {proof.guesses:,}", f"{proof.canaries:,}"
    return [f"{proof.granted:g}", f"{proof.proved:.2f}", *counts, f"{time.process_time() - began:.1f}"]


PARTS = "labels", "noise", "trainings"
NOISE_HEADER = ["unit", "epsilon", "sigma", "releases", "granted for those made", "one run", "rows apart", "reach"]
NOISE_HEADER += ["canaries", "CPU seconds"]
HEADER = ["granted", "proved", "right guesses", "canaries", "CPU seconds"]


def label_rows(seals: Sequence[type[RandomLabels | LaplaceLabels]], rng: np.random.Generator) -> Iterator[list[str]]:
    for kind in seals:
        for classes in (2, 10):
            for epsilon in EPSILONS:
                began = time.process_time()
                proof = prove_labels(kind(epsilon=epsilon), classes, rng)
                yield [kind.__name__, str(classes), *cells(proof, began)]


def noise_rows(rng: np.random.Generator, work: int) -> Iterator[list[str]]:
    for unit in ("row", "party"):
        for epsilon in EPSILONS:
            seal, began = Noise(epsilon=epsilon, sigma=SIGMA[epsilon], unit=unit), time.process_time()
            together, apart = noise_proofs(seal, rng, work)
            seconds = f"{time.process_time() - began:.1f}"
            figures = [f"{apart.granted:.3g}", f"{together.proved:.2f}", f"{apart.proved:.2f}", f"{apart.reach:.2f}"]
            yield [
                unit,
                f"{epsilon:g}",
                f"{seal.sigma:g}",
                str(seal.releases),
                *figures,
                f"{apart.canaries:,}",
                seconds,
            ]


def training_rows(seals: Sequence[type[RandomLabels | LaplaceLabels]], rng: np.random.Generator) -> Iterator[list[str]]:
    tables, _ = cn.load("credit_default")
    for kind in seals:
        for method, field in ((cn.FDML(), "slope"), (cn.VIMADMM(messages="paper"), "dual")):
            for epsilon in EPSILONS:
                began = time.process_time()
                proof = of_training(method, field, kind(epsilon=epsilon), tables, rng)
                yield [kind.__name__, method.name, *cells(proof, began)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", action="store_true", help="seals that add half the noise they say")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--work", type=int, default=WORK, help="released rows of canaries of a Noise seal")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    seals = (HalfRandomLabels, HalfLaplaceLabels) if options.half else LABEL_SEALS
    source = "colonnade.seal.seal_end.NoiseSource"
    with patch(source, HalfNoise if options.half else NoiseSource):
        if "labels" in options.parts:
            show("Label seals, one call", ["seal", "classes", *HEADER], list(label_rows(seals, rng)))
        if "noise" in options.parts:
            show("Noise", NOISE_HEADER, list(noise_rows(rng, options.work)))
    if "trainings" in options.parts:
        rows = list(training_rows(seals, rng))
        show("Credit default, one epoch, labels are coins", ["seal", "method", *HEADER], rows)


if __name__ == "__main__":
    main()
