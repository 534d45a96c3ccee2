"""A few known labels and received gradients tell the labels of all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result
from run_materials import breast_cancer, diabetes, digits

from colonnade.privacy.attacks.few_labels import OneLabel, TenLabels
from colonnade.privacy.attacks.small_models import first_of_each_class

ONE, TEN = "one known label a class", "ten known labels a class"


@pytest.mark.parametrize("name", [ONE, TEN])
@pytest.mark.parametrize("method", ["splitnn", "vafl"])
def test_ten_classes_are_told_by_gradients(name: str, method: str) -> None:
    found, control = result(name, digits(method)["party 1", "labels"])
    assert found > 0.98 and control < 0.8, "the same labels on the own half of the picture tell much less"


@pytest.mark.parametrize("name", [ONE, TEN])
def test_two_classes_are_told_by_gradients(name: str) -> None:
    assert result(name, breast_cancer("splitnn")["mean", "labels"])[0] > 0.99


@pytest.mark.parametrize("name", [ONE, TEN])
def test_nothing_is_found_in_noise(name: str) -> None:
    material = noise_instead(digits("splitnn")["party 1", "labels"])
    found, control = result(name, material)
    assert found < control + 0.05
    found, control = result(name, replace(material, own=None))
    assert found < 0.2 and control < 0.2


@pytest.mark.parametrize("name", [ONE, TEN])
def test_what_is_planted_is_found(name: str) -> None:
    assert planted_score(name, digits("splitnn")["party 1", "labels"]) > 0.9


def test_values_are_told_by_twenty_rows() -> None:
    found, control = result(TEN, diabetes("splitnn")["half 0", "labels"])
    assert found > control + 0.2


def test_no_more_labels_are_used_than_declared() -> None:
    material = digits("splitnn")["party 1", "labels"]
    rows = first_of_each_class(material, 10)
    assert np.bincount(material.truth[rows]).tolist() == [10] * 10
    spoilt = np.setdiff1d(np.concatenate([material.known, material.scored]), rows)
    truth = material.truth.copy()
    truth[spoilt] = (truth[spoilt] + 1) % 10
    unknown = np.setdiff1d(material.known, rows)
    other = replace(material, truth=truth, known=np.setdiff1d(material.known, unknown, assume_unique=False))
    kept = replace(material, known=other.known)
    for attack in (OneLabel(), TenLabels()):
        both = (attack.guess(one, np.random.default_rng(0)) for one in (kept, other))
        assert np.array_equal(*both), "the truth of rows that are judged is not looked at"


def test_too_few_known_rows_are_named() -> None:
    material = digits("splitnn")["party 1", "labels"]
    assert "10 of every class" in TenLabels().unfit(replace(material, known=material.known[:30]))
    assert TenLabels().unfit(replace(material, streams=())) == "no gradients were received"
