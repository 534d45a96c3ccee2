"""The table of a sweep: one row per point."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from colonnade.core.method import Method
from colonnade.disk.whole_files import write_text
from colonnade.errors import ConfigError, unknown
from colonnade.store.run_folder import history_csv
from colonnade.study.importance_of_parties import Importance

Row = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep in the order of its grid.

    A row has the point's values and what its run's history says last, or the sentence with which it failed
    under ``error``. ``heads`` has what each run's ``importance()`` says, where the method has it.
    """

    over: tuple[str, ...]
    rows: list[Row]
    heads: Sequence[dict[str, float]] = ()
    judge: str = "test_accuracy"
    """The metric of the best point: after a search one of validation rows."""
    method: Method | None = field(default=None, repr=False)
    """After a search, the method whose options were searched."""

    @property
    def failed(self) -> list[Row]:
        """The rows of points that failed."""
        return [row for row in self.rows if "error" in row]

    def best(self, metric: str | None = None) -> Row:
        """The row with the highest value, or the lowest if it is a loss, bytes or seconds.

        Without a metric it is ``judge``: the accuracy on test rows, after a search the score on validation rows.
        """
        metric = metric or self.judge
        able = [row for row in self.rows if metric in row]
        if len(self.failed) == len(self.rows):
            raise ConfigError(
                f"all points of this sweep failed, so none is the best; the first: {self.rows[0]['error']}"
            )
        if not able:
            known = {name for row in self.rows for name in row if name not in (*self.over, "error")}
            raise unknown("metric of this sweep", metric, known)
        less_is_better = metric.endswith("loss") or metric in ("bytes", "seconds")
        return (min if less_is_better else max)(able, key=lambda row: row[metric])

    @property
    def chosen(self) -> dict[str, dict[str, Any]]:
        """The best point of a search, by the sections of a job that its options belong in: [method] and [train]."""
        if self.method is None:
            raise ConfigError("this sweep trained a whole grid and chose nothing; read best(), or search with budget=.")
        own, best = {one.name for one in fields(self.method)}, self.best()
        point = {key: best[key] for key in self.over}
        return {
            "method": {key: value for key, value in point.items() if key in own},
            "train": {key: value for key, value in point.items() if key not in own},
        }

    @property
    def advice(self) -> str:
        """How to train with the best point of a search, in Python and in a job file."""
        chosen, best = self.chosen, self.best()
        options = "".join(f", {key}={value!r}" for key, value in chosen["train"].items())
        made = replace(self.method, **chosen["method"])  # type: ignore[type-var]
        sections = [
            f"[{name}] " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in chosen[name].items()) for name in chosen
        ]
        return (
            f"best of {len(self.rows)} by {self.judge}, {best[self.judge]:.4f}: "
            f"cn.train(tables, cn.{made!r}{options}); "
            f"in a job: {'; '.join(section for section in sections if not section.endswith('] '))}"
        )

    def mean_over(self, key: str = "seed") -> Sweep:
        """The sweep with one row for all values of a key: means, and standard deviations as "... spread"."""
        if key not in self.over:
            raise unknown("key of this sweep", key, self.over)
        rest = tuple(name for name in self.over if name != key)
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(repr([row[name] for name in rest]), []).append(row)
        return Sweep(rest, [_mean(group, rest, key) for group in groups.values()])

    def importance(self) -> Importance:
        """Mean and spread of the parties' head norms over all points, such as one per seed."""
        known = [heads for heads in self.heads if heads]
        if len(known) < 2 or any(heads.keys() != known[0].keys() for heads in known):
            raise ConfigError(
                f"{len(known)} points of this sweep have importances of parties, or the parties differ; sweep "
                "over two seeds or more with a method that has heads."
            )
        each = {name: [heads[name] for heads in known] for name in known[0]}
        return Importance(
            each={name: statistics.fmean(values) for name, values in each.items()},
            spread={name: statistics.stdev(values) for name, values in each.items()},
            by=f"run.importance() of {len(known)} runs",
            score="importance",
        )

    def to_csv(self, path: str | Path) -> Path:
        """Write all rows as CSV."""
        write_text(Path(path), history_csv(self.rows))
        return Path(path)

    def __str__(self) -> str:
        every = dict.fromkeys(name for row in self.rows for name in row)
        measured = [name for name in every if name.startswith(("test_", "valid_"))]
        measured += [name for name in ("train_loss", "bytes", "seconds", "runs") if name in every]
        names = [*self.over, *measured, *(["error"] if self.failed else [])]
        lines = [names, *([_text(row.get(name, ""), name in self.over) for name in names] for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _mean(group: list[Row], rest: tuple[str, ...], key: str) -> Row:
    able = [row for row in group if "error" not in row]
    row: Row = {name: group[0][name] for name in rest} | {"runs": len(able)}
    if not able:
        return row | {"error": group[0]["error"]}
    for name in able[0]:
        values = [row_of_point[name] for row_of_point in able if name in row_of_point]
        if name in (*rest, key, "runs") or name.endswith(" spread") or len(values) < len(able):
            continue
        row[name] = statistics.fmean(values)
        if len(values) > 1:
            row[f"{name} spread"] = statistics.stdev(values)
    return row


def _text(value: object, as_given: bool) -> str:
    if as_given or not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.0f}"
