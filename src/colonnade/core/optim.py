"""Builders of a party's optimiser: any function from parameters to a ``torch.optim.Optimizer``.

The classes in this module are such functions, which can also be compared and written to a job file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from colonnade.core.options import describe_builder, make_builder

OptimizerBuilder = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def _uncompiled(algorithm: type[Any]) -> type[Any]:
    """The same optimiser, whose functions do not prepare for ``torch.compile`` around it.

    Those preparations import the compiler when the first optimiser is made: 800 modules, which take nearly as long as
    PyTorch itself, in every process that trains.
    """
    names = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    plain: dict[str, Any] = {name: inspect.unwrap(getattr(algorithm, name)) for name in names}
    return type(algorithm.__name__, (algorithm,), {**plain, "step": torch.no_grad()(inspect.unwrap(algorithm.step))})


UNCOMPILED: list[Callable[..., torch.optim.Optimizer]] = [
    _uncompiled(one) for one in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad)
]
_SGD, _AdamW, _Adagrad = UNCOMPILED


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent.

    >>> SGD(lr=0.1)([torch.zeros(2, requires_grad=True)]).param_groups[0]["momentum"]
    0.9
    """

    lr: float = 0.1
    momentum: float = 0.9
    decay: float = 0.0

    def __call__(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Build the optimiser."""
        return _SGD(parameters, lr=self.lr, momentum=self.momentum, weight_decay=self.decay)


@dataclass(frozen=True)
class _Adaptive:
    """An optimiser that adapts the rate of each weight, with a rate and weight decay alone."""

    algorithm: ClassVar[Callable[..., torch.optim.Optimizer]]

    lr: float
    decay: float = 0.0

    def __call__(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Build the optimiser."""
        return type(self).algorithm(parameters, lr=self.lr, weight_decay=self.decay)


@dataclass(frozen=True)
class Adam(_Adaptive):
    """Adam with decoupled weight decay."""

    algorithm: ClassVar[Callable[..., torch.optim.Optimizer]] = _AdamW

    lr: float = 0.001


@dataclass(frozen=True)
class Adagrad(_Adaptive):
    """Adagrad."""

    algorithm: ClassVar[Callable[..., torch.optim.Optimizer]] = _Adagrad

    lr: float = 0.01


KINDS: dict[str, Any] = {"sgd": SGD, "adam": Adam, "adagrad": Adagrad}


def make_optimizer(kind: str, **options: Any) -> OptimizerBuilder:
    """An optimiser builder from its name, as a job file writes it.

    >>> make_optimizer("sgd", lr=0.3)
    SGD(lr=0.3, momentum=0.9, decay=0.0)
    """
    return make_builder("optimizer", KINDS, kind, options)  # type: ignore[no-any-return]


def describe(builder: Any) -> dict[str, Any] | None:
    """The builder as plain data for a run's config, or None if it is the user's own function."""
    return describe_builder(KINDS, builder)


def described(entry: Mapping[str, Any]) -> OptimizerBuilder:
    """The builder that :func:`describe` gave this entry of."""
    return make_optimizer(**entry)
