"""A decoder that is fitted to some known rows rebuilds columns from embeddings and logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result, score
from run_materials import breast_cancer

from colonnade.privacy.attacks.decoder import Decoder

NAME, SECRET = "decoder", ("owner", "columns of mean")


@pytest.mark.parametrize("method", ["splitnn", "vafl", "vimadmm", "cvfl"])
def test_columns_are_rebuilt_from_embeddings(method: str) -> None:
    found, control = result(NAME, breast_cancer(method)[SECRET])
    assert found > 0.9 and control < 0.5, "labels alone tell some of the columns"


@pytest.mark.parametrize("method", ["fdml", "vimadmm-j"])
def test_logits_tell_less(method: str) -> None:
    found, control = result(NAME, breast_cancer(method)[SECRET])
    assert control + 0.1 < found < 0.9


def test_nothing_is_found_in_noise() -> None:
    material = noise_instead(breast_cancer("splitnn")[SECRET])
    found, control = result(NAME, material)
    assert found < control + 0.03
    found, control = result(NAME, replace(material, labels=None))
    assert abs(found) < 0.1 and abs(control) < 0.1


def test_what_is_planted_is_found() -> None:
    assert planted_score(NAME, breast_cancer("splitnn")[SECRET]) > 0.95
    assert planted_score(NAME, breast_cancer("fdml")[SECRET]) > 0.6, "two numbers in a round, but other ones later"


def test_columns_that_rounding_cannot_tell_apart_do_no_harm() -> None:
    material = breast_cancer("splitnn")[SECRET]
    columns = np.concatenate([material.truth, np.ones((len(material.truth), 1), np.float32)], axis=1)
    material = replace(material, truth=columns)
    guess = Decoder().guess(material, np.random.default_rng(0))
    assert guess.shape[1] == 11 and np.allclose(guess[:, -1], 1)
    assert score(material, guess) > 0.9


def test_few_known_rows_and_no_messages_are_named() -> None:
    material = breast_cancer("splitnn")[SECRET]
    assert "needs 100 known rows, and 50 are there" in Decoder().unfit(replace(material, known=material.known[:50]))
    assert Decoder().unfit(material.without_messages()) == "no messages were received"
