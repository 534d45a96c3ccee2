"""Boosted trees of XGBoost, kept as arrays of nodes; needs ``colonnade[xgboost]`` to fit, and nothing to be applied.

Chen and Guestrin: *XGBoost: A Scalable Tree Boosting System*, KDD 2016.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from colonnade.errors import ConfigError
from colonnade.learners.learner import register_learner
from colonnade.learners.problems import Array, Problem
from colonnade.learners.tree_nodes import BoostedTrees, Forest, Nodes, forest_sums


@register_learner
@dataclass(frozen=True)
class XGBoost(BoostedTrees):
    """``iterations`` trees of at most ``leaves`` leaves; ``least_weight`` is XGBoost's ``min_child_weight``."""

    kind: ClassVar[str] = "xgboost"
    limits: ClassVar[dict[str, tuple[float, float]]] = {**BoostedTrees.limits, "least_weight": (0, 1e6)}

    least_weight: float = 1.0

    def grow(self, x: Array, problem: Problem, seed: int) -> Forest:
        """Those of XGBoost's booster, read from its own JSON."""
        library = _xgboost()
        labels = np.unique(problem.y, return_inverse=True)[1] if problem.classifies else problem.y
        rows = library.DMatrix(x, labels, weight=problem.weights)
        booster = library.train(self._parameters(problem, seed), rows, self.iterations)
        model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
        trees = [(k, _nodes(tree)) for k, tree in zip(model["tree_info"], model["trees"], strict=True)]
        return Forest(_base(library, booster, trees, x.shape[1], len(problem.columns)), trees)

    def _parameters(self, problem: Problem, seed: int) -> dict[str, Any]:
        one = "binary:logistic" if problem.classifies else "reg:squarederror"
        classes = {"objective": "multi:softprob", "num_class": len(problem.columns)}
        return {
            **(classes if len(problem.columns) > 1 else {"objective": one}),
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": self.leaves,
            "learning_rate": self.rate,
            "min_child_weight": self.least_weight,
            "reg_lambda": self.ridge,
            "seed": seed,
            "nthread": torch.get_num_threads(),
            "verbosity": 0,
        }


def _nodes(tree: dict[str, Any]) -> Nodes:
    """XGBoost goes left if a float32 is *below* the threshold, so if it is not above the float32 before it."""
    conditions = np.array(tree["split_conditions"], np.float32)
    left = np.array(tree["left_children"])
    return Nodes(
        feature=np.array(tree["split_indices"]),
        threshold=np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64),
        missing_left=np.array(tree["default_left"]),
        left=left,
        right=np.array(tree["right_children"]),
        value=conditions.astype(np.float64),
        leaf=left < 0,
    )


def _base(library: Any, booster: Any, trees: list[tuple[int, Nodes]], columns: int, outputs: int) -> Array:
    """What the outputs start from: versions write it differently, so it is what the trees leave of a row's outputs."""
    blank = np.full((1, columns), np.nan)
    whole = booster.predict(library.DMatrix(blank), output_margin=True).reshape(outputs)
    return np.asarray(whole - forest_sums(Forest(np.zeros(outputs), trees), blank)[0])


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise ConfigError(
            "the learner 'xgboost' needs XGBoost, which is not installed; pip install 'colonnade[xgboost]'."
        ) from None
    return xgboost
