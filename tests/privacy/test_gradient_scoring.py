"""Gradients of embeddings tell two classes apart with no label known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result, score
from run_materials import breast_cancer, digits

from colonnade.privacy.attacks.gradient_scoring import GradientScoring
from colonnade.privacy.attacks.row_scores import scores_by_round, scores_of_rows
from colonnade.privacy.material import Material

NAME = "gradient scoring"


@pytest.mark.parametrize("method", ["splitnn", "vafl", "vimsgd", "fedbcd"])
def test_labels_follow_from_gradients(method: Any) -> None:
    material = breast_cancer(method)["mean", "labels"]
    assert result(NAME, material)[0] >= 0.99
    blind = replace(material, own=None)
    found, control = result(NAME, blind)
    assert found >= 0.99 and control == 0.5, "and it is not the own columns that tell them"


def test_nothing_is_found_in_noise() -> None:
    material = noise_instead(replace(breast_cancer("splitnn")["mean", "labels"], own=None))
    found, control = result(NAME, material)
    assert abs(found - 0.5) < 0.15 and control == 0.5


def test_what_is_planted_is_found() -> None:
    assert planted_score(NAME, breast_cancer("splitnn")["mean", "labels"]) > 0.99


def test_it_needs_two_classes_and_gradients() -> None:
    assert "two classes" in GradientScoring().unfit(digits("splitnn")["party 1", "labels"])
    silent = replace(breast_cancer("splitnn")["mean", "labels"], streams=())
    assert GradientScoring().unfit(silent) == "no gradients were received"


def two_sides(rows: int = 300, share: float = 0.2, width: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (p - y) w with some noise, and the labels."""
    rng = np.random.default_rng(3)
    labels = (rng.random(rows) < share).astype(np.int64)
    slopes = (share - labels)[:, None] * rng.standard_normal(width) + 0.02 * rng.standard_normal((rows, width))
    return slopes, labels


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("rule", ["norm", "direction", "spectral"])
def test_the_rarer_class_scores_higher_whatever_the_sign(rule: str, turned: int) -> None:
    slopes, labels = two_sides()
    scores = scores_of_rows(turned * slopes)[rule]
    assert scores[labels == 1].mean() > scores[labels == 0].mean() + 1


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_what_is_rarer_is_told_by_the_rows_to_choose_on(share: float) -> None:
    slopes, labels = two_sides(share=share)
    material = material_with(slopes[None], labels)
    assert score(material, GradientScoring().guess(material, np.random.default_rng(0))) > 0.95


@pytest.mark.parametrize("turned", [False, True])
def test_which_end_is_which_class_is_told_by_the_rows_to_choose_on(turned: bool) -> None:
    """Of two classes that are equally common the scores alone cannot tell it, for an attack or for its control."""
    slopes, labels = two_sides(share=0.5)
    labels = 1 - labels if turned else labels
    material = material_with(slopes[None], labels)
    assert score(material, GradientScoring().guess(material, np.random.default_rng(0))) > 0.95
    material = replace(material_with(np.zeros_like(slopes)[None], labels), own=slopes)
    assert score(material, GradientScoring().control(material, np.random.default_rng(0))) > 0.95


def material_with(values: np.ndarray, labels: np.ndarray) -> Material:
    first = breast_cancer("splitnn")["mean", "labels"]
    rows = np.arange(len(labels))
    stream = first.streams[0]._replace(rounds=np.arange(len(values)), values=values.astype(np.float32))
    sets = {"known": rows[:50], "chosen_on": rows[50:130], "scored": rows[130:]}
    return replace(first, truth=labels, streams=(stream,), own=None, **sets)


def test_rounds_with_few_rows_are_taken_together() -> None:
    slopes, labels = two_sides()
    values = np.full((150, len(labels), slopes.shape[1]), np.nan)
    for number in range(150):
        values[number, 2 * number : 2 * number + 2] = slopes[2 * number : 2 * number + 2]
    assert np.isfinite(scores_by_round(values)["direction"]).sum() == len(labels)
    material = material_with(values, labels)
    assert score(material, GradientScoring().guess(material, np.random.default_rng(0))) > 0.95


@pytest.mark.parametrize("width", [1, 2])
def test_narrow_and_constant_gradients_are_scored_too(width: int) -> None:
    slopes, labels = two_sides(width=width)
    for values in (slopes, np.zeros_like(slopes), np.ones_like(slopes)):
        material = material_with(values[None], labels)
        assert np.isfinite(GradientScoring().guess(material, np.random.default_rng(0))).all()
