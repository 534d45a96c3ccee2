"""What parties that are absent cost in accuracy, at prediction and in training.

    python -m benchmarks.missing                            digits with three seeds, MNIST with one
    python -m benchmarks.missing --data digits --methods vafl fdml
    python -m benchmarks.missing --only-show

Digits: four parties. MNIST: 14 parties of two pixel rows each, 10,000 rows. The owner holds the labels only. At
prediction one party is absent, and the numbers are means over which one: each of the four, or of the 14 an outer one, a
middle one and one in between. In training another party is absent in every fifth round, in turn, and all are
there at prediction. Results are kept in ``--folder``, one file a run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.settings import METHODS, MODEL
from benchmarks.table import show
from colonnade.core.method import Method
from colonnade.models import ModelBuilder, default_model

NAMES = ("vimadmm", "vimadmm-j", "vimsgd", "vafl", "fdml", "splitnn")
POLICIES = ("zero", "mean", "refit")
CHOICES = ("wait", "skip", "without")
EVERY = 5
Scores = dict[str, float]  # test accuracy in %, by what was done about those who were absent


@dataclass(frozen=True)
class Setting:
    """A data set as it is split here, and how each method is trained on it properly."""

    title: str
    load: dict[str, Any]
    batch: int
    model: ModelBuilder
    methods: dict[str, Method]
    epochs: dict[str, int]
    absent: tuple[int, ...]
    seeds: tuple[int, ...]


SETTINGS = {
    "digits": Setting(
        title="digits, four parties, three seeds",
        load={"name": "digits", "parties": 4},
        batch=128,
        model=default_model,
        methods={  # learning rates by the accuracy on held-out training rows
            "vimadmm": cn.VIMADMM(lr=0.1),
            "vimadmm-j": cn.VIMADMMJ(lr=0.05),
            "vimsgd": cn.VIMSGD(lr=0.3),
            "vafl": cn.VAFL(lr=0.6),
            "fdml": cn.FDML(lr=0.3),
            "splitnn": cn.SplitNN(lr=0.3),
        },
        epochs=dict.fromkeys(NAMES, 40) | {"vimadmm": 10, "vimadmm-j": 10},
        absent=(0, 1, 2, 3),
        seeds=(0, 1, 2),
    ),
    "mnist": Setting(
        title="MNIST, 14 parties, 10,000 rows, seed 0",
        load={"name": "mnist", "parties": 14, "rows": 10000},
        batch=1024,
        model=MODEL,
        methods=METHODS | {"vafl": cn.VAFL(lr=0.6), "splitnn": cn.SplitNN(lr=0.3)},  # a sixth of the rows, so quicker
        epochs=dict.fromkeys(NAMES, 20) | {"vimadmm": 3, "vimadmm-j": 3},
        absent=(0, 3, 7),
        seeds=(0,),
    ),
}


class Bench:
    """Runs by data set, method, choice and seed, each trained once and kept."""

    def __init__(self, data: str, folder: Path, *, train: bool) -> None:
        self.setting, self.kept = SETTINGS[data], Kept(folder / data, train=train)
        self._tables: Any = None

    def scores(self, method: str, choice: str, seed: int) -> Scores:
        """The accuracies of a run, or nothing if it was not run and shall not be."""
        return self.kept(f"{method} {choice} {seed}", partial(self._run, method, choice, seed))

    def _run(self, method: str, choice: str, seed: int) -> Scores:
        self._tables = self._tables or cn.load(**self.setting.load)
        rows, test = self._tables
        names = [table.name for table in rows[1:]]
        began = time.process_time()
        run = cn.train(
            rows,
            self.setting.methods[method],
            epochs=self.setting.epochs[method],
            batch=self.setting.batch,
            seed=seed,
            model=self.setting.model,
            when_absent=choice,
            absent=None if choice == "wait" else in_turn(names),
        )
        found = {choice: 100 * run.evaluate(test)["accuracy"]}
        if choice == "wait":
            found |= self._one_absent(run, [names[k] for k in self.setting.absent], test)
        return found | {"rounds": run.round, "skipped": run.skipped, "seconds": time.process_time() - began}

    @staticmethod
    def _one_absent(run: cn.Run, names: list[str], test: list[cn.Table]) -> Scores:
        """The mean accuracy over which of these is absent, by policy."""
        able = POLICIES if run.method.refits else POLICIES[:-1]
        scores = {
            policy: [100 * run.evaluate(test, absent=[name], missing=policy)["accuracy"] for name in names]
            for policy in able
        }
        return {policy: statistics.mean(found) for policy, found in scores.items()}


def in_turn(names: list[str]) -> Callable[[int], list[str]]:
    """In every fifth round one is absent, one after the other."""
    return lambda number: [names[number // EVERY % len(names)]] if number % EVERY == EVERY - 1 else []


def table(bench: Bench, methods: list[str]) -> list[list[str]]:
    rows = []
    for method in methods:
        runs = [{choice: bench.scores(method, choice, seed) for choice in CHOICES} for seed in bench.setting.seeds]
        undisturbed = [run["wait"] for run in runs]
        cells = [written(undisturbed, key) for key in ("wait", *POLICIES)]
        rows.append([method, *cells, *(written([run[choice] for run in runs], choice) for choice in CHOICES[1:])])
    return rows


def written(runs: list[Scores], key: str) -> str:
    """The mean over seeds, and their standard deviation where there are several."""
    found = [run[key] for run in runs if key in run]
    if not found:
        return "-"
    spread = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
    return f"{statistics.mean(found):.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--folder", type=Path, default=Path("runs/missing"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    head = ["method", "nobody absent", *(f"`{policy}`" for policy in POLICIES), "training: `skip`", "`without`"]
    for data in options.data:
        bench = Bench(data, options.folder, train=not options.only_show)
        show(f"{bench.setting.title}: test accuracy in %", head, table(bench, options.methods))


if __name__ == "__main__":
    main()
