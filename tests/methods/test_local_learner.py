"""``local`` with a learner: scikit-learn's trees on the owner's columns, fitted once, whatever else is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

import colonnade as cn
from colonnade.errors import ConfigError

TREES = "trees(iterations=20, rate=0.1)"


@pytest.fixture(scope="module")
def tables() -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)).astype(np.float32)
    return cn.split(x, (x[:, 0] * x[:, 1] + x[:, 4] > 0).astype(np.int64), [[0, 1, 2], [3, 4, 5]], owner="first")


def test_it_is_scikit_learns_own(tables: list[cn.Table]) -> None:
    run = cn.train(tables, cn.Local(learner=TREES), epochs=7, batch=16)
    assert run.round == run.settings.rounds == 1 and run.settings.batch == 400
    assert run.ledger.total == 0
    x = tables[0].columns.double().numpy()
    model = HistGradientBoostingClassifier(
        max_iter=20, learning_rate=0.1, max_leaf_nodes=8, l2_regularization=1.0, early_stopping=False
    ).fit(x, tables[0].labels.numpy())
    np.testing.assert_allclose(run.predict(tables).numpy(), model.predict_proba(x), atol=1e-4)


def test_noisy_labels_are_not_for_the_owners_own_learner(tables: list[cn.Table]) -> None:
    plain, sealed = (cn.train(tables, cn.Local(learner=TREES), seal=seal) for seal in (None, cn.RandomLabels(0.1)))
    assert torch.equal(plain.predict(tables), sealed.predict(tables))


def test_it_learns_from_a_teacher(tables: list[cn.Table]) -> None:
    teacher = cn.train(tables, cn.OneShot(learner=TREES, top=TREES))
    solo = cn.distil(teacher, tables, method=cn.Local(learner=TREES))
    assert solo.evaluate(tables[:1])["auc"] > 0.7


def test_what_belongs_to_a_network_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"hidden=8, dropout=0.0 are of a network, and with learner='trees' there is none"
    ):
        cn.Local(learner="trees", hidden=8)
    with pytest.raises(ConfigError, match="unknown learner 'orchard'"):
        cn.Local(learner="orchard")
