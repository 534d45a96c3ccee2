"""Labels from embeddings that reached a party: the mean of all, or the others' part of the top net's first layer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result
from run_materials import breast_cancer, digits

import colonnade as cn
from colonnade.privacy.attacks.embedding_labels import EmbeddingLabels

NAME = "labels from embeddings"


@pytest.mark.parametrize("method", ["cvfl", cn.CVFL(messages="paper")], ids=str)
def test_others_embeddings_tell_more_than_own_columns(method: object) -> None:
    found, control = result(NAME, digits(method)["party 1", "labels"])
    assert found > control + 0.05


def test_the_mean_embedding_tells_more_than_own_columns() -> None:
    found, control = result(NAME, breast_cancer("vfedmh", "first")["error", "labels"])
    assert found > control + 0.05


def test_nothing_is_found_in_noise() -> None:
    material = noise_instead(digits("cvfl")["party 1", "labels"])
    found, control = result(NAME, material)
    assert found < control + 0.03
    assert result(NAME, replace(material, own=None))[0] < 0.2


def test_what_is_planted_is_found() -> None:
    assert planted_score(NAME, digits("cvfl")["party 1", "labels"]) > 0.9


def test_it_needs_embeddings_and_leaves_those_of_apfed_to_another_attack() -> None:
    for material in (digits("splitnn")["party 1", "labels"], breast_cancer("apfed", "first")["error", "labels"]):
        assert "no embeddings" in EmbeddingLabels().unfit(material)
