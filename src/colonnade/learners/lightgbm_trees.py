"""Boosted trees of LightGBM, kept as arrays of nodes; needs ``colonnade[lightgbm]`` to fit, and nothing to be applied.

Ke et al.: *LightGBM: A Highly Efficient Gradient Boosting Decision Tree*, NeurIPS 2017.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from colonnade.errors import ConfigError
from colonnade.learners.learner import register_learner
from colonnade.learners.problems import Array, Problem
from colonnade.learners.tree_nodes import Forest, Nodes, RowBoundTrees

DEFAULT_LEFT, MISSING_IS_NAN = 0b10, 0b1000  # bits of a split's decision_type, see LightGBM's include/LightGBM/tree.h


@register_learner
@dataclass(frozen=True)
class LightGBM(RowBoundTrees):
    """``iterations`` trees of at most ``leaves`` leaves, each with at least ``least_rows`` rows."""

    kind: ClassVar[str] = "lightgbm"

    def grow(self, x: Array, problem: Problem, seed: int) -> Forest:
        """Those of LightGBM's booster, read from its own text."""
        library, outputs = _lightgbm(), len(problem.columns)
        labels = np.unique(problem.y, return_inverse=True)[1] if problem.classifies else problem.y
        rows = library.Dataset(x, labels, weight=problem.weights, params={"verbose": -1})
        booster = library.train(self._parameters(problem, seed), rows, self.iterations)
        text = booster.model_to_string().partition("\nend of trees")[0]
        trees = [_nodes(dict(re.findall(r"^(\w+)=(.*)$", tree, re.M))) for tree in text.split("\nTree=")[1:]]
        return Forest(np.zeros(outputs), [(k % outputs, nodes) for k, nodes in enumerate(trees)])

    def _parameters(self, problem: Problem, seed: int) -> dict[str, Any]:
        one = "binary" if problem.classifies else "regression"
        classes = {"objective": "multiclass", "num_class": len(problem.columns)}
        return {
            **(classes if len(problem.columns) > 1 else {"objective": one}),
            "num_leaves": self.leaves,
            "learning_rate": self.rate,
            "min_data_in_leaf": self.least_rows,
            "lambda_l2": self.ridge,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": torch.get_num_threads(),
            "verbose": -1,
        }


def _nodes(tree: Mapping[str, str]) -> Nodes:
    """LightGBM numbers splits and leaves apart, a leaf as -1 - its number; here the leaves follow the splits."""
    value = np.array(tree["leaf_value"].split(), float)
    splits, leaves = len(value) - 1, len(value)
    threshold, kinds = np.array(tree["threshold"].split(), float), np.array(tree["decision_type"].split(), int)
    missing_left = np.where(kinds & MISSING_IS_NAN, kinds & DEFAULT_LEFT, threshold >= 0)  # else NaN is read as 0

    def wide(splits_have: Array) -> Array:
        return np.concatenate([splits_have, np.zeros(leaves, splits_have.dtype)])

    def children(side: str) -> Array:
        numbers = np.array(tree[side].split(), int)
        return wide(np.where(numbers < 0, splits - 1 - numbers, numbers))

    return Nodes(
        feature=wide(np.array(tree["split_feature"].split(), int)),
        threshold=wide(threshold),
        missing_left=wide(missing_left > 0),
        left=children("left_child"),
        right=children("right_child"),
        value=np.concatenate([np.zeros(splits), value]),
        leaf=np.arange(splits + leaves) >= splits,
    )


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError:
        raise ConfigError(
            "the learner 'lightgbm' needs LightGBM, which is not installed; pip install 'colonnade[lightgbm]'."
        ) from None
    return lightgbm
