"""Metrics against numbers worked out by hand and against scikit-learn."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from colonnade.errors import TableError
from colonnade.evaluate import auc, metrics


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
