"""APFed's Table 2, its lambda, and the owner alone at prediction on a real table; ours beside the paper's.

    python -m benchmarks.apfed                                       all parts, seeds 0 and 1
    python -m benchmarks.apfed --parts table --data mnist --settings 2-1 3-2 --seeds 0
    python -m benchmarks.apfed --only-show

A setting m-i cuts an image in m bands of equal height; band i is the owner's. The networks are those of the paper's
Tables 3 and 4 with stride 2 (``apfed_speed`` compares them with the paper's stride 1), embeddings of 256 with dropout
0.5 before the last layer, SGD with momentum 0.9 and decay 1e-4, batch 128. Sizes are smaller than the paper's 300
epochs of 60,000 rows: see ``SIZES``. An accuracy is the mean of the last three evaluations, which are a
tenth of the rounds apart. The three TVFL are one training with three fillings. Results are kept in ``--folder``, one
file a run.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.metrics import roc_auc_score

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.table import show

Federations = tuple[list[cn.Table], list[cn.Table]]
SETTINGS = ("2-1", "2-2", "3-1", "3-2", "3-3")
METHODS = ("TVFL-0", "TVFL-A", "TVFL-R", "SingleVL", "APFed-R", "APFed-C", "distilled", "combined")
PAPER: dict[str, dict[str, tuple[float, ...]]] = {  # the first six methods
    "mnist": {
        "2-1": (52.41, 72.69, 10.42, 95.24, 95.52, 95.72),
        "2-2": (49.01, 55.29, 11.32, 92.12, 92.38, 92.93),
        "3-1": (22.22, 21.33, 8.37, 78.80, 79.77, 79.13),
        "3-2": (35.13, 63.99, 11.89, 95.58, 96.12, 96.29),
        "3-3": (21.86, 29.18, 10.53, 79.41, 80.22, 80.30),
    },
    "fashion_mnist": {
        "2-1": (68.22, 70.61, 11.61, 88.49, 88.94, 88.85),
        "2-2": (60.08, 55.41, 10.49, 87.62, 88.31, 88.13),
        "3-1": (45.58, 41.19, 10.00, 80.54, 81.38, 81.57),
        "3-2": (52.15, 46.12, 11.98, 86.19, 87.09, 86.65),
        "3-3": (43.83, 32.75, 10.10, 84.50, 85.43, 85.40),
    },
    "cifar10": {"2-1": (43.24, 40.11, 12.09, 52.94, 53.74, 55.99)},
}


class Size(NamedTuple):
    """How much of a data set is trained on, for how long, with what."""

    rows: int | None
    rounds: int
    lr: float
    model: Any
    embedding: int = 256
    dropout: float = 0.5


STRIDED = cn.APFedCNN(strides=(2, 2))
SIZES = {
    "mnist": Size(2000, 600, 0.05, STRIDED),
    "fashion_mnist": Size(2000, 600, 0.05, STRIDED),
    "cifar10": Size(5000, 1800, 0.05, cn.APFedCNN((16, 32, 64), (5, 4, 5), (2, 2, 2)), 50),
    "credit_default": Size(None, 1500, 0.02, cn.MLP((64,)), 32, 0.0),
}
# Pixels here have a standard deviation of one, the authors' of a third: their reconstruction loss is a tenth of ours.
OPTIONS: dict[str, dict[str, Any]] = {
    "reconstruction": {"weight": 3.0},
    "contrastive": {"weight": 1.0},
}
LAMBDAS = (0.0, 0.1, 1.0, 10.0)


def bands(data: str, setting: str, seed: int) -> Federations:
    """The training and test federations of a setting m-i, band i at the owner."""
    count, own = map(int, setting.split("-"))
    height = {"cifar10": 32}.get(data, 28) // count
    rows = [list(range(k * height, (k + 1) * height)) for k in range(count)]
    order = [rows.pop(own - 1), *rows]
    return cn.load(data, parties=order, by="rows", owner="first", rows=SIZES[data].rows, seed=seed)


def single(size: Size) -> cn.Local:
    return cn.Local(embedding=size.embedding, dropout=size.dropout, lr=size.lr, decay=1e-4)


def apfed(size: Size, loss: str, weight: float | None = None) -> cn.APFed:
    options = OPTIONS[loss] | ({} if weight is None else {"weight": weight})
    return cn.APFed(loss=loss, embedding=size.embedding, dropout=size.dropout, lr=size.lr, decay=1e-4, **options)


def everybody(size: Size, fill: str = "none") -> cn.TVFL:
    return cn.TVFL(fill=fill, embedding=size.embedding, lr=size.lr, decay=1e-4)


def fit(tables: Federations, method: cn.Method, size: Size, seed: int, teacher: cn.Run | None = None) -> cn.Run:
    """One run, or one that learns from a teacher's predictions and from the labels in equal parts."""
    options: dict[str, Any] = {"rounds": size.rounds, "batch": 128, "seed": seed, "model": size.model}
    options |= {"test": tables[1], "evaluate_every": size.rounds // 10}
    if teacher is None:
        return cn.train(tables[0], method, **options)
    return cn.distil(teacher, tables[0], method=method, share=0.5, temperature=2.0, **options)


def last(run: cn.Run) -> float:
    return 100 * statistics.mean(row["test_accuracy"] for row in run.history[-3:])


def cell(data: str, setting: str, seed: int) -> Found:
    """All methods of one setting."""
    tables, size = bands(data, setting, seed), SIZES[data]
    teacher = fit(tables, everybody(size), size, seed)
    found = {"TVFL, all answer": last(teacher)}
    for name, fill in (("TVFL-0", "zero"), ("TVFL-A", "mean"), ("TVFL-R", "random")):
        teacher.model.method = everybody(size, fill)  # the filling is a matter of prediction only
        found[name] = 100 * teacher.evaluate(tables[1])["accuracy"]
    teacher.model.method = everybody(size)
    found["SingleVL"] = last(fit(tables, single(size), size, seed))
    found["APFed-R"] = last(fit(tables, apfed(size, "reconstruction"), size, seed))
    found["APFed-C"] = last(fit(tables, apfed(size, "contrastive"), size, seed))
    found["distilled"] = last(fit(tables, single(size), size, seed, teacher))
    found["combined"] = last(fit(tables, apfed(size, "reconstruction"), size, seed, teacher))
    return found


def means(kept: Kept, name: str, seeds: Sequence[int], find: Callable[[int], Found]) -> Found:
    """The mean over the seeds that were run."""
    return mean_of([run for seed in seeds if (run := kept(f"{name} {seed}", partial(find, seed)))])


def mean_of(rows: Sequence[Found]) -> Found:
    return {key: statistics.mean(row[key] for row in rows) for key in rows[0]} if rows else {}


def table_two(kept: Kept, data: str, settings: Sequence[str], seeds: Sequence[int]) -> None:
    size, ours, paper = SIZES[data], {}, {}
    for setting in settings:
        found = means(kept, f"{data} {setting}", seeds, partial(cell, data, setting))
        if found:
            ours[setting], paper[setting] = found, dict(zip(METHODS, PAPER[data][setting], strict=False))
    if len(ours) > 1:
        ours["mean"], paper["mean"] = mean_of(list(ours.values())), mean_of(list(paper.values()))
    names = [*METHODS, "TVFL, all answer"]
    show(
        f"Table 2, {data}: test accuracy in % (paper's), {size.rows} rows, {size.rounds} rounds, seeds {list(seeds)}",
        ["setting", *names],
        [[setting, *(_both(row[name], paper[setting].get(name)) for name in names)] for setting, row in ours.items()],
    )


def _both(ours: float, paper: float | None) -> str:
    return f"{ours:.2f}" + ("" if paper is None else f" ({paper:.2f})")


def sensitivity(kept: Kept, seeds: Sequence[int]) -> None:
    """Accuracy by lambda, and whether lambda 0 is SingleVL to the last bit."""
    size, setting, rows = SIZES["mnist"], "2-1", []

    def one(loss: str, weight: float, seed: int) -> Found:
        tables = bands("mnist", setting, seed)
        run = fit(tables, apfed(size, loss, weight), size, seed)
        found = {"accuracy": last(run)}
        if weight == 0:
            alone = fit(tables, single(size), size, seed).predict(tables[1])
            found["equal"] = float(torch.equal(run.predict(tables[1]), alone))
        return found

    for loss in OPTIONS:
        cells = [means(kept, f"lambda {loss} {weight}", seeds, partial(one, loss, weight)) for weight in LAMBDAS]
        if all(cells):
            rows.append(
                [loss, *(f"{cell['accuracy']:.2f}" for cell in cells), "yes" if cells[0]["equal"] == 1 else "NO"]
            )
    heads = [f"lambda {weight:g}" for weight in LAMBDAS]
    show("mnist 2-1: test accuracy in % by lambda", ["loss", *heads, "lambda 0 = SingleVL, every bit"], rows)


def credit(kept: Kept, seeds: Sequence[int]) -> None:
    """Who knows the client's limit, age and family predicts alone; delays and amounts help only in training."""

    def one(seed: int) -> Found:
        size = SIZES["credit_default"]
        tables = cn.load("credit_default", owner="first")
        teacher = fit(tables, everybody(size), size, seed)
        runs = {
            "SingleVL": fit(tables, single(size), size, seed),
            "APFed-R": fit(tables, apfed(size, "reconstruction"), size, seed),
            "APFed-C": fit(tables, apfed(size, "contrastive"), size, seed),
            "distilled": fit(tables, single(size), size, seed, teacher),
            "combined": fit(tables, apfed(size, "reconstruction"), size, seed, teacher),
            "TVFL, all answer": teacher,
        }
        # A distilled run knows the owner's table only.
        found = {name: _auc(run.predict(tables[1][: len(run.parties)]), tables[1]) for name, run in runs.items()}
        for name, fill in (("TVFL-0", "zero"), ("TVFL-A", "mean"), ("TVFL-R", "random")):
            teacher.model.method = everybody(size, fill)
            found[name] = _auc(teacher.predict(tables[1]), tables[1])
        return found

    found = means(kept, "credit_default", seeds, one)
    names = [*METHODS, "TVFL, all answer"]
    title = f"credit_default: test AUC, the owner of the client's data alone at prediction, seeds {list(seeds)}"
    show(title, names, [[f"{found[name]:.4f}" for name in names]] if found else [])


def _auc(probabilities: torch.Tensor, tables: Sequence[cn.Table]) -> float:
    return float(roc_auc_score(tables[0].labels, probabilities[:, 1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("table", "lambda", "credit")
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--data", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--settings", nargs="+", default=SETTINGS, choices=SETTINGS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--folder", type=Path, default=Path("runs/apfed"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.folder, train=not options.only_show)
    for data in options.data if "table" in options.parts else ():
        table_two(kept, data, [setting for setting in options.settings if setting in PAPER[data]], options.seeds)
    if "lambda" in options.parts:
        sensitivity(kept, options.seeds)
    if "credit" in options.parts:
        credit(kept, options.seeds)


if __name__ == "__main__":
    main()
