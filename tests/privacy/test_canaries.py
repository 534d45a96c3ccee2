"""Canaries: seals as they are prove less than they grant and most of it; seals that are broken are found."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from benchmarks.canaries import HalfLaplaceLabels, HalfNoise, HalfRandomLabels, of_training

import colonnade as cn
from colonnade.errors import TableError
from colonnade.privacy.canaries import prove_epsilon
from colonnade.privacy.epsilon_proof import REPEATS, EpsilonProof, confirmed
from colonnade.privacy.label_canaries import canary_labels, prove_from_messages, prove_labels
from colonnade.privacy.material import Stream
from colonnade.privacy.noise_canaries import noise_proofs, prove_noise
from colonnade.seal import LaplaceLabels, Noise, RandomLabels, Seals, accountant
from colonnade.seal.accountant import Budget

SMALL = Noise(epsilon=2.0, sigma=10.0)  # five releases
WORK = 200_000


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# Label seals

KINDS = [partial(RandomLabels, correct=how) for how in ("posterior", "unbiased", "none")] + [LaplaceLabels]


@pytest.mark.parametrize("make", KINDS, ids=["posterior", "unbiased", "none", "laplace"])
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_nearly_all_that_a_label_seal_grants_is_proved(
    make: Any, classes: int, epsilon: float, rng: np.random.Generator
) -> None:
    proof = prove_labels(make(epsilon=epsilon), classes, rng, canaries=30_000)
    assert not proof.violated and proof.decisive and proof.granted == epsilon
    assert proof.proved > 0.85 * epsilon - 0.1


@pytest.mark.parametrize("make", [HalfRandomLabels, HalfLaplaceLabels])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_label_seal_with_half_the_noise_it_says_is_found(make: Any, epsilon: float, rng: np.random.Generator) -> None:
    proof = prove_labels(make(epsilon=epsilon), 4, rng, canaries=20_000)
    assert proof.violated and proof.proved > 1.6 * epsilon
    assert "which is a bug: do not use it" in proof.sentence


def test_a_grant_too_large_for_so_few_canaries_is_called_so(rng: np.random.Generator) -> None:
    proof = prove_labels(RandomLabels(epsilon=12.0), 2, rng, canaries=200)
    assert not proof.decisive and not proof.violated
    assert proof.sentence.endswith(f"So few cannot prove more than {proof.reach:.3g}; use more canaries.")


# Noise


def test_of_noise_a_good_part_is_proved(rng: np.random.Generator) -> None:
    proof = prove_noise(SMALL, rng, WORK)
    assert proof.granted == 2.0 and proof.delta == SMALL.delta and proof.decisive
    assert 0.5 < proof.proved < 2.0, proof.sentence


def test_what_is_proved_of_gaussian_noise_is_below_what_it_exactly_has(rng: np.random.Generator) -> None:
    """Balle and Wang 2018: a Gaussian release of this multiplier has this epsilon and no smaller one."""
    seal = Noise(epsilon=4.0, sigma=20.0)
    together, apart = noise_proofs(seal, rng, 5 * WORK)
    distance = math.sqrt(seal.releases) * 2.0 / seal.sigma

    def delta_at(epsilon: float) -> float:
        above = [0.5 * math.erfc((epsilon / distance + sign * distance / 2) / math.sqrt(2)) for sign in (-1, 1)]
        return above[0] - math.exp(epsilon) * above[1]

    exact = next(epsilon for epsilon in np.arange(0.0, 8.0, 0.01) if delta_at(epsilon) <= 1e-5)
    assert 1.5 < together.proved < exact and 1.5 < apart.proved < exact < 4.0


def test_half_the_noise_is_found(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.seal.seal_end.NoiseSource", HalfNoise)
    together, apart = noise_proofs(SMALL, rng, 3 * WORK)
    assert together.proved > 1.8 and apart.violated
    assert prove_noise(SMALL, rng, 3 * WORK).violated


def test_a_budget_that_counts_nothing_is_found(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "spend", lambda *_: None)
    assert prove_noise(SMALL, rng, WORK // 4).violated


def test_a_clip_that_does_not_hold_is_found(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noise, "_clip", lambda self, values: ((values / self.grid).trunc(), 0))
    assert prove_noise(SMALL, rng, WORK // 4).violated


def test_a_whole_party_is_one_canary(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Noise(epsilon=2.0, sigma=6.0, unit="party")
    proof = prove_noise(seal, rng, WORK // 4)
    assert proof.canaries == 500 and not proof.violated and proof.granted == 2.0
    monkeypatch.setattr(Noise, "_clip", lambda self, values: ((values / self.grid).trunc(), 0))
    assert prove_noise(seal, rng, WORK // 8).violated


def test_a_long_budget_is_judged_by_what_was_released_of_it(rng: np.random.Generator) -> None:
    seal = Noise(epsilon=8.0, sigma=200.0)
    proof = prove_noise(seal, rng, 10_000)
    assert proof.canaries == 500
    assert proof.granted == accountant.epsilon(20, seal.multiplier, seal.delta) < 1.0


# Trainings


@pytest.fixture(scope="module")
def tables() -> list[cn.Table]:
    return list(cn.load("breast_cancer", parties=2)[0])


METHODS = [(cn.FDML(), "slope"), (cn.VIMADMM(messages="paper"), "dual")]


@pytest.mark.parametrize(("method", "field"), METHODS, ids=["fdml", "vimadmm"])
@pytest.mark.parametrize("seal", [RandomLabels(epsilon=2.0), LaplaceLabels(epsilon=2.0)], ids=["random", "laplace"])
def test_what_parties_receive_proves_no_more_than_the_labels_grant(
    method: Any, field: str, seal: Any, tables: list[cn.Table], rng: np.random.Generator
) -> None:
    proof = of_training(method, field, seal, tables, rng)
    assert proof.canaries == 455 and not proof.violated
    assert proof.proved > 0.9, "the messages show nearly all that the protected labels do"


@pytest.mark.parametrize(("method", "field"), METHODS, ids=["fdml", "vimadmm"])
def test_a_training_with_too_little_label_noise_is_found(
    method: Any, field: str, tables: list[cn.Table], rng: np.random.Generator
) -> None:
    assert of_training(method, field, HalfRandomLabels(epsilon=2.0), tables, rng).violated


def test_messages_that_prove_nothing_are_refused(rng: np.random.Generator) -> None:
    coins, seal = canary_labels(50, rng), RandomLabels()
    with pytest.raises(TableError, match="no messages came to prove an epsilon from; give streams"):
        prove_from_messages("'x'", seal, 2, coins, [])
    stream = Stream("owner", "shop", "follow", "h", np.arange(3), np.zeros((3, 50, 7), dtype=np.float32))
    with pytest.raises(TableError, match=r"came as \[3, 50, 7\], expected \[rounds, 50, 2\]"):
        prove_from_messages("'x'", seal, 2, coins, [stream])
    few = stream._replace(values=np.zeros((3, 5, 2), dtype=np.float32))
    with pytest.raises(TableError, match="5 canaries came, expected at least 20"):
        prove_from_messages("'x'", seal, 2, coins[:5], [few])


# All seals of a run


def test_every_seal_that_grants_an_epsilon_is_proved(rng: np.random.Generator) -> None:
    seals = Seals(noise=SMALL, labels=LaplaceLabels(epsilon=1.0), up=cn.Bits(4))
    labels, noise = prove_epsilon(seals, 3, rng, seconds=0.2)
    assert [proof.seal for proof in (labels, noise)] == ["'laplace-labels'", "'noise'"]
    assert not labels.violated and not noise.violated
    assert labels.sentence.startswith("'laplace-labels' grants epsilon 1, and canaries prove at least 0.9")
    assert noise.sentence.startswith("'noise' grants epsilon 2 at delta 1e-05, and canaries prove at least ")
    assert prove_epsilon(Seals(up=cn.Bits(4)), 3, rng) == ()


def test_an_alarm_needs_four_audits_in_a_row() -> None:
    fair = EpsilonProof("'x'", granted=1.0, proved=0.9, delta=0.0, canaries=9, guesses=9, correct=8, reach=3.0)
    alarm = replace(fair, proved=1.1)
    audits = iter([alarm, alarm, alarm, fair])
    assert confirmed(lambda: next(audits)) == fair
    audits = iter([alarm] * REPEATS)
    assert confirmed(lambda: next(audits)) == alarm
    assert not list(audits)
