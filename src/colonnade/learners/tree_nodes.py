"""Boosted trees as arrays of nodes: whichever library fitted them, plain arithmetic applies them.

A saved learner so depends on no library's version, needs no library to be read, and no pickle.

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

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from colonnade.core.task import Task
from colonnade.errors import CheckpointError
from colonnade.learners.learner import Learner, State
from colonnade.learners.problems import Array, Problem, base_of, problems_of

ROWS_AT_ONCE = 4096  # bounds the memory of a prediction


class Nodes(NamedTuple):
    """The nodes of one tree, the first node first and every child after its parent; what a leaf splits by is nothing.

    ``left`` and ``right`` are the children's numbers within the tree.
    """

    feature: Array
    threshold: Array
    missing_left: Array
    left: Array
    right: Array
    value: Array
    leaf: Array


class Forest(NamedTuple):
    """What was fitted to one problem: what its outputs start from, and trees, each with the output it adds to."""

    base: Array
    trees: list[tuple[int, Nodes]]


NO_TREE = Nodes._make([*[np.zeros(1)] * 6, np.ones(1, bool)])
"""One leaf that adds nothing, for a learner without trees."""
Grow = Callable[[Array, Problem, int], Forest]
"""How a library grows the trees of rows [rows, columns], of labels that are not all alike, with a seed."""


class TreeLearner(Learner):
    """A learner whose state is arrays of nodes; how trees are grown is the affair of a library."""

    def fit(self, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
        """Grow the trees of all outputs."""
        return grown(self.grow, x, y, task, seed)

    def outputs(self, state: State, x: Tensor) -> Tensor:
        """The sum of the leaves that a row falls into, on top of the base."""
        return tree_outputs(state, x)

    @abstractmethod
    def grow(self, x: Array, problem: Problem, seed: int) -> Forest:
        """The trees that the library fits to rows [rows, columns] and labels that are not all alike."""


@dataclass(frozen=True)
class BoostedTrees(TreeLearner):
    """``iterations`` small trees, each fitted to what those before it got wrong."""

    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "iterations": (1, 5000),
        "rate": (1e-4, 1),
        "leaves": (2, 1024),
        "ridge": (0, 1e6),
    }

    iterations: int = 150
    rate: float = 0.05
    leaves: int = 8
    ridge: float = 1.0


@dataclass(frozen=True)
class RowBoundTrees(BoostedTrees):
    """Boosted trees whose leaves have at least ``least_rows`` rows."""

    limits: ClassVar[dict[str, tuple[float, float]]] = {**BoostedTrees.limits, "least_rows": (1, 10**6)}

    least_rows: int = 20


def grown(grow: Grow, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
    """The trees of all outputs; what can be said without trees is in the base."""
    problems, rows = problems_of(y, task), _without_empty(x).double().numpy()
    base, trees = base_of(problems, task.outputs), list[tuple[int, Nodes]]()
    with threadpool_limits(torch.get_num_threads(), user_api="openmp"):
        for problem in (problem for problem in problems if not problem.constant):
            forest = grow(problem.rows_of(rows), problem, seed)
            base[list(problem.columns)] += forest.base
            trees += [(problem.columns[output], nodes) for output, nodes in forest.trees]
    return packed(trees, base)


def _without_empty(x: Tensor) -> Tensor:
    """The columns, with zeros in those without any value: no tree looks at them, and scikit-learn needs some value."""
    return torch.where(x.isnan().all(0), 0.0, x)


def tree_outputs(state: State, x: Tensor) -> Tensor:
    """The sum of the leaves that a row falls into, on top of the base [rows, outputs]."""
    check_trees(state, x.shape[1])
    arrays = {name: value.numpy() for name, value in state.items()}
    parts = [_sums(arrays, part.double().numpy()) for part in x.split(ROWS_AT_ONCE)]
    return torch.from_numpy(np.concatenate(parts) if parts else np.zeros((0, len(state["base"])))).float()


def packed(trees: list[tuple[int, Nodes]], base: Array) -> State:
    """All trees behind each other, with children counted from the first node of the first tree."""
    sizes = [len(nodes.leaf) for _, nodes in trees] or [1]
    starts = np.cumsum([0, *sizes])[:-1]
    nodes = Nodes(*(np.concatenate(each) for each in zip(*([nodes for _, nodes in trees] or [NO_TREE]), strict=True)))
    leaf, own, first = nodes.leaf.astype(bool), np.arange(sum(sizes)), np.repeat(starts, sizes)
    arrays: dict[str, Array] = {
        "feature": np.where(leaf, 0, nodes.feature).astype(np.int32),
        "threshold": np.where(leaf, 0.0, nodes.threshold),
        "missing_left": nodes.missing_left.astype(np.uint8),
        "left": np.where(leaf, own, nodes.left + first).astype(np.int32),
        "right": np.where(leaf, own, nodes.right + first).astype(np.int32),
        "value": np.where(leaf, nodes.value, 0.0),
        "roots": starts[: len(trees)].astype(np.int32),
        "column": np.array([column for column, _ in trees], np.int32),
        "base": base.astype(np.float64),
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def forest_sums(forest: Forest, x: Array) -> Array:
    """What one forest gives for some rows [rows, outputs]."""
    return _sums({name: value.numpy() for name, value in packed(forest.trees, forest.base).items()}, x)


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


def check_trees(state: State, columns: int) -> None:
    """Refuse a damaged state before it is followed."""
    try:
        count, trees = len(state["value"]), len(state["roots"])
        each = ("feature", "threshold", "missing_left", "left", "right", "value")
        nodes = all(len(state[name]) == count for name in each)
        inside = [("left", count), ("right", count), ("roots", count), ("column", len(state["base"]))]
        whole = all(
            not len(state[name]) or 0 <= int(state[name].min()) <= int(state[name].max()) < most
            for name, most in [*inside, ("feature", columns)]
        )
        onward = all(bool((state[side] >= torch.arange(count)).all()) for side in ("left", "right"))  # so no loop
        fine = nodes and whole and onward and len(state["column"]) == trees
    except (KeyError, IndexError, TypeError, RuntimeError, ValueError):
        fine = False
    if not fine:
        raise CheckpointError(
            f"the saved trees cannot be applied to rows of {columns} columns; they are damaged or of other rows."
        )
