"""Random forests and extra trees: scikit-learn grows them, and their nodes are kept as those of boosted trees are.

Breiman: *Random Forests*, 2001; Geurts et al.: *Extremely randomized trees*, 2006. A forest's trees vote, so their
sum is a mean of values or of probabilities; logits are made of it afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from colonnade.core.task import Task
from colonnade.errors import CheckpointError
from colonnade.learners.learner import Learner, State, register_learner
from colonnade.learners.problems import Array, Problem, problems_of
from colonnade.learners.tree_nodes import Forest, Nodes, grown, tree_outputs

LOG, LOGIT = 1, 2  # how votes become logits: of several classes each, of two the second's
SUREST = 1e-4  # no vote is taken for surer than this, as its logit would be endless


@register_learner
@dataclass(frozen=True)
class RandomForest(Learner):
    """``iterations`` trees, each grown on rows drawn with replacement, with columns drawn at every split."""

    kind: ClassVar[str] = "forest"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "iterations": (1, 5000),
        "leaves": (2, 4096),
        "least_rows": (1, 10**6),
    }
    estimators: ClassVar[tuple[str, str]] = ("RandomForestClassifier", "RandomForestRegressor")

    iterations: int = 200
    leaves: int = 256
    least_rows: int = 5

    def fit(self, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
        """Grow the trees of all outputs, and note what makes logits of their votes."""
        link = torch.zeros(task.outputs, dtype=torch.uint8)
        for problem in problems_of(y, task):
            if problem.classifies and not problem.constant:
                link[list(problem.columns)] = LOG if len(problem.columns) > 1 else LOGIT
        return grown(self.grow, x, y, task, seed) | {"link": link}

    def outputs(self, state: State, x: Tensor) -> Tensor:
        """The mean of the trees' values, or the logits of their votes."""
        mean, link = tree_outputs(state, x), state.get("link", torch.zeros(0))
        if link.shape != mean.shape[1:]:
            raise CheckpointError(f"a saved {self.kind} lacks how its votes become logits; it is damaged.")
        p = mean.double().clamp(SUREST, 1 - SUREST)
        return torch.where(link == LOG, p.log(), torch.where(link == LOGIT, p.logit(), mean)).float()

    def grow(self, x: Array, problem: Problem, seed: int) -> Forest:
        """Those of scikit-learn's estimator, each with its share of the mean."""
        model = self._model(problem.classifies, seed).fit(x, problem.y, sample_weight=problem.weights)
        outputs = len(problem.columns)
        trees = [(k, _nodes(tree.tree_, k - outputs, self.iterations)) for tree in model for k in range(outputs)]
        return Forest(np.zeros(outputs), trees)

    def _model(self, classifies: bool, seed: int) -> Any:
        from sklearn import ensemble

        return getattr(ensemble, self.estimators[0 if classifies else 1])(
            n_estimators=self.iterations,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.least_rows,
            random_state=seed,
            n_jobs=torch.get_num_threads(),
        )


@register_learner
@dataclass(frozen=True)
class ExtraTrees(RandomForest):
    """The same with thresholds drawn at random, each tree grown on all rows."""

    kind: ClassVar[str] = "extra-trees"
    estimators: ClassVar[tuple[str, str]] = ("ExtraTreesClassifier", "ExtraTreesRegressor")


def _nodes(tree: Any, output: int, trees: int) -> Nodes:
    """The nodes of one tree; ``output`` counts a node's numbers from the last, which of two classes is the second's."""
    return Nodes(
        feature=tree.feature,
        threshold=tree.threshold,
        missing_left=tree.missing_go_to_left,
        left=tree.children_left,
        right=tree.children_right,
        value=tree.value[:, 0, output] / trees,
        leaf=tree.children_left < 0,
    )
