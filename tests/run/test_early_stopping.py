"""What early stopping watches: AUC of two classes, else the task's score, what is asked for, and what it was before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConfigError
from colonnade.report.summary import RunView
from colonnade.run.make_plan import start
from plans import plan_for

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(90, 4)).astype(np.float32)
NOISY = X[:, 0] + X[:, 2] + RANDOM.normal(size=90)
TWO, THREE = cn.split(X, NOISY > 0, 2), cn.split(X, np.digitize(NOISY, [-1, 1]), 2)
HOW = {"rounds": 12, "batch": 20, "valid": 0.5, "evaluate_every": 1, "stop_drop": 100.0}
METHOD = cn.FDML(embedding=4, lr=1.0)


def best_by(run: cn.Run, metric: str) -> float:
    """The last of the best rounds."""
    return max(run.history, key=lambda row: (row[f"valid_{metric}"], row["round"]))["round"]


def test_two_classes_are_watched_by_auc() -> None:
    run = cn.train(TWO, METHOD, **HOW)
    assert run.settings.watch == "auc"
    assert run.findings["round"] == best_by(run, "auc") != best_by(run, "accuracy")
    assert RunView(run.summary()).final["round"] == best_by(run, "auc")


def test_another_metric_can_be_watched() -> None:
    run = cn.train(TWO, METHOD, watch="accuracy", **HOW)
    assert run.findings["round"] == best_by(run, "accuracy") == RunView(run.summary()).final["round"]
    with pytest.raises(ConfigError, match="unknown metric to watch with task='classes' 'acc'"):
        cn.train(TWO, METHOD, watch="acc", **HOW)


def test_more_classes_are_watched_by_accuracy() -> None:
    run = cn.train(THREE, METHOD, **HOW)
    assert run.findings["round"] == best_by(run, "accuracy")


def test_a_run_of_an_older_version_goes_on_with_accuracy() -> None:
    plan = plan_for(TWO, METHOD, **HOW)
    run = start(replace(plan, settings=replace(plan.settings, watch=None)), TWO).fit()
    assert run.findings["round"] == best_by(run, "accuracy")
