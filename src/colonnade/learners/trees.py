"""Boosted trees of scikit-learn: histogram gradient boosting, kept as arrays of nodes.

Ke et al.: *LightGBM*, NeurIPS 2017, is the algorithm that scikit-learn follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from colonnade.learners.learner import register_learner
from colonnade.learners.problems import Array, Problem
from colonnade.learners.tree_nodes import Forest, Nodes, RowBoundTrees

FIELDS = ("feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "value", "is_leaf")


@register_learner
@dataclass(frozen=True)
class Trees(RowBoundTrees):
    """``iterations`` small trees, each fitted to what those before it got wrong.

    >>> import torch
    >>> from colonnade.core.task import Classes
    >>> x, y = torch.randn(200, 3), torch.arange(200) % 2
    >>> trees = Trees(iterations=5)
    >>> trees.outputs(trees.fit(x, y, Classes(2), seed=0), x).shape
    torch.Size([200, 2])
    """

    kind: ClassVar[str] = "trees"

    def grow(self, x: Array, problem: Problem, seed: int) -> Forest:
        """Those of scikit-learn's estimator."""
        model = self._model(problem.classifies, seed).fit(x, problem.y, sample_weight=problem.weights)
        base = np.asarray(model._baseline_prediction, float).reshape(-1)
        return Forest(base, [(k, _nodes(tree.nodes)) for each in model._predictors for k, tree in enumerate(each)])

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


def _nodes(found: Array) -> Nodes:
    return Nodes(*(np.ascontiguousarray(found[name]) for name in FIELDS))
