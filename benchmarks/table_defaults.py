"""What ``cn.train(tables)`` reaches with no option, beside the best of a small grid, the papers' settings and trees.

    python -m benchmarks.table_defaults                            five data sets and a set of six views, seeds 0 to 2
    python -m benchmarks.table_defaults --seeds 0 --most 4000 --lines vimadmm splitnn
    python -m benchmarks.table_defaults --only-show

The rows are those of ``benchmarks.tables`` for credit, bank and adult; breast cancer and bank marketing (20 columns)
are cut over three parties, the owner's first. Digits are 64 raw numbers over six parties and an owner with the labels:
ten classes, scored by accuracy. ``--most`` training rows are drawn at random, if there are more. The grid of the
default method has two rates of Adam and the paper's SGD, with half the usual rounds and all of them. Its best point is
chosen on a fifth of the training rows, trained again on all of them, and scored on the test rows. Results are kept in
``--folder``, one file a run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.table import show
from benchmarks.tables import Federations, federations, in_one_place, mean_of
from colonnade.errors import TrainingError
from colonnade.run.make_plan import make_plan

EXAMPLES = ("credit", "bank", "adult")
LOADED = ("breast_cancer", "bank_marketing_additional")
DIGITS = "digits, 6 parties"
DATA = (*EXAMPLES, *LOADED, DIGITS)
METHODS = ("vimadmm", "vimadmm-j", "vimsgd", "splitnn", "fdml")
POINTS = {"Adam 0.0003": ("adam", 0.0003), "Adam 0.001": ("adam", 0.001), "the paper's SGD": ("sgd", None)}
TIMES = (0.5, 1.0)
ALL = 100_000  # more rows than any of them has
TREES = "all columns, boosted trees"
GRID, USUAL, PAPER = "{}, best of Adam and SGD", "{}", "{}, the papers' settings"


@cache
def whole(data: str, seed: int) -> Federations:
    """All rows to train on and to test on."""
    if data in EXAMPLES:
        return federations(data, seed, "test")
    if data == DIGITS:
        return digits(seed)
    train, test = cn.load(data, parties=3, owner="first", seed=seed)
    return train, test


def digits(seed: int) -> Federations:
    """Raw numbers from 0 to 16, cut into six views."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    tables = cn.split(X, y, 6)
    return [table.take(order[360:]) for table in tables], [table.take(order[:360]) for table in tables]


@cache
def pair_of(data: str, seed: int, most: int, *, chosen_on: str) -> Federations:
    """At most so many rows to train on, drawn at random; and the test rows, or a fifth of the others."""
    train, test = whole(data, seed)
    order = np.random.default_rng(seed).permutation(train[0].rows)[:most]
    few = len(order) // 5
    if chosen_on == "test":
        return [table.take(order) for table in train], test
    return [table.take(order[few:]) for table in train], [table.take(order[:few]) for table in train]


def score_in(row: dict[str, float]) -> float:
    return row.get("test_auc", row["test_accuracy"])


def trained(method: str | cn.Method, pair: Federations, seed: int, **options: Any) -> Found:
    """The last score of a run with no option but those given."""
    run = cn.train(pair[0], method, seed=seed, test=pair[1], evaluate_every=10**9, **options)
    return {"score": score_in(run.history[-1]), "bytes": run.ledger.bytes_for("train"), "seconds": run.seconds}


def best_of_grid(method: str, data: str, seed: int, most: int) -> Found:
    """The test score of the point that is best on validation rows, and which it was."""
    pair = pair_of(data, seed, most, chosen_on="valid")
    half = make_plan(pair[0], method).settings.rounds // 2
    found: dict[tuple[int, float], float] = {}
    for number, point in enumerate(POINTS):
        run = cn.train(pair[0], at(method, point), seed=seed, test=pair[1], rounds=2 * half, evaluate_every=half)
        found |= {(number, times): score_in(run.history[int(2 * times) - 1]) for times in TIMES}
    number, times = max(found, key=lambda place: found[place])
    last = trained_again(method, at(method, list(POINTS)[number]), times, (data, seed, most))
    return last | {"point": number, "times": times, **{f"held out {k} x{x:g}": v for (k, x), v in found.items()}}


