"""Forests as nodes, and any estimator through skops: as scikit-learn, without pickle, refused in a sentence."""

from __future__ import annotations

import io
import sys
import zipfile
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from torch import Tensor

from colonnade.core.task import Classes, Several, Task, Values
from colonnade.errors import CheckpointError, ConfigError
from colonnade.learners import Estimator, ExtraTrees, Learner, Linear, RandomForest, Trees
from colonnade.learners import estimator as estimators
from colonnade.learners.problems import NEVER, problems_of

FORESTS = [RandomForest(iterations=12), ExtraTrees(iterations=12)]


@dataclass(frozen=True)
class Regression(Estimator):
    """Somebody's own learner; the tests of the surface see only registered ones."""

    kind: ClassVar[str] = "regression"

    def make(self, classifies: bool, seed: int) -> Any:
        return LogisticRegression() if classifies else Ridge()


class Neighbours(Estimator):
    kind: ClassVar[str] = "neighbours"

    def make(self, classifies: bool, seed: int) -> Any:
        return KNeighborsClassifier(5) if classifies else KNeighborsRegressor(5)


class TrustedNeighbours(Neighbours):
    trusted: ClassVar[tuple[str, ...]] = (
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.neighbors._kd_tree.KDTree",
    )


def rows(count: int = 300) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1))


def labels_for(task: Task, x: Tensor) -> Tensor:
    if task.name == "values":
        return x[:, :2] + x[:, 2:].abs()
    if task.name == "several":
        return (x[:, :2] > 0.3).float()
    return (x[:, 0] > 0).long() * (task.outputs - 1) + ((x[:, 0] <= 0) & (x[:, 1] > 0)).long() * (task.outputs > 2)


TASKS: dict[str, Task] = {
    "two classes": Classes(2),
    "many classes": Classes(5),
    "values": Values(2),
    "several": Several(2),
    "weights": Classes(3, torch.tensor([0.2, 5.0, 1.0])),
}


def check_against(learner: Any, model_of: Any, task: Task, x: Tensor) -> None:
    """The outputs, put through the task, are the estimator's own predictions."""
    y = labels_for(task, x)
    o = learner.outputs(learner.fit(x, y, task, seed=0), x)
    p, inputs = task.probabilities(o).double().numpy(), x.double().numpy()
    for problem in problems_of(y, task):
        model = model_of(problem.classifies).fit(inputs, problem.y, sample_weight=problem.weights)
        if task.name == "classes":
            np.testing.assert_allclose(p[:, model.classes_], model.predict_proba(inputs), atol=3e-4)
        else:
            expected = model.predict_proba(inputs)[:, 1] if problem.classifies else model.predict(inputs)
            np.testing.assert_allclose(p[:, problem.columns[0]], expected, atol=3e-4)
    absent = sorted(set(range(task.outputs)) - set(y.unique().tolist())) if task.name == "classes" else []
    assert bool((o[:, absent] == NEVER).all())


@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize("learner", FORESTS, ids=lambda learner: learner.kind)
def test_forests_are_those_of_scikit_learn(learner: RandomForest, task: Task, missing: bool) -> None:
    x = rows()
    if missing:
        x[::7, 3] = torch.nan
        task = task if task.name != "values" else Classes(2)  # labels of values would be missing too
    check_against(learner, lambda classifies: learner._model(classifies, 0), task, x)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_an_estimator_gives_its_own_predictions(task: Task) -> None:
    learner = Regression()
    check_against(learner, lambda classifies: learner.make(classifies, 0), task, rows())


@pytest.mark.parametrize("learner", [*FORESTS, Linear(), Trees(iterations=3), Regression()], ids=lambda one: one.kind)
def test_a_label_that_no_row_has_or_all_have_is_known(learner: Learner) -> None:
    y = torch.stack([torch.zeros(300), torch.ones(300), torch.arange(300) % 2], 1)
    p = torch.sigmoid(learner.outputs(learner.fit(rows(), y, Several(3), 0), rows()))
    assert bool((p[:, 0] < 0.01).all()) and bool((p[:, 1] > 0.99).all())


def test_types_that_skops_does_not_know_are_refused_before_training_and_taken_if_trusted() -> None:
    x, y = rows(), labels_for(Classes(2), rows())
    with pytest.raises(ConfigError, match=r"cannot be saved: skops does not know sklearn.*KDTree to be safe"):
        Neighbours().fit(x, y, Classes(2), 0)
    state = TrustedNeighbours().fit(x, y, Classes(2), 0)
    assert all(isinstance(value, Tensor) for value in state.values())
    expected = KNeighborsClassifier(5).fit(x.double().numpy(), y.numpy()).predict(x.double().numpy())
    assert np.array_equal(TrustedNeighbours().outputs(state, x).argmax(1).numpy(), expected)
    with pytest.raises(CheckpointError, match="a saved 'neighbours' cannot be read: UntrustedTypesFound"):
        Neighbours().outputs(state, x)  # what another side wrote is not taken because it was written


def test_saved_bytes_that_are_damaged_or_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows(), labels_for(Classes(2), rows())
    state = Regression().fit(x, y, Classes(2), 0)
    with pytest.raises(CheckpointError, match="a saved 'regression' cannot be read"):
        Regression().outputs({**state, "0000/model": state["0000/model"][:-50]}, x)
    monkeypatch.setattr(estimators, "MOST_BYTES", 100)
    with pytest.raises(CheckpointError, match="bytes unpacked; at most 100 are read"):
        Regression().outputs(state, x)


def test_a_saved_estimator_holds_no_pickle() -> None:
    saved = Regression().fit(rows(), labels_for(Classes(2), rows()), Classes(2), 0)["0000/model"]
    with zipfile.ZipFile(io.BytesIO(saved.numpy().tobytes())) as file:
        names = file.namelist()
    assert names and all(name.endswith((".json", ".npy")) for name in names)


def test_what_an_estimator_cannot_do_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows(), labels_for(Classes(2), rows())
    with pytest.raises(ConfigError, match="the learner 'neighbours' takes no weights of rows"):
        TrustedNeighbours().fit(x, y, Classes(2, torch.tensor([1.0, 2.0])), 0)
    missing = torch.where(x > 2, torch.nan, x)
    with pytest.raises(
        ConfigError, match="the learner 'regression' cannot be fitted: ValueError: Input X contains NaN"
    ):
        Regression().fit(missing, y, Classes(2), 0)
    state = Regression().fit(x, y, Classes(2), 0)
    with pytest.raises(
        ConfigError, match="the learner's LogisticRegression cannot predict: ValueError: Input X contains"
    ):
        Regression().outputs(state, missing)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ConfigError, match=r"not installed; pip install 'colonnade\[skops\]'"):
        Regression().fit(x, y, Classes(2), 0)


def test_a_damaged_forest_is_refused() -> None:
    state = FORESTS[0].fit(rows(), labels_for(Classes(2), rows()), Classes(2), 0)
    with pytest.raises(CheckpointError, match="lacks how its votes become logits"):
        FORESTS[0].outputs({name: value for name, value in state.items() if name != "link"}, rows())
