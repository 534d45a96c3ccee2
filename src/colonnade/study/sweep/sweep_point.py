"""What all points of a sweep have in common, and the run at one of them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from colonnade import models
from colonnade.core import optim
from colonnade.core.method import Method
from colonnade.core.metrics import watched_in
from colonnade.core.option_names import stored_names
from colonnade.core.settings import TrainOptions
from colonnade.core.table import Table
from colonnade.data import load
from colonnade.errors import ConfigError, unknown
from colonnade.run.train import train
from colonnade.run.training import Run
from colonnade.seal import Bits, describe, listed

Point = dict[str, Any]
OF_TRAIN = tuple(field.name for field in fields(TrainOptions))
OF_LOAD = ("parties", "rows")


@dataclass(frozen=True)
class SweepPlan:
    """Data, method and options of :func:`colonnade.train`; ``data`` says what each process loads, or has tables."""

    data: dict[str, Any] | list[Table]
    method: Method
    options: dict[str, Any]
    test: list[Table] | None = None

    @property
    def keys(self) -> list[str]:
        """The keys that a sweep can vary."""
        own = [field.name for field in fields(self.method)]
        return [*own, *OF_TRAIN, "bits", *(OF_LOAD if isinstance(self.data, dict) else ())]

    def check_key(self, key: str) -> None:
        """Refuse a key that a sweep cannot vary."""
        if key in OF_LOAD and key not in self.keys:
            raise ConfigError(
                f"over= has '{key}', which says how data are loaded, but tables came; give a name instead."
            )
        if key not in self.keys:
            raise unknown("key to sweep over", key, self.keys)

    def at(self, point: Point) -> SweepPlan:
        """The plan with a point's values in their places."""
        own = {field.name for field in fields(self.method)}
        of_method = {key: value for key, value in point.items() if key in own}
        others = {key: value for key, value in point.items() if key not in own}
        data, options = self.data, dict(self.options)
        for key, value in others.items():
            if key == "bits":
                options["seal"] = [*listed(options.get("seal")), *([] if value is None else [Bits(value)])]
            elif key in OF_LOAD and isinstance(data, dict):
                data = {**data, key: value}
            else:
                options[key] = value
        if "epochs" in others or "rounds" in others:
            options.pop("rounds" if "epochs" in others else "epochs", None)
        return replace(self, data=data, method=replace(self.method, **of_method), options=options)

    def train(self) -> Run:
        """The run of this plan."""
        if isinstance(self.data, dict):
            rows, test = load(**{"name" if key == "load" else key: value for key, value in self.data.items()})
            return train(rows, self.method, test=test, **self.options)
        return train(self.data, self.method, test=self.test, **self.options)

    def description(self) -> dict[str, Any]:
        """The plan as plain data, equal for equal plans."""
        data = self.data if isinstance(self.data, dict) else _fingerprint(self.data)
        given = {name: _described(name, value) for name, value in self.options.items() if value is not None}
        test = None if self.test is None else _fingerprint(self.test)
        method = {"name": self.method.name, **asdict(self.method)}
        plain = {"data": data, "test": test, "method": method, "options": stored_names(given)}
        return json.loads(json.dumps(plain, default=str))  # type: ignore[no-any-return]


def result_at(plan: SweepPlan, point: Point) -> dict[str, Any]:
    """The result of a point: the last row of its run's history, and the importance of parties where it is known."""
    run = plan.at(point).train()
    row = run.history[-1]
    if run.settings.stop_drop is not None:  # early stopping keeps the best model
        watched = watched_in(run.history, run.settings.watch, run.task.score)
        row = max(run.history, key=lambda row: row.get(watched, -math.inf))
    return {"point": point, "found": row, "heads": _heads(run)}


def compact(tables: Sequence[Table]) -> list[Table]:
    """The tables with copies of their columns: to pickle a view would pickle the whole array."""
    return [table.compact() for table in tables]


def _heads(run: Run) -> dict[str, float]:
    if run.seals.noise is not None:  # asking the parties would cost privacy
        return {}
    try:
        return run.importance()
    except ConfigError:
        return {}


def _described(name: str, value: Any) -> Any:
    if name == "seal":
        return describe(listed(value))
    if name in ("model", "optimizer"):
        kinds = models if name == "model" else optim
        builders = value if isinstance(value, list | tuple) else [value]
        return [
            kinds.describe(build) or f"{getattr(build, '__module__', '')}.{getattr(build, '__qualname__', build)}"
            for build in builders
        ]
    return value


def _fingerprint(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Names, shapes and a digest of all values."""
    prints = []
    for table in tables:
        digest = hashlib.sha256(repr(table.ids.tolist()).encode())
        for values in (table.columns, table.labels, table.known, table.unaligned):
            if values is not None:
                digest.update(values.contiguous().numpy().tobytes())
        prints.append(
            {"name": table.name, "shape": list(table.shape), "scale": repr(table.scale), "of": digest.hexdigest()}
        )
    return prints


def grid(over: Mapping[str, Sequence[Any]]) -> list[Point]:
    """All combinations, the last key changing fastest.

    >>> grid({"rho": [1, 2], "seed": [0, 1]})[1]
    {'rho': 1, 'seed': 1}
    """
    points: list[Point] = [{}]
    for key, values in over.items():
        points = [{**point, key: value} for point in points for value in values]
    return points