def trained_again(method: str, how: cn.Method, times: float, what: tuple[str, int, int]) -> Found:
    """The chosen point on all training rows; if it is what no option gives, that run is not repeated."""
    pair = pair_of(*what, chosen_on="test")
    usual = make_plan(pair[0], method)
    if times == 1 and make_plan(pair[0], how).method == usual.method:
        return with_no_option(method, *what)
    return trained(how, pair, what[1], rounds=int(times * usual.settings.rounds))


@cache
def with_no_option(method: str, data: str, seed: int, most: int) -> Found:
    """The method as it comes."""
    return trained(method, pair_of(data, seed, most, chosen_on="test"), seed)


def at(method: str, point: str) -> cn.Method:
    """The method with the optimiser and the rate of a point of the grid."""
    optimizer, rate = POINTS[point]
    return cn.methods()[method](optimizer=optimizer, lr=rate)


def papers(method: str, pair: Federations, seed: int) -> Found:
    """Ten epochs of SGD at the paper's rate, as every run was before tables had settings of their own."""
    try:
        return trained(cn.methods()[method](optimizer="sgd"), pair, seed, epochs=10)
    except TrainingError:  # the loss is not finite
        return {"score": 0.0, "bytes": 0, "seconds": 0.0}


def trees(pair: Federations, seed: int) -> Found:
    """Histogram gradient boosting on all columns in one place."""
    train, test = (in_one_place([table for table in tables if table.columns is not None])[0] for tables in pair)
    model = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200, random_state=seed)
    model.fit(train.columns.numpy(), pair[0][0].labels.numpy())
    if len(model.classes_) > 2:
        return {"score": float(model.score(test.columns.numpy(), pair[1][0].labels.numpy())), "bytes": 0}
    scores = model.predict_proba(test.columns.numpy())[:, 1]
    return {"score": float(roc_auc_score(pair[1][0].labels, scores)), "bytes": 0}


def lines() -> dict[str, Callable[[str, int, int], Found]]:
    """Every line of the table, the default method first."""

    def tested(data: str, seed: int, most: int) -> Federations:
        return pair_of(data, seed, most, chosen_on="test")

    first = METHODS[0]
    table: dict[str, Callable[[str, int, int], Found]] = {
        USUAL.format(first): lambda *what: with_no_option(first, *what),
        GRID.format(first): lambda *what: best_of_grid(first, *what),
        TREES: lambda *what: trees(tested(*what), what[1]),
    }
    for method in METHODS[1:]:
        table[USUAL.format(method)] = lambda *what, method=method: with_no_option(method, *what)
    for method in METHODS:
        table[PAPER.format(method)] = lambda *what, method=method: papers(method, tested(*what), what[1])
    return table


def cell(found: Sequence[Found | None]) -> str:
    known = [one for one in found if one]
    if len(known) < len(found):
        return "not run"
    names = list(POINTS)
    chosen = "; ".join(f"{names[int(one['point'])]}, x{one['times']:g}" for one in known if "point" in one)
    return f"{mean_of(known, 'score'):.4f}" + (f" ({chosen})" if chosen else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--lines", nargs="+", default=list(lines()), choices=list(lines()))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--most", type=int, default=ALL, help="training rows")
    parser.add_argument("--folder", type=Path, default=Path("runs/table_defaults"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept, cells = Kept(options.folder, train=not options.only_show), {}
    for data in options.data:
        for name in options.lines:
            what = [(data, seed, options.most) for seed in options.seeds]
            found = [
                kept(f"{data} {name} {seed} {most}", partial(lines()[name], data, seed, most)) for _, seed, most in what
            ]
            cells[name, data] = cell(found)
    most = "all" if options.most == ALL else f"at most {options.most:,}"
    title = f"AUC (digits: accuracy) on test rows, {most} training rows, mean of seeds {options.seeds}"
    show(title, ["", *options.data], [[name, *(cells[name, data] for data in options.data)] for name in options.lines])


if __name__ == "__main__":
    main()
