"""Server steps: how the next weights follow from an average of models. Several can be put one after the other.

Each takes the weights w_t of the last average, the average of the models trained from them (the sum of n_l/n w_l) and
its memory, and gives w_{t+1}. All are elementwise, so stacked weights need no special case. Delta = average - w_t.

==========  ===========================================================================================
fedavg      w = average                                                       McMahan et al. 2017
fedavgm     m = mu m + (1 - mu) Delta;  w = w_t + eta m                       Hsu et al. 2019
slowmo      u = mu u - Delta;  w = w_t - eta u                                Wang et al. 2019 (theirs: u times the
            inner rate, which is constant here and cancels)
damped      w = (1 - alpha) w_t + alpha average                               "SlowMo" of the FedOptimus paper
fedadam     m = mu m + (1 - mu) Delta;  v = beta v + (1 - beta) Delta^2;
            w = w_t + eta m / (sqrt(v) + tau)                                 Reddi et al. 2021, as in Multi-VFL
fedyogi     the same with v = v - (1 - beta) Delta^2 sign(v - Delta^2)
==========  ===========================================================================================

K-step averaging is none of them: it says how often models are averaged. FedAvgM is often printed as w_t - eta m, which
means Delta = w_t - average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import torch
from torch import Tensor

from colonnade.errors import ConfigError, unknown

Memory = dict[str, Tensor]


class ServerStep(Protocol):
    """One step from w_t and an average to w_{t+1}."""

    def step(self, w: Tensor, average: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, Memory]:
        """The next weights, and the memory for the step after."""


@dataclass(frozen=True)
class FedAvg:
    """The average itself."""

    def step(self, w: Tensor, average: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, Memory]:
        """The average."""
        return average, {}


@dataclass(frozen=True)
class FedAvgM:
    """A running mean of the changes."""

    mu: float = 0.9
    eta: float = 1.0

    def step(self, w: Tensor, average: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, Memory]:
        """w_t + eta m."""
        m = self.mu * memory.get("m", torch.zeros_like(w)) + (1 - self.mu) * (average - w)
        return w + self.eta * m, {"m": m}


@dataclass(frozen=True)
class SlowMo:
    """Momentum over averages, as its authors have it."""

    mu: float = 0.9
    eta: float = 1.0

    def step(self, w: Tensor, average: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, Memory]:
        """w_t - eta u."""
        u = self.mu * memory.get("u", torch.zeros_like(w)) + (w - average)
        return w - self.eta * u, {"u": u}


@dataclass(frozen=True)
class Damped:
    """Part of the way to the average: what the FedOptimus paper calls SlowMo."""

    alpha: float = 0.99

    def step(self, w: Tensor, average: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, Memory]:
        """(1 - alpha) w_t + alpha average."""
        return (1 - self.alpha) * w + self.alpha * average, {}


@dataclass(frozen=True)
class FedAdam:
    """Adam on the changes, without bias correction."""

    mu: float = 0.9
    eta: float = 0.01
    beta: float = 0.99
    tau: float = 0.001

    def step(self, w: Tensor, average: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, Memory]:
        """w_t + eta m / (sqrt(v) + tau)."""
        change, zero = average - w, torch.zeros_like(w)
        m = self.mu * memory.get("m", zero) + (1 - self.mu) * change
        v = self.second(memory.get("v", zero), change.square())
        return w + self.eta * m / (v.sqrt() + self.tau), {"m": m, "v": v}

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """The next second moment."""
        return self.beta * v + (1 - self.beta) * square


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedAdam whose second moment moves by steps of one size, so it forgets large changes slowly."""

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """The next second moment."""
        return v - (1 - self.beta) * square * torch.sign(v - square)


@dataclass(frozen=True)
class Chain:
    """Server steps one after the other: each takes the weights that the one before gave as its average."""

    parts: tuple[ServerStep, ...]

    def step(self, w: Tensor, average: Tensor, memory: Mapping[str, Tensor]) -> tuple[Tensor, Memory]:
        """The last part's weights; every part has a memory of its own."""
        kept: Memory = {}
        for number, part in enumerate(self.parts):
            prefix = f"server {number} "
            own = {key.removeprefix(prefix): value for key, value in memory.items() if key.startswith(prefix)}
            average, own = part.step(w, average, own)
            kept |= {prefix + key: value for key, value in own.items()}
        return average, kept


SERVERS: dict[str, Any] = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "slowmo": SlowMo,
    "damped": Damped,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
}


def make_server(names: str, **options: float | None) -> Chain:
    """Parts by their names, each with those options that it has and that are not None.

    >>> make_server("fedavgm+damped", mu=0.8, eta=None, alpha=0.5).parts
    (FedAvgM(mu=0.8, eta=1.0), Damped(alpha=0.5))
    """
    parts = []
    for name in names.split("+"):
        if name not in SERVERS:
            raise unknown("server", name, SERVERS)
        known = {field.name for field in fields(SERVERS[name])}
        parts.append(SERVERS[name](**{key: v for key, v in options.items() if key in known and v is not None}))
    return Chain(tuple(parts))


def check_server(method: str, names: str, mu: float, eta: float | None, alpha: float) -> None:
    """Refuse parts that are not there, and options that no part can have."""
    make_server(names)
    if not 0 <= mu < 1 or not 0 < alpha <= 1:
        raise ConfigError(
            f"{method}: mu={mu}, alpha={alpha} are out of range; mu is from 0 to less than 1, "
            "alpha above 0 and at most 1."
        )
    number = isinstance(eta, int | float) and not isinstance(eta, bool)
    if eta is not None and not (number and 0 < eta < float("inf")):
        raise ConfigError(f"{method}: eta={eta!r} is out of range; it must be a positive number.")
