"""The task that a model learns: classes, values, or several labels at once. Everything that depends on it is here.

===========  ======================  =====================  ====================================  ===========
task         labels                  a row's loss           p(o)                                  score
===========  ======================  =====================  ====================================  ===========
classes      class numbers [n]       cross-entropy          softmax                               accuracy
values       numbers [n] or [n, d]   |o - y|^2 / 2          o itself                              r2
several      0 or 1, [n, L]          binary cross-entropy,  sigmoid                               accuracy
                                     summed over labels
===========  ======================  =====================  ====================================  ===========

Losses are means over rows. In all three tasks the gradient of a row's loss by its outputs o is p(o) - y. So a gradient
means the same in every task, and so does a dual after the exact z-step. Two classes use a softmax, too.

*Values* are standardised for training, with mean and deviation of the owner's training labels, so that learning rates
do not depend on the unit. Both numbers stay at the owner, in its state. Predictions and metrics use the labels' unit.

*Weights* multiply a row's loss by the weight of its class, or a label's loss where the label is 1. They are used in
training only; metrics are unweighted. Only the owner has them: the parties' task has no weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from colonnade.core.metrics import check_labels, check_targets, label_metrics, metrics, value_metrics
from colonnade.core.options import number
from colonnade.core.prox import cross_entropy_prox, logistic_prox, squared_prox
from colonnade.core.table import check_classes
from colonnade.errors import ConfigError, TableError, unknown

Weights = str | Sequence[float] | None  # "balanced", or one positive number per class or label, or None


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """The task, with everything that depends on it."""

    name: ClassVar[str]
    score: ClassVar[str]
    """The metric that a model is judged by in reports; higher is better."""
    watched: ClassVar[tuple[str, ...]]
    """The metrics that early stopping can watch, the usual one first; higher is better."""

    outputs: int
    """How many numbers a model gives for a row: classes, values or labels."""
    weights: Tensor | None = field(default=None, repr=False)

    @property
    def public(self) -> Task:
        """The task as the parties know it, without anything that was computed from labels."""
        return type(self)(self.outputs)

    # labels

    @abstractmethod
    def check(self, labels: Tensor) -> None:
        """Refuse labels that do not fit the model's outputs."""

    def inside(self, labels: Tensor) -> Tensor:
        """A table's labels, or soft targets, in the form that training uses."""
        return labels

    def targets(self, labels: Tensor) -> Tensor:
        """Labels in the form of :meth:`inside`, with one number per output."""
        return labels

    @abstractmethod
    def check_targets(self, targets: object, rows: int) -> Tensor:
        """Soft targets as float32, if they can replace a table's labels in training."""

    # the loss

    @abstractmethod
    def probabilities(self, o: Tensor) -> Tensor:
        """The outputs' estimate p(o) of the labels; the loss's gradient is this estimate minus the label."""

    @abstractmethod
    def row_losses(self, o: Tensor, targets: Tensor) -> Tensor:
        """Every output's part of its row's loss, before weights."""

    def factors(self, targets: Tensor) -> Tensor | None:
        """The factors of the loss that follow from the weights, per row or per output; None without weights."""
        return None

    def loss(self, o: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of outputs [rows, outputs]; the labels are class numbers, or one number per output."""
        return self.party_loss(o, self.targets(labels))

    def party_loss(self, o: Tensor, targets: Tensor) -> Tensor:
        """The mean loss, per party if there is a party axis in front; targets have one number per output."""
        return self.loss_of_each(o, targets).mean(-1)

    def loss_of_each(self, o: Tensor, targets: Tensor) -> Tensor:
        """The loss of every row [..., rows]; targets have one number per output."""
        factors, losses = self.factors(targets), self.row_losses(o, targets)
        return (losses if factors is None else factors * losses).sum(-1)

    def error(self, o: Tensor, labels: Tensor) -> Tensor:
        """The gradient of every row's own loss by its outputs."""
        targets = self.targets(labels)
        factors, error = self.factors(targets), self.probabilities(o) - targets
        return error if factors is None else factors * error

    @abstractmethod
    def prox(self, total: Tensor, dual: Tensor, labels: Tensor, rho: float) -> Tensor:
        """The exact z-step of ADMM: argmin_z loss(z, y) - <dual, z> + rho/2 |total - z|^2 for every row."""

    # predictions and metrics for users

    def predictions(self, o: Tensor) -> Tensor:
        """The predictions that a user gets for outputs [rows, outputs]."""
        return self.probabilities(o)

    @abstractmethod
    def metrics(self, o: Tensor, labels: Tensor) -> dict[str, float]:
        """How well outputs fit a table's labels."""


class Classes(Task):
    """One of several classes: softmax and cross-entropy."""

    name, score, watched = "classes", "accuracy", ("auc", "accuracy", "average_precision", "ks")

    def check(self, labels: Tensor) -> None:
        """Refuse all but class numbers below the number of classes."""
        if labels.ndim != 1 or labels.is_floating_point():
            raise TableError("the labels are not class numbers, but the model was trained on classes.")
        check_labels(labels, self.outputs)

    def targets(self, labels: Tensor) -> Tensor:
        """Soft targets unchanged, class numbers as one-hot rows."""
        return labels if labels.is_floating_point() else F.one_hot(labels, self.outputs)

    def check_targets(self, targets: object, rows: int) -> Tensor:
        """One distribution over the classes for every row."""
        return check_targets(targets, rows, self.outputs)

    def probabilities(self, o: Tensor) -> Tensor:
        """Softmax."""
        return torch.softmax(o, dim=-1)

    def row_losses(self, o: Tensor, targets: Tensor) -> Tensor:
        """-y log p."""
        return -(targets * torch.log_softmax(o, dim=-1))

    def factors(self, targets: Tensor) -> Tensor | None:
        """The weight of a row's class, or the mean weight of a soft target."""
        return None if self.weights is None else (targets * self.weights.to(targets.device)).sum(-1, keepdim=True)

    def loss(self, o: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy with class numbers [rows] or soft targets [rows, classes]."""
        return F.cross_entropy(o, labels) if self.weights is None else super().loss(o, labels)

    def prox(self, total: Tensor, dual: Tensor, labels: Tensor, rho: float) -> Tensor:
        """The z-step by Newton's method on one number per row."""
        weights = None if self.weights is None else self.factors(self.targets(labels))
        return cross_entropy_prox(total, dual, labels, rho, weights)

    def metrics(self, o: Tensor, labels: Tensor) -> dict[str, float]:
        """Accuracy and loss; with two classes also the metrics that credit scoring uses."""
        return metrics(o, labels)


@dataclass(frozen=True, eq=False)
class Values(Task):
    """One or several numbers: half the squared error of standardised labels."""

    name, score, watched = "values", "r2", ("r2",)

    scale: Tensor | None = field(default=None, repr=False)
    """Mean and deviation [2, outputs] of the training labels, at the owner only; None without standardisation."""

    def check(self, labels: Tensor) -> None:
        """Refuse labels with another number of values per row than the model's."""
        width = 1 if labels.ndim == 1 else labels.shape[1]
        if width != self.outputs:
            raise TableError(f"the labels have {width} values per row, but the model was trained on {self.outputs}.")

    def inside(self, labels: Tensor) -> Tensor:
        """Standardised labels [rows, outputs], float32."""
        wide = (labels.unsqueeze(-1) if labels.ndim == 1 else labels).double()
        return (wide if self.scale is None else (wide - self.scale[0]) / self.scale[1]).float()

    def check_targets(self, targets: object, rows: int) -> Tensor:
        """As many finite numbers as there are labels, in the labels' own units."""
        exact = _tensor(targets, [(rows, self.outputs), *([(rows,)] if self.outputs == 1 else [])]).float()
        if not bool(torch.isfinite(exact).all()):
            raise TableError("some targets are NaN or infinite; give every row a number.")
        return exact

    def probabilities(self, o: Tensor) -> Tensor:
        """The outputs themselves."""
        return o

    def row_losses(self, o: Tensor, targets: Tensor) -> Tensor:
        """(o - y)^2 / 2."""
        return (o - targets).square() / 2

    def prox(self, total: Tensor, dual: Tensor, labels: Tensor, rho: float) -> Tensor:
        """The z-step in closed form."""
        return squared_prox(total, dual, labels, rho)

    def predictions(self, o: Tensor) -> Tensor:
        """Values in the labels' own units, [rows] if there is one per row."""
        own = o if self.scale is None else (o.double() * self.scale[1] + self.scale[0]).float()
        return own.squeeze(-1) if self.outputs == 1 else own

    def metrics(self, o: Tensor, labels: Tensor) -> dict[str, float]:
        """The loss of standardised values; r2, rmse and mae in the labels' own units."""
        self.check(labels)
        loss = float(self.loss(o.double(), self.inside(labels).double()))
        return {"loss": loss} | value_metrics(self.predictions(o), labels)


class Several(Task):
    """Several labels at once, each 0 or 1: sigmoid and binary cross-entropy."""

    name, score, watched = "several", "accuracy", ("accuracy", "macro_auc", "micro_auc", "micro_f1")

    def check(self, labels: Tensor) -> None:
        """Refuse all but a matrix of 0 and 1 with as many columns as the model has labels."""
        if labels.ndim != 2 or labels.shape[1] != self.outputs:
            shape = tuple(labels.shape[1:])
            raise TableError(
                f"the labels have shape {shape} per row, but the model was trained on {self.outputs} labels."
            )
        _check_binary(labels, "the labels")

    def inside(self, labels: Tensor) -> Tensor:
        """Labels as float32."""
        return labels.float()

    def check_targets(self, targets: object, rows: int) -> Tensor:
        """A probability per row and label."""
        exact = _tensor(targets, [(rows, self.outputs)]).float()
        if not bool(((exact >= 0) & (exact <= 1)).all()):
            raise TableError("some soft targets are no probabilities; give every row and label a number from 0 to 1.")
        return exact

    def probabilities(self, o: Tensor) -> Tensor:
        """Sigmoid."""
        return torch.sigmoid(o)

    def row_losses(self, o: Tensor, targets: Tensor) -> Tensor:
        """-y log p - (1 - y) log(1 - p)."""
        return F.softplus(o) - targets * o

    def factors(self, targets: Tensor) -> Tensor | None:
        """The label's weight where it is 1, one where it is 0."""
        return None if self.weights is None else 1 + targets * (self.weights.to(targets.device) - 1)

    def prox(self, total: Tensor, dual: Tensor, labels: Tensor, rho: float) -> Tensor:
        """The z-step by Newton's method on every output."""
        return logistic_prox(total, dual, labels, rho, self.factors(labels))

    def metrics(self, o: Tensor, labels: Tensor) -> dict[str, float]:
        """Loss, accuracy over all labels, areas under the ROC curve, F1."""
        self.check(labels)
        return {"loss": float(self.public.loss(o.double(), labels.double()))} | label_metrics(o, labels)


TASKS: dict[str, type[Task]] = {task.name: task for task in (Classes, Values, Several)}


def task_of(labels: Tensor, given: str | None = None) -> str:
    """The task's name: the given one, or the one that the labels look like.

    >>> task_of(torch.tensor([0, 1])), task_of(torch.tensor([0.5, 1.2])), task_of(torch.tensor([[0, 1], [1, 1]]))
    ('classes', 'values', 'several')
    """
    if given is None:
        return "several" if labels.ndim == 2 else "values" if labels.is_floating_point() else "classes"
    if not isinstance(given, str) or given not in TASKS:
        raise unknown("task", given, TASKS)
    return given


def plain_weights(weights: Any) -> list[float] | str | None:
    """Weights as plain data; anything else is refused."""
    if weights is None or isinstance(weights, str):
        if weights not in (None, "balanced"):
            raise unknown("weights", weights, ["balanced"])
        return weights
    try:
        plain = [number(weight, "a weight") for weight in weights]
    except TypeError:
        plain = []
    if not plain or not all(0 < weight < float("inf") for weight in plain):
        raise ConfigError(
            f"weights={weights!r} is neither 'balanced' nor a list of positive numbers; give one of them."
        )
    return plain


def make_task(
    name: str,
    labels: Tensor,
    weights: Weights = None,
    *,
    trained: Tensor,
    table: str,
    scaled: bool = True,
    classes: int = 0,
) -> Task:
    """The owner's task, from all its labels; mean, deviation and balance are those of the rows ``trained``.

    There are at least ``classes`` classes: one that no training row has may still occur later.
    """
    if name == "values":
        return _values(labels, weights, trained, table, scaled)
    if name == "classes":
        if labels.ndim != 1 or labels.is_floating_point():
            raise TableError(
                f"the labels of table '{table}' are not class numbers [rows]; give those, or another task."
            )
        outputs = max(check_classes(labels, table), classes)
        return Classes(outputs, _weights(weights, outputs, labels[trained].bincount(minlength=outputs), "class"))
    if labels.ndim != 2:
        raise TableError(f"the labels of table '{table}' are one per row; task='several' needs a matrix of 0 and 1.")
    _check_binary(labels, f"the labels of table '{table}'")
    outputs = labels.shape[1]
    ones = labels[trained].sum(0)
    if weights == "balanced":  # the rows where a label is 1 weigh as much as those where it is 0
        weights = ((len(trained) - ones) / ones.clamp(min=1)).clamp(min=1e-3).tolist()
    return Several(outputs, _weights(weights, outputs, ones, "label"))


def _values(labels: Tensor, weights: Weights, trained: Tensor, table: str, scaled: bool) -> Values:
    if weights is not None:
        raise ConfigError("weights are those of classes or labels, and values have none; leave weights out.")
    wide = (labels.unsqueeze(-1) if labels.ndim == 1 else labels).double()
    mean, deviation = wide[trained].mean(0), wide[trained].std(0, correction=0)
    if not bool((deviation > 0).all()):
        raise TableError(f"the labels of table '{table}' hold one value only; training needs values that differ.")
    return Values(wide.shape[1], scale=torch.stack([mean, deviation]) if scaled else None)


def _weights(weights: Weights, outputs: int, counts: Tensor, what: str) -> Tensor | None:
    """One factor per class or label; None if all are 1, which is the same as no weights."""
    if weights == "balanced":
        weights = (counts.sum() / (outputs * counts.clamp(min=1))).tolist()
    if weights is None:
        return None
    if len(weights) != outputs:
        raise ConfigError(f"weights= has {len(weights)} numbers for {outputs}; give one positive number per {what}.")
    factors = torch.tensor(weights)
    return None if bool((factors == 1).all()) else factors


def _check_binary(labels: Tensor, whose: str) -> None:
    odd = labels[(labels != 0) & (labels != 1)]
    if len(odd):
        raise TableError(
            f"{whose} hold {odd[0].item():g} in a matrix of several labels, which are 0 or 1; "
            "give those, or task='values' for several numbers per row."
        )


def _tensor(targets: object, shapes: list[tuple[int, ...]]) -> Tensor:
    if not isinstance(targets, Tensor) or tuple(targets.shape) not in shapes:
        given = f"of shape {tuple(targets.shape)}" if isinstance(targets, Tensor) else f"as a {type(targets).__name__}"
        raise TableError(f"targets {given} came where a tensor of shape {shapes[0]} was expected; give one per row.")
    return targets
