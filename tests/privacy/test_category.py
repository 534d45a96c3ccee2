"""One categorical column is read from messages."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result
from run_materials import breast_cancer

from colonnade.privacy.attacks.category import OneCategory
from colonnade.privacy.material import Material

NAME = "one category"


@cache
def material(values: int, method: str = "splitnn") -> Material:
    """Breast cancer, where "mean" of radius was put into as many classes of equal size."""
    whole = breast_cancer(method)["owner", "columns of mean"]
    radius = whole.truth[:, 0]
    classes = np.searchsorted(np.quantile(radius, np.arange(1, values) / values), radius)
    columns = np.concatenate([whole.truth[:, 1:], classes[:, None]], axis=1).astype(np.float32)
    return replace(whole, truth=columns, categories={9: values})


@pytest.mark.parametrize("values", [2, 3])
def test_a_category_is_read(values: int) -> None:
    found, control = result(NAME, material(values))
    assert found > control + 0.05 and found > 0.85


@pytest.mark.parametrize("values", [2, 3])
def test_nothing_is_found_in_noise(values: int) -> None:
    found, control = result(NAME, noise_instead(material(values)))
    assert found < control + 0.03
    found, control = result(NAME, replace(noise_instead(material(values)), labels=None))
    assert found < 1 / values + 0.15 and control < 1 / values + 0.1


@pytest.mark.parametrize("values", [2, 3])
def test_what_is_planted_is_found(values: int) -> None:
    assert planted_score(NAME, material(values)) > 0.95


def test_the_column_is_the_one_whose_values_are_most_even() -> None:
    columns = np.zeros((100, 3), np.float32)
    columns[:10, 0], columns[:40, 1], columns[:, 2] = 1, 7.5, np.arange(100)
    rows = replace(material(2), truth=columns, categories={0: 2, 1: 2})
    judged = OneCategory().judged(rows)
    assert judged.truth.tolist() == [1] * 40 + [0] * 60 and judged.classes == 2
    assert OneCategory().judged(judged) is judged


def test_what_is_no_category_is_named() -> None:
    assert "no column is categorical" in OneCategory().unfit(replace(material(2), categories={}))
    columns = np.zeros((100, 1), np.float32)
    columns[0] = 1
    assert "95%" in OneCategory().unfit(replace(material(2), truth=columns, categories={0: 2}))
