"""XGBoost and LightGBM: our arithmetic on their nodes gives their own predictions, without the library at hand."""

from __future__ import annotations

import sys
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
import xgboost
from torch import Tensor

import colonnade as cn
from colonnade.core.task import Classes, Several, Task, Values
from colonnade.errors import ConfigError
from colonnade.learners import LightGBM, Trees, XGBoost
from colonnade.learners.problems import NEVER, Problem, problems_of
from colonnade.learners.tree_nodes import TreeLearner

LEARNERS = [XGBoost(iterations=8, rate=0.2), LightGBM(iterations=8, rate=0.2, least_rows=5)]
TASKS: dict[str, Task] = {
    "two classes": Classes(2),
    "many classes": Classes(6),
    "values": Values(2),
    "several": Several(2),
    "weights": Classes(3, torch.tensor([0.2, 5.0, 1.0])),
}


def rows(missing: bool) -> Tensor:
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(1))
    x[:, 3] = x[:, 3].round()  # values that are thresholds, so that < and <= differ
    if missing:
        x[::7, 1] = torch.nan
    return x


def labels_for(task: Task, x: Tensor) -> Tensor:
    score = x[:, 0] + x[:, 1].nan_to_num(1.5) * x[:, 3]
    if task.name == "values":
        return torch.stack([score, x[:, 2]], 1)
    if task.name == "several":
        return torch.stack([score > 0, x[:, 2] > x[:, 3]], 1).float()
    edges = torch.linspace(-1, 1, max(1, min(task.outputs, 4) - 1))
    return torch.bucketize(score.contiguous(), edges)  # of six classes two have no row


def theirs(learner: TreeLearner, x: Tensor, new: Tensor, problem: Problem) -> np.ndarray:
    """The library's own outputs for new rows, of a fit with the learner's parameters."""
    y = np.unique(problem.y, return_inverse=True)[1] if problem.classifies else problem.y
    plain: Any = x.double().numpy()
    parameters = learner._parameters(problem, 0)  # type: ignore[attr-defined]
    if isinstance(learner, XGBoost):
        booster = xgboost.train(parameters, xgboost.DMatrix(plain, y, weight=problem.weights), learner.iterations)
        found = booster.predict(xgboost.DMatrix(new.double().numpy()), output_margin=True)
    else:
        data = lightgbm.Dataset(plain, y, weight=problem.weights, params={"verbose": -1})
        booster = lightgbm.train(parameters, data, learner.iterations)
        found = booster.predict(new.double().numpy(), raw_score=True)
    return np.asarray(found).reshape(len(new), -1)


@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_outputs_are_those_of_the_library(learner: TreeLearner, task: Task, missing: bool) -> None:
    x = rows(missing)
    y, new = labels_for(task, x), x[torch.randperm(300)] + 0
    new[::5, 0] = torch.nan  # missing in a column that had no missing value in training
    o = learner.outputs(learner.fit(x, y, task, seed=0), new)
    for problem in problems_of(y, task):
        np.testing.assert_allclose(o[:, list(problem.columns)].numpy(), theirs(learner, x, new, problem), atol=2e-5)
    absent = sorted(set(range(task.outputs)) - set(y.unique().tolist())) if task.name == "classes" else []
    assert bool((o[:, absent] == NEVER).all())


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_a_state_is_applied_without_the_library(learner: TreeLearner, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(missing=True)
    y = labels_for(Classes(2), x)
    state = learner.fit(x, y, Classes(2), seed=0)
    before = learner.outputs(state, x)
    monkeypatch.setitem(sys.modules, learner.kind, None)
    assert torch.equal(learner.outputs(state, x), before)
    assert torch.equal(Trees().outputs(state, x), before), "one form of state for all trees"


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_a_library_that_is_not_installed_is_one_sentence(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(ConfigError, match=rf"not installed; pip install 'colonnade\[{kind}\]'"):
        cn.learners.make_learner(kind).fit(rows(False), torch.arange(300) % 2, Classes(2), 0)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.kind)
def test_too_few_rows_for_a_split_give_what_is_common(learner: TreeLearner) -> None:
    x, y = torch.ones(12, 2), torch.arange(12) % 3 // 2
    o = learner.outputs(learner.fit(x, y, Classes(2), 0), x)
    p = torch.softmax(o, 1)[:, 1]
    torch.testing.assert_close(p, torch.full((12,), 1 / 3), atol=0.05, rtol=0)
