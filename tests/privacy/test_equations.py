"""Where what a party sends is linear in its columns, known rows give the others exactly."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from benchmarks.attack_materials import materials_of, noise_instead, planted_score, result
from run_materials import breast_cancer
from torch import nn

import colonnade as cn
from colonnade.privacy.attacks.equations import Equations
from colonnade.privacy.material import Material

NAME, SECRET = "equations", ("owner", "columns of mean")


def linear(shape: tuple[int, ...], width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), width))


@cache
def of_linear_networks(method: Any, **options: int) -> Material:
    train, _ = cn.load("breast_cancer")
    return materials_of(train, method, model=linear, **options)[SECRET]


@pytest.mark.parametrize("batch", [128, 455])
def test_columns_of_linear_networks_are_found_exactly(batch: int) -> None:
    material = of_linear_networks("vafl", batch=batch)
    found, control = result(NAME, material)
    assert found > 0.9999 and control < 0.5
    guess = Equations().guess(material, np.random.default_rng(0))
    assert np.median(np.abs(guess - material.truth[material.scored])) < 1e-4


def test_columns_and_one_known_rows_are_enough() -> None:
    material = of_linear_networks("vafl", batch=455)
    assert result(NAME, replace(material, known=material.known[:11]))[0] > 0.999
    assert "needs 11 known rows" in Equations().unfit(replace(material, known=material.known[:10]))


def test_two_logits_a_round_are_enough_in_many_rounds() -> None:
    """Weights change from round to round, so each round gives two more equations for the same columns."""
    found, control = result(NAME, of_linear_networks(cn.FDML(lr=1.0), batch=455))
    assert found > control + 0.3


def test_a_network_that_bends_is_not_solved_exactly() -> None:
    found, _ = result(NAME, breast_cancer("splitnn")[SECRET])
    assert found < 0.99


def test_nothing_is_found_in_noise() -> None:
    found, control = result(NAME, noise_instead(of_linear_networks("vafl", batch=128)))
    assert found < control + 0.03


def test_what_is_planted_is_found() -> None:
    assert planted_score(NAME, of_linear_networks("vafl", batch=128)) > 0.999


def test_too_few_numbers_are_named() -> None:
    assert "as there are columns (10)" in Equations().unfit(breast_cancer("fdml")[SECRET])
    assert Equations().unfit(breast_cancer("fdml")[SECRET].without_messages()) == "no messages were received"
