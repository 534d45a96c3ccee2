"""Distillation: a model of the owner alone is trained towards the predictions of a trained federation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.functional import softmax

from colonnade.core.method import Method
from colonnade.core.option_names import new_names
from colonnade.core.options import number
from colonnade.core.table import Table, check_classes, check_federation
from colonnade.core.task import Task
from colonnade.errors import ConfigError, TableError
from colonnade.methods import make_method, methods
from colonnade.methods.local import Local
from colonnade.run.train import train
from colonnade.run.training import Run
from colonnade.study.compared_score import check_run


def distil(
    run: Run,
    tables: Sequence[Table],
    *,
    method: str | Method = "local",
    share: float = 0.5,
    temperature: float = 1.0,
    test: Sequence[Table] | None = None,
    folder: str | Path | None = None,
    on_round: Callable[[Run], None] | None = None,
    **options: Any,
) -> Run:
    """Train a model that the owner has by itself, towards what a trained federation predicts for the same rows.

    The targets are ``share`` of the federation's probabilities, flattened by ``temperature``, and the rest the labels;
    of values, ``share`` of its predictions.
    Asking the federation once for all rows of ``tables`` costs the bytes (and the noise budget) of that prediction; the
    model that comes out needs only the owner's table. ``method="local"`` trains on that table alone; with ``"apfed"``,
    or any other method whose owner always predicts alone, the parties help once more. ``options`` are those of
    :func:`colonnade.train`.

    >>> import colonnade as cn
    >>> train, test = cn.load("digits", parties=4, owner="first")
    >>> solo = cn.distil(cn.train(train, "vafl", epochs=2), train, epochs=2)
    >>> solo.predict(test[:1]).shape, solo.ledger.bytes_for("predict")
    (torch.Size([360, 10]), 0)
    """
    check_run(run)
    _check_number("share", share, 0.0, 1.0, "from 0 to 1")
    _check_number("temperature", temperature, 0.01, 100.0, "from 0.01 to 100")
    chosen = make_method(method)
    if chosen.alone != "always":
        able = ", ".join(name for name, cls in methods().items() if cls.alone == "always")
        raise ConfigError(f"a distilled model is the owner's alone, and {chosen.name} is not; use one of {able}.")
    check_federation(tables)
    owner = tables[0]
    if owner.columns is None:
        raise TableError(
            f"the owner's table '{owner.name}' has no columns, so it cannot predict alone; split with owner='first'."
        )
    _check_labels(run.task, owner, temperature)
    targets = soft_targets(run.task, run.predict(tables), owner.labels, share, temperature)
    options = {"task": run.settings.task, **new_names(options, "distil()")}
    if isinstance(chosen, Local):
        # Without its origin, or a resumed run would look for the whole federation.
        tables, test = [replace(owner, origin=None)], test and test[:1]
    return train(tables, chosen, targets=targets, test=test, folder=folder, on_round=on_round, **options)


def soft_targets(task: Task, teacher: Tensor, labels: Tensor, share: float, temperature: float) -> Tensor:
    """A teacher's predictions, flattened if they are probabilities, mixed with the labels.

    >>> import torch
    >>> from colonnade.core.task import Classes
    >>> soft_targets(Classes(2), torch.tensor([[0.8, 0.2]]), torch.tensor([1]), share=0.5, temperature=1.0)
    tensor([[0.4000, 0.6000]])
    """
    if task.name == "classes":
        teacher = softmax(teacher.clamp(min=1e-12).log() / temperature, dim=1)
    if task.name == "several":
        teacher = (teacher.logit(eps=1e-6) / temperature).sigmoid()
    return share * teacher + (1 - share) * task.targets(labels)


def _check_labels(task: Task, owner: Table, temperature: float) -> None:
    """Refuse labels of another kind than the federation learnt, and a temperature for values."""
    if task.name == "values" and temperature != 1:
        raise ConfigError(f"temperature={temperature} flattens probabilities, and values have none; leave it out.")
    task.check(owner.labels)
    count = max(check_classes(owner.labels, owner.name), len(owner.classes)) if task.name == "classes" else task.outputs
    if count != task.outputs:
        raise TableError(f"the labels have {count} classes, but the federation was trained on {task.outputs}.")


def _check_number(name: str, value: Any, least: float, most: float, words: str) -> None:
    if not least <= number(value, name) <= most:
        raise ConfigError(f"{name}={value!r} is out of range; give a number {words}.")
