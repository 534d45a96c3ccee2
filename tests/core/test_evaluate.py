"""Metrics against numbers worked out by hand and against scikit-learn."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    f1_score,
    hamming_loss,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    roc_curve,
    root_mean_squared_error,
)

from colonnade.core.metrics import auc, calibration, label_metrics, metrics, value_metrics
from colonnade.errors import TableError


def test_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0], [0.0, 0.0], [0.0, math.log(3)]])
    found = metrics(logits, torch.tensor([1, 1, 0, 1]))
    assert found["accuracy"] == 0.75  # right, wrong, right (the first of equals), right
    assert found["loss"] == pytest.approx((2 * math.log(4 / 3) + math.log(4) + math.log(2)) / 4)
    assert found["auc"] == pytest.approx(2 / 3)  # of three pairs two are in order


def test_against_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(200, 5, generator=generator), torch.randint(0, 5, (200,), generator=generator)
    found = metrics(logits, labels)
    assert sorted(found) == ["accuracy", "loss"]  # no area for more than two classes
    assert found["loss"] == pytest.approx(log_loss(labels, logits.double().softmax(1), labels=range(5)))
    assert found["accuracy"] == pytest.approx((logits.argmax(1) == labels).double().mean().item())


def test_the_loss_of_sure_mistakes_is_exact() -> None:
    assert metrics(torch.tensor([[300.0, 0.0, 0.0]]), torch.tensor([1]))["loss"] == pytest.approx(300.0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-10, 10, width=32), st.booleans()), min_size=2, max_size=40))
def test_auc_on_any_scores(rows: list[tuple[float, bool]]) -> None:
    scores, labels = torch.tensor([row[0] for row in rows]), torch.tensor([int(row[1]) for row in rows])
    if len(labels.unique()) == 2:
        assert auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=40))
def test_auc_on_tied_scores(rows: list[tuple[int, bool]]) -> None:
    scores, labels = torch.tensor([float(row[0]) for row in rows]), torch.tensor([int(row[1]) for row in rows])
    if len(labels.unique()) == 2:
        assert auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_auc_at_its_ends() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    assert auc(torch.tensor([1.0, 2.0, 3.0, 4.0]), labels) == 1.0
    assert auc(torch.tensor([4.0, 3.0, 2.0, 1.0]), labels) == 0.0
    assert auc(torch.zeros(4), labels) == 0.5


def test_no_auc_when_only_one_class_came() -> None:
    assert sorted(metrics(torch.zeros(2, 2), torch.tensor([1, 1]))) == ["accuracy", "loss"]


def test_a_class_that_was_never_trained() -> None:
    with pytest.raises(TableError, match="class 3, but the model was trained on 3 classes"):
        metrics(torch.zeros(2, 3), torch.tensor([0, 3]))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60))
def test_two_classes_as_scikit_learn_has_them(rows: list[tuple[int, bool]]) -> None:
    """Also with many ties."""
    labels = torch.tensor([int(row[1]) for row in rows])
    logits = torch.tensor([[0.0, row[0] / 2] for row in rows])
    if len(labels.unique()) < 2:
        return
    found, p = metrics(logits, labels), logits.double().softmax(1)[:, 1]
    false, true, _ = roc_curve(labels, p)
    assert found["auc"] == pytest.approx(roc_auc_score(labels, p), abs=1e-12)
    assert found["average_precision"] == pytest.approx(average_precision_score(labels, p), abs=1e-12)
    assert found["ks"] == pytest.approx(abs(true - false).max(), abs=1e-12)
    assert found["brier"] == pytest.approx(brier_score_loss(labels, p), abs=1e-12)


def test_the_curve_of_calibration_is_that_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(400, 2, generator=generator)
    labels = (torch.rand(400, generator=generator) < logits.softmax(1)[:, 1]).long()
    bins = calibration(logits, labels)
    observed, predicted = calibration_curve(labels, logits.double().softmax(1)[:, 1], n_bins=15)
    assert [one.observed for one in bins] == pytest.approx(observed.tolist())
    assert [one.predicted for one in bins] == pytest.approx(predicted.tolist())
    assert sum(one.rows for one in bins) == 400
    by_hand = sum(one.rows / 400 * abs(one.predicted - one.observed) for one in bins)
    assert metrics(logits, labels)["ece"] == pytest.approx(by_hand) and by_hand < 0.1


@pytest.mark.parametrize("shape", [(50,), (50, 3)])
def test_values_as_scikit_learn_has_them(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(2)
    labels = 100 + 20 * torch.randn(shape, generator=generator, dtype=torch.float64)
    predicted = labels + 5 * torch.randn(shape, generator=generator, dtype=torch.float64)
    found = value_metrics(predicted, labels)
    assert found["r2"] == pytest.approx(r2_score(labels, predicted))
    assert found["rmse"] == pytest.approx(root_mean_squared_error(labels, predicted))
    assert found["mae"] == pytest.approx(mean_absolute_error(labels, predicted))
    assert sorted(value_metrics(predicted, 0 * labels)) == ["mae", "rmse"]


def test_several_labels_as_scikit_learn_has_them() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(80, 4, generator=generator)
    labels = (torch.rand(80, 4, generator=generator) < logits.sigmoid()).long()
    found = label_metrics(logits, labels)
    assert found["accuracy"] == pytest.approx(1 - hamming_loss(labels, logits > 0))
    assert found["micro_f1"] == pytest.approx(f1_score(labels, logits > 0, average="micro"))
    assert found["micro_auc"] == pytest.approx(roc_auc_score(labels, logits, average="micro"))
    assert found["macro_auc"] == pytest.approx(roc_auc_score(labels, logits, average="macro"))
    labels[:, 0] = 1  # one value only: not in the macro mean
    expected = roc_auc_score(labels[:, 1:], logits[:, 1:], average="macro")
    assert label_metrics(logits, labels)["macro_auc"] == pytest.approx(expected)
    assert sorted(label_metrics(logits, torch.zeros_like(labels))) == ["accuracy", "micro_f1"]
