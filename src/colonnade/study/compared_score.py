"""The score that explanations compare, and the check that a run's seals allow many predictions for the same rows."""

from __future__ import annotations

from torch import Tensor

from colonnade.errors import ConfigError, SealError
from colonnade.run.training import Run


def score_name(run: Run) -> str:
    """The metric by which a run's predictions are compared; higher is better."""
    return run.task.score


def score(run: Run, outputs: Tensor, labels: Tensor) -> float:
    """How good a run's outputs are, one row of them per label."""
    return run.task.metrics(outputs, labels)[score_name(run)]


def check_run(run: object) -> None:
    """Refuse an object that is not a trained run."""
    if not isinstance(run, Run):
        raise ConfigError(f"a {type(run).__name__} came where the trained run was expected; give what cn.train gave.")


def check_may_compare(run: Run) -> None:
    """Refuse a run whose seals would be undone by many predictions for the same rows."""
    if not run.method.predicts_alone:
        check_seals(run)


def check_seals(run: Run) -> None:
    """Refuse a run under Noise or blinded sums, whose parties must not be asked more than the method asks them."""
    if run.seals.noise is not None:
        raise SealError(
            f"{run.method.name} was trained with Noise, and every one of many predictions for the same rows would be "
            "paid for from the privacy budget; ask a run without it, or read run.importance()."
        )
    if run.seals.blind is not None and run.method.only_sums:
        raise SealError(
            f"{run.method.name} was trained with Blind, and two sums of the same rows that differ in one party would "
            "show that party's own answers; ask a run without it, or read run.importance()."
        )
