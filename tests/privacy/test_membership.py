"""Which rows a model was trained on, told by what it predicts for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.attack_materials import noise_instead, planted_score, result, split

import colonnade as cn
from colonnade.privacy.attacks.membership import MembershipScoring
from colonnade.privacy.material import Array, Material, Stream

NAME = "membership"
pytestmark = pytest.mark.slow  # it trains two models that learn by heart


def outputs_of(run: cn.Run, tables: list[cn.Table]) -> Array:
    return run.outputs(tables).numpy()


@pytest.fixture(scope="module")
def material() -> Material:
    """Predictions of 600 digits by a model that was trained on 300 of them, half of whose labels are wrong.

    The reference is a model that was trained on 300 others.
    """
    whole, _ = cn.load("digits", parties=2)
    labels = whole[0].labels.numpy().copy()
    odd = np.random.default_rng(0).random(len(labels)) < 0.5
    labels[odd] = (labels[odd] + 3) % 10
    whole = [replace(whole[0], labels=labels), *whole[1:]]
    members, others, apart = ([table.take(np.arange(k, k + 300)) for table in whole] for k in (0, 300, 600))
    options = {"rounds": 300, "batch": 100, "seed": 0}
    target, reference = (cn.train(rows, "splitnn", **options) for rows in (members, apart))
    asked = [table.take(np.arange(600)) for table in whole]
    stream = Stream("owner", "client", "predict", "o", np.zeros(1, dtype=np.int64), outputs_of(target, asked)[None])
    made = Material(
        adversary="client",
        of="owner",
        secret="membership",
        truth=(np.arange(600) < 300).astype(np.int64),
        classes=2,
        streams=(stream,),
        labels=labels[:600],
        reference=outputs_of(reference, asked),
    )
    assert len(others[0].ids) == 300
    return split(made, known=0)


def test_a_model_that_learnt_by_heart_tells_its_rows(material: Material) -> None:
    found, control = result(NAME, material)
    assert found > 0.65 and abs(control - 0.5) < 0.1


def test_without_labels_confidence_tells_less(material: Material) -> None:
    assert result(NAME, replace(material, labels=None))[0] < result(NAME, material)[0]


def test_nothing_is_found_in_noise(material: Material) -> None:
    assert abs(result(NAME, noise_instead(material))[0] - 0.5) < 0.1


def test_rows_of_no_run_are_not_told_apart(material: Material) -> None:
    """The reference model's own predictions in the place of the messages."""
    assert material.reference is not None
    same = material.streams[0]._replace(values=material.reference[None])
    found, control = result(NAME, replace(material, streams=(same,)))
    assert abs(found - 0.5) < 0.1 and abs(found - control) < 0.05


@pytest.mark.parametrize("labels", [True, False])
def test_what_is_planted_is_found(material: Material, labels: bool) -> None:
    assert planted_score(NAME, material if labels else replace(material, labels=None)) > 0.95


def test_what_is_needed_is_named(material: Material) -> None:
    assert MembershipScoring().unfit(replace(material, streams=())) == "no predictions were received"
    narrow = material.streams[0]._replace(values=material.streams[0].values[..., :1])
    assert "labels are not known" in MembershipScoring().unfit(replace(material, streams=(narrow,), labels=None))


def test_values_are_judged_by_their_error() -> None:
    rng = np.random.default_rng(0)
    truth = (np.arange(400) < 200).astype(np.int64)
    labels = rng.standard_normal(400)
    predicted = labels + np.where(truth == 1, 0.1, 1.0) * rng.standard_normal(400)
    stream = Stream("owner", "client", "predict", "o", np.zeros(1, dtype=np.int64), predicted[None, :, None])
    made = Material("client", "owner", "membership", truth, 2, (stream,), labels=labels)
    assert result(NAME, split(made, known=0))[0] > 0.9
