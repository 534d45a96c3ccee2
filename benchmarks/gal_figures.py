"""GAL's three scikit-learn data sets over eight parties: our methods, the owner alone, all columns in one place.

    python -m benchmarks.gal_figures                               all lines, eight splits
    python -m benchmarks.gal_figures --data wine --splits 4
    python -m benchmarks.gal_figures --only-show

Diao, Ding, Tarokh: *GAL: Gradient Assisted Learning for Decentralized Multi-Organization Collaborations*, NeurIPS 2022,
has accuracy on breast cancer and wine and the mean absolute deviation on diabetes. As there, a split draws a fifth of
the rows for testing and cuts the columns at random into eight parties, of which the first has the labels. Columns are
standardised by the training rows. Of a line's settings, each split takes those that are best on a fifth of its training
rows, and trains again on all of them; nothing is chosen by test rows. Results are kept in ``--folder``, one file a
split and line.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.table import show

PARTIES, SPLITS = 8, 8
PUBLISHED = {"cancer": 98.5, "wine": 96.5, "diabetes": 42.7}
LOADERS = {"cancer": datasets.load_breast_cancer, "wine": datasets.load_wine, "diabetes": datasets.load_diabetes}


class Line(NamedTuple):
    """What is trained, with the settings to choose from."""

    methods: tuple[cn.Method, ...]
    whole: bool = False
    """Whether all columns are in one place."""
    training: dict[str, Any] = {}  # noqa: RUF012 - never written to


RIDGES = (1, 10)
TREES = "trees(iterations=60, rate=0.1, leaves=4, least_rows=5)"
NETWORK = {"model": cn.MLP((16,)), "batch": 32, "epochs": 30}
LINES = {
    "owner alone, linear": Line(tuple(cn.Local(learner=f"linear(ridge={ridge})") for ridge in RIDGES)),
    "owner alone, trees": Line((cn.Local(learner=TREES),)),
    "oneshot, linear": Line(tuple(cn.OneShot(learner="linear", top=f"linear(ridge={ridge})") for ridge in RIDGES)),
    "oneshot, trees": Line((cn.OneShot(learner=TREES, top=TREES),)),
    "oneshot, no label sent": Line(
        tuple(cn.OneShot(learn="pca", embedding=2, top=f"linear(ridge={ridge})") for ridge in RIDGES)
    ),
    "gal, linear": Line(tuple(cn.GAL(learner=f"linear(ridge={ridge})") for ridge in RIDGES)),
    "splitnn, Adam": Line(
        (cn.SplitNN(embedding=4, hidden=16),), training={**NETWORK, "optimizer": cn.Adam(0.003, decay=0.01)}
    ),
    "vimadmm-j": Line((cn.VIMADMMJ(embedding=8),), training=NETWORK),
    "all columns, linear": Line(tuple(cn.Local(learner=f"linear(ridge={ridge})") for ridge in RIDGES), whole=True),
    "all columns, trees": Line((cn.Local(learner=TREES),), whole=True),
}


class Split(NamedTuple):
    """Rows to train on and to test on, and who has which columns."""

    task: str
    x: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray
    columns: list[list[int]]

    def tables(self, train: np.ndarray, test: np.ndarray, *, whole: bool) -> list[list[cn.Table]]:
        """The federations of these rows, standardised by the first ones; all columns at the owner if asked for."""
        mean, deviation = self.x[train].mean(0), self.x[train].std(0)
        x = ((self.x - mean) / np.where(deviation > 0, deviation, 1)).astype(np.float32)
        parts = [[column for part in self.columns for column in part]] if whole else self.columns
        return [cn.split(x[rows], self.y[rows], parts, owner="first") for rows in (train, test)]

    def held_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the training rows all but a fifth, and this fifth; the rows are in random order."""
        few = len(self.train) // 5
        return self.train[few:], self.train[:few]


@cache
def split(data: str, number: int) -> Split:
    """The rows and columns of one split, which follow from its number."""
    x, y = LOADERS[data](return_X_y=True)
    rng = np.random.default_rng(number)
    order, columns = rng.permutation(len(x)), rng.permutation(x.shape[1])
    few = len(x) // 5
    parts = [part.tolist() for part in np.array_split(columns, PARTIES)]
    return Split("values" if data == "diabetes" else "classes", x, y, order[few:], order[:few], parts)


def scored(line: Line, method: cn.Method, pair: Sequence[list[cn.Table]], task: str) -> Found:
    """Train on the first tables and judge by the second."""
    run = cn.train(pair[0], method, task=task, evaluate_every=10**9, **line.training)
    found = run.evaluate(pair[1])
    figure = found["mae"] if "mae" in found else 100 * found["accuracy"]
    return {"figure": figure, "loss": found.get("mae", found["loss"]), "bytes": run.ledger.total, "rounds": run.round}


def find(name: str, data: str, number: int) -> Found:
    """The figure of one line on the test rows of one split, with the settings that validation rows chose."""
    line, drawn = LINES[name], split(data, number)
    chosen = 0
    if len(line.methods) > 1:
        pair = drawn.tables(*drawn.held_out(), whole=line.whole)
        chosen = int(np.argmin([scored(line, method, pair, drawn.task)["loss"] for method in line.methods]))
    pair = drawn.tables(drawn.train, drawn.test, whole=line.whole)
    return scored(line, line.methods[chosen], pair, drawn.task) | {"chosen": chosen}


def cell(found: Sequence[Found], data: str) -> str:
    """The mean over the splits, their deviation, how many reach the published figure, and the KB of a training."""
    figures = [one["figure"] for one in found]
    spread = statistics.stdev(figures) if len(figures) > 1 else 0.0
    sent = statistics.mean(one["bytes"] for one in found) / 1e3
    met = sum(figure <= PUBLISHED[data] if data == "diabetes" else figure >= PUBLISHED[data] for figure in figures)
    said = f"{statistics.mean(figures):.1f} ({spread:.1f}), {met} of {len(figures)}"
    return said + (f", {sent:.0f} KB" if sent else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--lines", nargs="+", default=list(LINES), choices=list(LINES))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--folder", type=Path, default=Path("runs/gal_figures"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept, rows = Kept(options.folder, train=not options.only_show), []
    for name in options.lines:
        row = [name]
        for data in options.data:
            all_found = [kept(f"{data} {name} {k}", partial(find, name, data, k)) for k in range(options.splits)]
            row.append(cell(all_found, data) if all(all_found) else "not run")
        rows.append(row)
    rows.append(["GAL as published", *(f"{PUBLISHED[data]}" for data in options.data)])
    heads = ["accuracy in %, of diabetes the mean absolute deviation; KB sent in training", *options.data]
    show(
        f"{PARTIES} parties, mean (deviation) of {options.splits} splits, in how many the published figure is reached",
        heads,
        rows,
    )


if __name__ == "__main__":
    main()
