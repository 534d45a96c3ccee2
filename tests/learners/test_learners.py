"""Learners: what they fit agrees with scikit-learn, is saved as tensors, and damage is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from colonnade.core.task import Classes, Several, Task, Values
from colonnade.errors import CheckpointError, ConfigError
from colonnade.learners import Learner, Linear, Network, Trees, learners, make_learner
from colonnade.learners.clusters import clusters_of
from colonnade.learners.folds import cross_fit, mean_outputs
from colonnade.learners.problems import NEVER
from colonnade.learners.projection import directions_of, projected

SMALL = Trees(iterations=8, rate=0.2, least_rows=5)
ALL: list[Learner] = [SMALL, Linear(), Network(width=32, epochs=60, rate=0.01)]


def rows(count: int = 400) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1))


def model_of(trees: Trees, kind: type = HistGradientBoostingClassifier) -> HistGradientBoostingClassifier:
    return kind(
        max_iter=trees.iterations,
        learning_rate=trees.rate,
        max_leaf_nodes=trees.leaves,
        min_samples_leaf=trees.least_rows,
        l2_regularization=trees.ridge,
        early_stopping=False,
        random_state=0,
    )


def test_trees_are_those_of_scikit_learn_with_missing_values_too() -> None:
    x = rows()
    x[::7, 1] = torch.nan
    y = (x[:, 0] + x[:, 2] > 0).long()
    o = SMALL.outputs(SMALL.fit(x, y, Classes(2), seed=0), x)
    expected = model_of(SMALL).fit(x.double().numpy(), y.numpy()).decision_function(x.double().numpy())
    np.testing.assert_allclose((o[:, 1] - o[:, 0]).numpy(), expected, atol=1e-5)


def test_trees_of_several_classes_leave_out_those_that_no_row_has() -> None:
    x = rows()
    y = 2 * torch.bucketize(x[:, 0].contiguous(), torch.tensor([-0.5, 0.5]))
    o = SMALL.outputs(SMALL.fit(x, y, Classes(5), seed=0), x)
    expected = model_of(SMALL).fit(x.double().numpy(), y.numpy()).decision_function(x.double().numpy())
    np.testing.assert_allclose(o[:, [0, 2, 4]].numpy(), expected, atol=1e-5)
    assert bool((o[:, [1, 3]] == NEVER).all())


def test_trees_of_values_are_one_forest_for_each() -> None:
    x = rows()
    y = torch.stack([x[:, 0], x[:, 1] * x[:, 2]], 1)
    o = SMALL.outputs(SMALL.fit(x, y, Values(2), seed=0), x)
    for k in range(2):
        model = model_of(SMALL, HistGradientBoostingRegressor).fit(x.double().numpy(), y[:, k].double().numpy())
        np.testing.assert_allclose(o[:, k].numpy(), model.predict(x.double().numpy()), atol=1e-5)


def test_soft_targets_are_weights() -> None:
    """A soft target is as many rows as there are classes, each with its probability."""
    x, hard = rows(), torch.arange(400) % 2
    soft = torch.nn.functional.one_hot(hard, 2).float()
    linear = Linear()
    plain, soft_one = (linear.outputs(linear.fit(x, y, Classes(2), 0), x) for y in (hard, soft))
    torch.testing.assert_close(plain, soft_one, atol=1e-3, rtol=1e-3)


def test_a_line_is_that_of_scikit_learn() -> None:
    x = rows()
    y = (x[:, 0] + 0.3 * x[:, 3] > 0).long()
    o = Linear().outputs(Linear().fit(x, y, Classes(2), 0), x)
    standard = ((x - x.mean(0)) / x.std(0, correction=0)).double().numpy()
    expected = LogisticRegression(max_iter=1000).fit(standard, y.numpy()).decision_function(standard)
    np.testing.assert_allclose((o[:, 1] - o[:, 0]).numpy(), expected, atol=1e-3)


@pytest.mark.parametrize("learner", ALL, ids=lambda learner: learner.kind)
@pytest.mark.parametrize("task", [Classes(2), Classes(4), Values(1), Several(2)], ids=lambda task: task.name)
def test_every_learner_learns_every_task(learner: Learner, task: Task) -> None:
    x = rows()
    y = {
        "classes": (x[:, 0] > 0).long() + (task.outputs > 2) * (x[:, 1] > 0).long(),
        "values": x[:, :1] + x[:, 1:2],
        "several": (x[:, : task.outputs] > 0).float(),
    }[task.name]
    state = learner.fit(x, y, task, seed=0)
    assert all(isinstance(value, Tensor) for value in state.values()), "tensors, and nothing that needs pickle"
    o = learner.outputs(state, x)
    assert o.shape == (400, task.outputs)
    constant = torch.full_like(o, 0.0)
    assert float(task.loss(o, y)) < 0.7 * float(task.loss(constant, y))


@pytest.mark.parametrize("learner", ALL, ids=lambda learner: learner.kind)
def test_what_is_learnt_follows_from_the_seed(learner: Learner) -> None:
    x, y = rows(), torch.arange(400) % 2
    first, second = (learner.fit(x, y, Classes(2), seed=3) for _ in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("learner", ALL, ids=lambda learner: learner.kind)
def test_labels_that_are_all_alike_are_learnt(learner: Learner) -> None:
    o = learner.outputs(learner.fit(rows(), torch.ones(400).long(), Classes(2), 0), rows())
    assert bool((o[:, 1] > o[:, 0]).all())


def test_scores_out_of_fold_do_not_know_their_labels() -> None:
    """Labels drawn by lot: a learner knows those it was fitted to, and cross-fitting does not."""
    x, y = rows(300), torch.randint(2, (300,), generator=torch.Generator().manual_seed(2))
    trees = Trees(iterations=60, rate=0.2, leaves=31, least_rows=2)
    known = trees.outputs(trees.fit(x, y, Classes(2), 0), x).argmax(1)
    fitted = cross_fit(trees, x, y, Classes(2), folds=5, seed=0)
    assert float((known == y).float().mean()) > 0.95, "the control"
    assert 0.35 < float((fitted.outputs.argmax(1) == y).float().mean()) < 0.65
    new = mean_outputs(trees, fitted.state, x[:5])
    each = [trees.outputs({k[2:]: v for k, v in fitted.state.items() if k[0] == f}, x[:5]) for f in "01234"]
    torch.testing.assert_close(new, torch.stack(each).mean(0))


def test_too_few_rows_for_the_folds_are_refused() -> None:
    with pytest.raises(ConfigError, match="9 rows came for 5 folds; cross-fitting needs at least two rows in each"):
        cross_fit(Linear(), rows(9), torch.arange(9) % 2, Classes(2), folds=5, seed=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("left", -1), ("right", 10**6), ("feature", 99), ("roots", 10**6), ("column", 7)],
)
def test_damaged_trees_are_refused(name: str, value: int) -> None:
    state = SMALL.fit(rows(), torch.arange(400) % 2, Classes(2), 0)
    state[name] = state[name].clone()
    state[name][0] = value
    with pytest.raises(CheckpointError, match="the saved trees cannot be applied"):
        SMALL.outputs(state, rows())


def test_trees_that_lead_back_are_refused() -> None:
    state = SMALL.fit(rows(), (rows()[:, 0] > 0).long(), Classes(2), 0)
    state["left"] = torch.zeros_like(state["left"])
    with pytest.raises(CheckpointError, match="damaged"):
        SMALL.outputs(state, rows())
    with pytest.raises(CheckpointError, match="damaged"):
        SMALL.outputs({}, rows())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("orchard", "unknown learner 'orchard'"),
        ("trees(depth=3)", "unknown option of trees 'depth'"),
        ("trees(iterations=0)", "iterations=0 is out of range; give 1 to 5000"),
        ("trees(iterations=1e9)", "is not a whole number"),
        ("trees(iterations=x)", "which is not a number"),
        ("trees(__import__('os'))", "cannot be read"),
        ("network(width=10000000)", "out of range"),
        ("Trees", "cannot be read"),
    ],
)
def test_a_learner_that_cannot_be_made_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_learner(text)
    assert sentence in str(caught.value)


def test_learners_are_listed_by_name() -> None:
    assert {"trees", "linear", "network"} <= set(learners())
    assert make_learner("trees(iterations=7, rate=0.5)") == Trees(iterations=7, rate=0.5)


def test_main_directions_are_those_of_the_covariance() -> None:
    x = rows() @ torch.diag(torch.tensor([5.0, 1.0, 1.0, 0.1])) + 3
    directions = directions_of(x, 2)
    places = projected(x, directions)
    torch.testing.assert_close(places.mean(0), torch.zeros(2), atol=0.02, rtol=0)
    torch.testing.assert_close(places.std(0, correction=0), torch.ones(2), atol=0.05, rtol=0)
    assert abs(float((places[:, 0] * places[:, 1]).mean())) < 0.05
    near = ((x - directions[0]) / directions[1]).clamp(-3, 3) - directions[2]
    largest = torch.linalg.eigvalsh(near.T @ near / len(x))[-2:].sum()
    along = torch.nn.functional.normalize(directions[3:], dim=1)
    torch.testing.assert_close((near @ along.T).square().mean(0).sum(), largest, rtol=1e-3, atol=0)


def test_a_few_large_amounts_do_not_turn_the_directions() -> None:
    x = rows()
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    far = x.clone()
    far[:3, 2:] = torch.tensor([[1e6, 1e6]])
    plain, drawn = (torch.nn.functional.normalize(directions_of(each, 1)[3:], dim=1) for each in (x, far))
    assert float((plain * drawn).sum().abs()) > 0.95


def test_more_directions_than_columns_are_zero() -> None:
    assert projected(rows(), directions_of(rows(), 6))[:, 4:].abs().max() == 0


def test_clusters_go_by_direction() -> None:
    way = torch.tensor([[1.0, 0.0], [-1.0, 0.5]]).repeat_interleave(20, 0)
    points = way * torch.rand(40, 1, generator=torch.Generator().manual_seed(0)).add(1e-3)
    found = clusters_of(points, 2, seed=0)
    assert len(found[:20].unique()) == len(found[20:].unique()) == 1
    assert found[0] != found[-1]


@pytest.mark.parametrize("learner", [SMALL, Linear()], ids=lambda learner: learner.kind)
def test_soft_labels_are_weights_too(learner: Learner) -> None:
    """What a teacher says of a label is between 0 and 1; half and half is no opinion."""
    x = rows()
    soft = torch.stack([torch.where(x[:, 0] > 0, 0.9, 0.2), torch.full((400,), 0.5)], 1)
    p = torch.sigmoid(learner.outputs(learner.fit(x, soft, Several(2), 0), x))
    assert float(p[x[:, 0] > 0.5, 0].mean()) > 0.75 and float(p[x[:, 0] < -0.5, 0].mean()) < 0.3
    torch.testing.assert_close(p[:, 1], torch.full((400,), 0.5), atol=0.01, rtol=0)


@pytest.mark.parametrize("text", ["linear", "network(epochs=2)", "trees(iterations=2)"])
def test_missing_values_and_columns_without_any_are_learnt_from(text: str) -> None:
    x, y = torch.randn(120, 3), torch.arange(120) % 2
    x[:, 0] += 4 * y
    x[::3, 0], x[:, 2] = torch.nan, torch.nan
    learner = make_learner(text)
    outputs = learner.outputs(learner.fit(x, y, Classes(2), seed=0), x)
    assert outputs.isfinite().all()
    assert float((outputs.argmax(1) == y)[~x[:, 0].isnan()].float().mean()) > 0.9


SAVED = [SMALL, Linear(), Network(width=4, epochs=1), make_learner("forest(iterations=2)")]


@pytest.mark.parametrize("learner", SAVED, ids=lambda learner: learner.kind)
def test_a_bent_state_ends_in_a_sentence_or_in_numbers(learner: Learner) -> None:
    """A state is tensors by name, so a folder of somebody else can hold any tensor under any name, and no more."""
    x = rows(40)
    state = learner.fit(x, torch.arange(40) % 2, Classes(2), seed=0)
    refused = 0
    for name, value in state.items():
        bends = [None, torch.tensor(1.0), value[:-1], torch.full(value.shape, torch.nan)]
        for bent in bends:
            others = {key: kept for key, kept in state.items() if key != name}
            try:
                learner.outputs(others if bent is None else {**others, name: bent}, x)
            except CheckpointError as error:
                refused += "damaged" in str(error)
    assert refused >= 2 * len(state)
