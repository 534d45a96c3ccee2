"""The population stability index against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade.core.stability import stability


def slow(reference: np.ndarray, scores: np.ndarray) -> float:
    """By the book: deciles of the reference, shares, the sum."""
    edges = np.unique(np.sort(reference)[[k * len(reference) // 10 for k in range(1, 10)]])
    total = 0.0
    for low, high in zip([-np.inf, *edges], [*edges, np.inf], strict=True):
        before, now = (max(((x >= low) & (x < high)).mean(), 1e-4) for x in (reference, scores))
        total += (now - before) * np.log(now / before)
    return total


@pytest.mark.parametrize("shift", [0.0, 0.2, 3.0])
def test_it_is_the_sum_over_deciles(shift: float) -> None:
    random = np.random.default_rng(0)
    reference, scores = random.normal(size=997), random.normal(shift, 1, 503)
    found = stability(torch.from_numpy(reference), torch.from_numpy(scores))
    assert found.psi == pytest.approx(slow(reference, scores), rel=1e-9)
    assert (found.psi < 0.1) is (shift < 0.1), "a shift of a fifth of the deviation is seen at 500 rows"


def test_chance_alone_gives_about_what_is_said() -> None:
    random = np.random.default_rng(1)
    pairs = [(torch.from_numpy(random.random(400)), torch.from_numpy(random.random(300))) for _ in range(200)]
    found = [stability(*pair) for pair in pairs]
    assert np.mean([one.psi for one in found]) == pytest.approx(found[0].chance, rel=0.15)


def test_equal_scores_stay_together() -> None:
    assert stability(torch.ones(50), torch.ones(20)).psi == 0.0
    assert stability(torch.tensor([0.0] * 90 + [1.0] * 10), torch.tensor([0.0] * 9 + [1.0])).psi == pytest.approx(0.0)


def test_classes_are_bins() -> None:
    before, now = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 2])
    assert stability(before, now, classes=3).psi == pytest.approx(2 * 0.25 * np.log(2))
    assert stability(before, before, classes=3).psi == 0.0
