"""A linear learner on standardised columns: logistic regression, or least squares with a ridge penalty."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from colonnade.core.task import Task
from colonnade.learners.learner import Learner, State, applying, register_learner
from colonnade.learners.problems import Array, Problem, base_of, problems_of
from colonnade.learners.standard import standard_of, standardised


@register_learner
@dataclass(frozen=True)
class Linear(Learner):
    """The outputs are linear in the columns; ``ridge`` is the weight of the squared coefficients."""

    kind: ClassVar[str] = "linear"
    limits: ClassVar[dict[str, tuple[float, float]]] = {"ridge": (1e-6, 1e9)}

    ridge: float = 1.0

    def fit(self, x: Tensor, y: Tensor, task: Task, seed: int) -> State:
        """Coefficients [columns, outputs] and base [outputs], with the columns' means and deviations."""
        standard = standard_of(x)
        inputs, problems = standardised(x, standard).double().numpy(), problems_of(y, task)
        base, weights = base_of(problems, task.outputs), np.zeros((x.shape[1], task.outputs))
        for problem in (problem for problem in problems if not problem.constant):
            self._add(inputs, problem, base, weights)
        return {"standard": standard, "base": torch.from_numpy(base), "weights": torch.from_numpy(weights)}

    def outputs(self, state: State, x: Tensor) -> Tensor:
        """The columns times the coefficients, plus the base."""
        with applying(self.kind):
            return (standardised(x, state["standard"]).double() @ state["weights"] + state["base"]).float()

    def _add(self, x: Array, problem: Problem, base: Array, weights: Array) -> None:
        columns = list(problem.columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that is not quite done is a good one still
            model = self._model(problem.classifies).fit(problem.rows_of(x), problem.y, sample_weight=problem.weights)
        weights[:, columns] = np.atleast_2d(model.coef_).T
        base[columns] += np.atleast_1d(model.intercept_)

    def _model(self, classifies: bool) -> Any:
        from sklearn.linear_model import LogisticRegression, Ridge

        return LogisticRegression(C=1.0 / self.ridge, max_iter=1000) if classifies else Ridge(alpha=self.ridge)
