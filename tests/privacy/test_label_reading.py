"""Labels are read from duals, gaps and gradients of outputs, exactly, with no label known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.attack_materials import materials_of, noise_instead, planted_score, result, score
from run_materials import breast_cancer, diabetes, digits, three_labels

import colonnade as cn
from colonnade.privacy.attacks.label_reading import LabelReading, duals_of

READ = [
    "vimadmm",
    cn.VIMADMM(messages="paper"),
    "vimadmm-j",
    cn.VIMADMMJ(messages="paper"),
    "fdml",
    "aggvfl",
    cn.FedBCD(combine="sum"),
    "cvfl",
]
NAME = "label reading"


@pytest.mark.parametrize("method", READ, ids=str)
def test_all_labels_of_two_classes_are_read(method: Any) -> None:
    material = breast_cancer(method)["mean", "labels"]
    assert result(NAME, material)[0] == 1.0
    signs = LabelReading().guess(material, np.random.default_rng(0)) > 0
    assert np.array_equal(signs, material.truth[material.scored] == 1), "not the order alone, but every label"


def test_all_labels_are_read_from_vfedmh() -> None:
    assert result(NAME, breast_cancer("vfedmh", "first")["error", "labels"])[0] == 1.0


def test_all_labels_are_read_from_residuals() -> None:
    """They are negative gradients, so the greatest entry is the class."""
    train, _ = cn.load("breast_cancer")
    made = materials_of(train, cn.GAL(learner="linear"), rounds=2, batch=455)
    assert result(NAME, made["mean", "labels"])[0] == 1.0


@pytest.mark.parametrize("method", [cn.VIMADMMJ(local_steps=2), "fdml", "cvfl"], ids=str)
def test_all_labels_of_ten_classes_are_read(method: Any) -> None:
    found, control = result(NAME, digits(method)["party 1", "labels"])
    assert found == 1.0 and control < 0.2, "of ten classes the control guesses one"


def test_the_compact_goal_of_vimadmm_is_read_by_its_own_heads() -> None:
    material = digits(cn.VIMADMM(local_steps=2))["party 1", "labels"]
    assert result(NAME, material)[0] == 1.0


def test_several_labels_are_read() -> None:
    found, control = result(NAME, three_labels("fdml")["half 0", "labels"])
    assert found == 1.0 and control < 0.1


@pytest.mark.parametrize("method", ["fdml", "vimadmm-j"])
def test_values_are_read(method: str) -> None:
    found, control = result(NAME, diabetes(method)["half 0", "labels"])
    assert found > 0.75 and control < 0.1, "a dual is the error of a prediction, not the value itself"


def test_nothing_is_found_in_noise() -> None:
    found, control = result(NAME, noise_instead(digits("fdml")["party 1", "labels"]))
    assert abs(found - control) < 0.05
    found, control = result(NAME, noise_instead(breast_cancer("vimadmm")["mean", "labels"]))
    assert found < control + 0.02


@pytest.mark.parametrize("which", ["two", "ten", "values", "several"])
def test_what_is_planted_is_found(which: str) -> None:
    made = {
        "two": lambda: breast_cancer("fdml")["mean", "labels"],
        "ten": lambda: digits("fdml")["party 1", "labels"],
        "values": lambda: diabetes("fdml")["half 0", "labels"],
        "several": lambda: three_labels("fdml")["half 0", "labels"],
    }[which]()
    assert planted_score(NAME, made) > 0.85


def test_embedding_gradients_are_not_read() -> None:
    assert "as the model has outputs" in LabelReading().unfit(breast_cancer("splitnn")["mean", "labels"])


def test_duals_follow_from_gaps() -> None:
    """u = (dual before - 2 dual) / rho, whatever rho is; a row that is away keeps its dual."""
    rng = np.random.default_rng(0)
    duals = rng.standard_normal((4, 3, 2))
    before = np.concatenate([np.zeros((1, 3, 2)), duals[:-1]])
    gaps = before - 2 * duals
    assert np.allclose(duals_of(gaps), duals)
    gaps[1, 0] = np.nan
    gaps[2, 0] = duals[0, 0] - 2 * duals[2, 0]
    read = duals_of(gaps)
    assert np.isnan(read[1, 0]).all() and np.allclose(read[2, 0], duals[2, 0])


def test_a_mean_score_stands_for_rows_that_are_never_seen() -> None:
    material = breast_cancer("fdml")["mean", "labels"]
    values = material.streams[0].values.copy()
    values[:, material.scored[:40]] = np.nan
    fewer = material.streams[0]._replace(values=values)
    guess = LabelReading().guess(material.__class__(**vars(material) | {"streams": (fewer,)}), np.random.default_rng(0))
    assert np.isfinite(guess).all() and score(material, guess) > 0.8
