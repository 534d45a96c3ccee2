"""Boosted trees: scikit-learn's histogram gradient boosting fits them, plain arithmetic applies them.

Ke et al.: *LightGBM*, NeurIPS 2017, is the algorithm that scikit-learn follows. The trees are kept as arrays of nodes,
so a saved learner does not depend on scikit-learn's version, and no pickle is read.

=============  ===================================================================================
state          what it is
=============  ===================================================================================
feature        the column that a node looks at
threshold      a row goes left if its value is not above this
missing_left   where a row goes whose value is missing
left, right    the node's children; a leaf's children are the leaf itself
value          what a leaf adds
roots, column  each tree's first node, and the output that the tree adds to
base           what every row's outputs start from
=============  ===================================================================================

A leaf leads to itself, so a prediction steps on until no row moves any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from colonnade.core.task import Task
from colonnade.errors import CheckpointError
from colonnade.learners.learner import Learner, State, register_learner
from colonnade.learners.problems import Array, Problem, base_of, problems_of

ROWS_AT_ONCE = 4096  # bounds the memory of a prediction
FIELDS = {
    "feature": "feature_idx",
    "threshold": "num_threshold",
    "value": "value",
    "missing_left": "missing_go_to_left",
}


@register_learner
@dataclass(frozen=True)
class Trees(Learner):
    """``iterations`` small trees, each fitted to what those before it got wrong.

    >>> from colonnade.core.task import Classes
    >>> x, y = torch.randn(200, 3), torch.arange(200) % 2
    >>> trees = Trees(iterations=5)
    >>> trees.outputs(trees.fit(x, y, Classes(2), seed=0), x).shape
    torch.Size([200, 2])
    """

    kind: ClassVar[str] = "trees"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "iterations": (1, 5000),
        "rate": (1e-4, 1),
        "leaves": (2, 1024),
        "least_rows": (1, 10**6),
        "ridge": (0, 1e6),
    }

    iterations: int = 150
    rate: float = 0.05
    leaves: int = 8
    least_rows: int = 20
    ridge: float = 1.0

    def fit(self, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
        """Fit the trees of all outputs."""
        problems = problems_of(y, task)
        base, trees = base_of(problems, task.outputs), []
        with threadpool_limits(torch.get_num_threads(), user_api="openmp"):
            for problem in problems:
                trees += self._fitted(_without_empty(x).double().numpy(), problem, base, seed)
        return _packed(trees, base)

    def outputs(self, state: State, x: Tensor) -> Tensor:
        """The sum of the leaves that a row falls into, on top of the base."""
        _check(state, x.shape[1])
        arrays = {name: value.numpy() for name, value in state.items()}
        parts = [_sums(arrays, part.double().numpy()) for part in x.split(ROWS_AT_ONCE)]
        return torch.from_numpy(np.concatenate(parts) if parts else np.zeros((0, len(state["base"])))).float()

    def _fitted(self, x: Array, problem: Problem, base: Array, seed: int) -> list[tuple[int, Array]]:
        """The nodes of every tree and the output that it adds to; what all rows share goes to the base."""
        if problem.constant:
            base[list(problem.columns)] += 0.0 if problem.classifies else float(problem.y[0])
            return []
        model = self._model(problem.classifies, seed)
        model.fit(problem.rows_of(x), problem.y, sample_weight=problem.weights)
        base[list(problem.columns)] += np.asarray(model._baseline_prediction, float).reshape(-1)
        return [
            (column, tree.nodes)
            for iteration in model._predictors
            for column, tree in zip(problem.columns, iteration, strict=True)
        ]

    def _model(self, classifies: bool, seed: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        estimator = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
        return estimator(
            max_iter=self.iterations,
            learning_rate=self.rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.least_rows,
            l2_regularization=self.ridge,
            early_stopping=False,
            random_state=seed,
        )


def _without_empty(x: Tensor) -> Tensor:
    """The columns, with zeros in those without any value: no tree looks at them, and scikit-learn needs some value."""
    return torch.where(x.isnan().all(0), 0.0, x)


def _packed(trees: list[tuple[int, Array]], base: Array) -> State:
    """All trees behind each other, with children counted from the first node of the first tree."""
    sizes = [len(nodes) for _, nodes in trees]
    starts = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    nodes = np.concatenate([nodes for _, nodes in trees]) if trees else _a_leaf()
    offsets, own = np.repeat(starts, sizes) if trees else np.zeros(1, np.int64), np.arange(len(nodes))
    leaf = nodes["is_leaf"].astype(bool)
    arrays = {name: np.ascontiguousarray(nodes[field]) for name, field in FIELDS.items()}
    arrays |= {
        side: np.where(leaf, own, nodes[side].astype(np.int64) + offsets).astype(np.int32) for side in ("left", "right")
    }
    arrays["feature"] = np.where(leaf, 0, arrays["feature"]).astype(np.int32)
    arrays["threshold"] = np.where(leaf, 0.0, arrays["threshold"])
    arrays["value"] = np.where(leaf, arrays["value"], 0.0)
    arrays["missing_left"] = arrays["missing_left"].astype(np.uint8)
    arrays |= {"roots": starts.astype(np.int32), "column": np.array([column for column, _ in trees], np.int32)}
    arrays |= {"base": base.astype(np.float64)}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _a_leaf() -> Array:
    """One leaf that adds nothing, for a learner without trees."""
    kinds = [(name, float if name in ("num_threshold", "value") else int) for name in FIELDS.values()]
    leaf = np.zeros(1, [*kinds, ("left", int), ("right", int), ("is_leaf", int)])
    leaf["is_leaf"] = 1
    return leaf


def _sums(trees: dict[str, Array], x: Array) -> Array:
    """The outputs of some rows; ``take`` on flat arrays is twice as fast as indexing."""
    values, rows = np.ascontiguousarray(x.T).ravel(), np.arange(len(x))
    starts = trees["feature"].astype(np.intp) * len(x)  # where a column's values begin
    children = np.stack([trees["right"], trees["left"]], 1).astype(np.intp).ravel()
    missing, missing_left = bool(np.isnan(values).any()), trees["missing_left"] > 0
    sums = np.tile(trees["base"], (len(x), 1))
    for root, column in zip(trees["roots"], trees["column"], strict=True):
        node, arrived = np.full(len(x), root, np.intp), False
        while not arrived:
            value = values.take(starts.take(node) + rows)
            left = value <= trees["threshold"].take(node)
            if missing:
                left |= np.isnan(value) & missing_left.take(node)
            following = children.take(2 * node + left)
            node, arrived = following, bool((following == node).all())
        sums[:, column] += trees["value"].take(node)
    return sums


def _check(state: State, columns: int) -> None:
    """Refuse a damaged state before it is followed."""
    try:
        count, trees = len(state["value"]), len(state["roots"])
        nodes = all(len(state[name]) == count for name in (*FIELDS, "left", "right"))
        inside = [("left", count), ("right", count), ("roots", count), ("column", len(state["base"]))]
        whole = all(
            not len(state[name]) or 0 <= int(state[name].min()) <= int(state[name].max()) < most
            for name, most in [*inside, ("feature", columns)]
        )
        onward = all(bool((state[side] >= torch.arange(count)).all()) for side in ("left", "right"))  # so no loop
        fine = nodes and whole and onward and len(state["column"]) == trees
    except (KeyError, IndexError, TypeError, RuntimeError):
        fine = False
    if not fine:
        raise CheckpointError(
            f"the saved trees cannot be applied to rows of {columns} columns; they are damaged or of other rows."
        )
