"""A trained network and ten labels a class, against the same labels and the same network untrained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.attack_materials import materials_of, result, score

import colonnade as cn
from colonnade.privacy.attacks.model_completion import ModelCompletion
from colonnade.privacy.material import Array, Material, OwnNetwork

NAME = "model completion"


@pytest.fixture(scope="module")
def material() -> Material:
    """What a party of a split network has of digits: half of the pixels, and its part of the model."""
    train, _ = cn.load("digits", parties=2)
    return materials_of(train, "splitnn", rounds=60, batch=256, runtime="loop")["party 1", "labels"]


def test_a_trained_network_tells_little_more_than_labels_alone(material: Material) -> None:
    found, control = result(NAME, material)
    assert control > 0.6 and abs(found - control) < 0.15, (
        "without the control this would look like a leak of two thirds"
    )


def test_an_untrained_network_in_the_place_of_the_trained_one_tells_nothing_more(material: Material) -> None:
    assert material.network is not None
    fresh = OwnNetwork(material.network.untrained, material.network.untrained)
    found, control = result(NAME, replace(material, network=fresh))
    assert found == control


def test_a_network_of_noise_tells_nothing_more(material: Material) -> None:
    assert material.network is not None

    def noise(rows: Array) -> Array:
        return np.random.default_rng(0).standard_normal((len(rows), 20))

    found, control = result(NAME, replace(material, network=OwnNetwork(noise, material.network.untrained)))
    assert found == control


def test_what_is_planted_is_found(material: Material) -> None:
    attack = ModelCompletion()
    planted = attack.planted(material, np.random.default_rng(0))
    assert score(planted, attack.guess(planted, np.random.default_rng(0))) > 0.95
    assert score(planted, attack.control(planted, np.random.default_rng(0))) < 0.2


def test_it_needs_a_network(material: Material) -> None:
    assert "no network" in ModelCompletion().unfit(replace(material, network=None))
