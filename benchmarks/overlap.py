"""Rows that not everybody has: test AUC against the share of the owner's rows that its partners have too.

    python -m benchmarks.overlap                                   credit, bank, adult; seeds 0 to 2
    python -m benchmarks.overlap --data credit --shares 5 --seeds 0
    python -m benchmarks.overlap --data mnist cifar10 --methods splitnn laser --seeds 0
    python -m benchmarks.overlap --data adult --shares 70 --owner-rows 1000 --epochs 30 --batch 64
      --methods local local-common apfed apfed-common             (one line) an owner with few rows, and its own model
    python -m benchmarks.overlap --rows valid --seeds 0            to choose settings: no test row is looked at
    python -m benchmarks.overlap --only-show

The tables are those of ``benchmarks.tables``. Of the training rows, a share that follows from the seed is common: all
partners have these rows, and no partner has the others. What partners hold about the others is given to them as rows
of their own (``Table.unaligned``). Everybody is scored on the same test rows, which all partners have; methods that
can predict without partners are scored so too. Results are kept in ``--folder``, one file a run.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.table import show
from benchmarks.tables import EPOCHS, MODEL, WIDTH, Federations, federations, mean_of

SHARES = (100, 50, 20, 5)
PICTURES = {"mnist": (10_000, None), "cifar10": (5_000, cn.CNN((8, 16)))}  # so many training rows, and the network
PICTURE_PARTS, PICTURE_EPOCHS = 4, 10
LONGER = {100: 1.0, 50: 1.5, 20: 3.0, 5: 6.0}  # fewer rows, more epochs: rounds shrink less than rows do
TOP = "network(width=256,dropout=0.3)"  # of pictures


def constant(share: int) -> float:
    """As many epochs on few rows as on all."""
    return 1.0


def longer(share: int) -> float:
    """More epochs on few rows, but fewer rounds."""
    return LONGER.get(share, 1.0)


def equal_rounds(share: int) -> float:
    """As many rounds on few rows as on all."""
    return 100 / share


class How(NamedTuple):
    """A method, the rows that it trains on, and for how many of the data set's epochs."""

    title: str
    method: cn.Method
    rows: Callable[[Sequence[cn.Table]], list[cn.Table]] = list
    epochs: float = 1.0
    lengthened: Callable[[int], float] = constant
    asks: bool = True  # if not, the share of common rows changes nothing
    pictures: cn.Method | None = None  # the method for pictures, if it is another


SPLITNN = cn.SplitNN(embedding=WIDTH, hidden=WIDTH, optimizer="sgd")
METHODS = {
    "local": How("owner alone, all its rows", cn.Local(embedding=WIDTH, optimizer="sgd"), asks=False),
    "local-common": How("owner alone, common rows", cn.Local(embedding=WIDTH, optimizer="sgd"), rows=cn.common_rows),
    "splitnn": How("splitnn, common rows", SPLITNN, rows=cn.common_rows, lengthened=longer),
    "splitnn-steps": How(
        "splitnn, common rows, as many steps as laser",
        SPLITNN,
        rows=cn.common_rows,
        epochs=3.0,
        lengthened=equal_rounds,
    ),
    "apfed": How("apfed, all rows", cn.APFed(embedding=WIDTH, optimizer="sgd")),
    "apfed-common": How("apfed, common rows", cn.APFed(embedding=WIDTH, optimizer="sgd"), rows=cn.common_rows),
    "laser": How("laser, all rows", cn.LASER(embedding=WIDTH, hidden=WIDTH, optimizer="sgd"), epochs=3.0),
    "laser-sets": How(
        'laser, counts="sets", all rows',
        cn.LASER(embedding=WIDTH, hidden=WIDTH, counts="sets", optimizer="sgd"),
        epochs=3.0,
    ),
    "oneshot": How(
        "oneshot, labels sent, all rows", cn.OneShot(), pictures=cn.OneShot(learner="network", top=TOP, folds=3)
    ),
    "oneshot-pca": How(
        "oneshot, no label sent, all rows",
        cn.OneShot(learn="pca"),
        pictures=cn.OneShot(learn="pca", embedding=16, top=TOP),
    ),
}
"""A method more is a line more; one that learns alone finds the partners' other rows in ``table.unaligned``."""
USUAL = [name for name in METHODS if not name.endswith("-common")]


class Trial(NamedTuple):
    """What is the same for all methods: the data set, its rows, and how long to train."""

    data: str
    rows: str
    owner_rows: int | None = None
    epochs: int | None = None
    batch: int = 256

    def named(self, title: str, share: int, seed: int) -> str:
        """The name under which a run's result is kept."""
        few = "" if self.owner_rows is None else f" {self.owner_rows} rows"
        how = "" if self.epochs is None else f" {self.epochs} epochs of {self.batch}"
        return f"{self.data} {self.rows} {title} {share} {seed}{few}{how}"

    def epochs_of(self, how: How, share: int) -> int:
        """How many epochs a method trains."""
        if self.epochs is not None:
            return self.epochs
        base = (PICTURE_EPOCHS if self.data in PICTURES else EPOCHS[self.data][0]) * how.epochs
        return max(1, round(base * how.lengthened(share)))


@cache
def tables_of(data: str, seed: int, rows: str) -> Federations:
    """To train on and to score on, with all rows at all parties."""
    if data not in PICTURES:
        return federations(data, seed, rows)
    train, test = cn.load(data, parties=PICTURE_PARTS, owner="first")
    order = np.random.default_rng(seed).permutation(train[0].rows)[: PICTURES[data][0]]
    return [table.take(order) for table in train], test


def overlapping(tables: Sequence[cn.Table], share: int, seed: int) -> list[cn.Table]:
    """The tables as they are if partners have only a share of the owner's rows; smaller shares are parts of larger."""
    order = np.random.default_rng([seed, 18]).permutation(tables[0].rows)
    known = np.zeros(tables[0].rows, bool)
    known[order[: round(share / 100 * len(order))]] = True
    return [tables[0], *(replace(t, known=known, unaligned=t.columns[~known]) for t in tables[1:])]


def find(trial: Trial, how: How, share: int, seed: int) -> Found:
    """What one method makes of one share and seed."""
    whole, held = tables_of(trial.data, seed, trial.rows)
    if trial.owner_rows is not None:
        whole = [table.take(range(trial.owner_rows)) for table in whole]
    train = how.rows(overlapping(whole, share, seed))
    options: dict[str, Any] = {"optimizer": cn.Adam(0.001, decay=0.01), "evaluate_every": 10**9}
    options |= {"model": PICTURES[trial.data][1] if trial.data in PICTURES else MODEL}
    options |= {"epochs": trial.epochs_of(how, share), "batch": min(trial.batch, train[0].rows), "seed": seed}
    began = time.process_time()
    method = how.pictures if how.pictures is not None and trial.data in PICTURES else how.method
    run = cn.train(train, method, **options)
    seconds, sent = time.process_time() - began, run.ledger.total
    score = "accuracy" if trial.data in PICTURES else "auc"
    found = {"score": run.evaluate(held)[score], "bytes": sent, "seconds": seconds}
    if run.method.any_subset:
        others = [table.name for table in held[1:]]
        found["alone"] = run.evaluate(held, absent=others, missing="zero")[score]
    return found | ({"alone": found["score"]} if run.method.predicts_alone else {})


Cells = dict[tuple[str, int], list[Found]]


def cells_of(kept: Kept, trial: Trial, methods: Sequence[str], shares: Sequence[int], seeds: Sequence[int]) -> Cells:
    """All that was run for all seeds."""
    cells = {}
    for how, share in itertools.product([METHODS[method] for method in methods], shares):
        ran = share if how.asks else 100
        found = [kept(trial.named(how.title, ran, seed), partial(find, trial, how, ran, seed)) for seed in seeds]
        if all(found):
            cells[how.title, share] = found
    return cells


def table(title: str, cells: Cells, shares: Sequence[int]) -> None:
    """One data set: a line per method, a column per share of common rows."""
    titles = dict.fromkeys(title for title, _ in cells)
    heads = ["common rows", *(f"{share} %" for share in shares), "MB sent", "CPU s"]
    show(title, heads, [[one, *_line(one, cells, shares)] for one in titles])


def _line(name: str, cells: Cells, shares: Sequence[int]) -> list[str]:
    each = [_cell(cells[name, share]) if (name, share) in cells else "not run" for share in shares]
    last = [found for share in shares for found in cells.get((name, share), [])]
    return [*each, f"{mean_of(last, 'bytes') / 1e6:.1f}", f"{mean_of(last, 'seconds'):.1f}"]


def _cell(found: Sequence[Found]) -> str:
    """The mean score, and in brackets that of predictions without partners, if it is another."""
    score = f"{mean_of(found, 'score'):.4f}"
    alone = f"{mean_of(found, 'alone'):.4f}" if all("alone" in run for run in found) else score
    return score if alone == score else f"{score} ({alone})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(EPOCHS), choices=[*EPOCHS, *PICTURES])
    parser.add_argument("--methods", nargs="+", default=USUAL, choices=list(METHODS))
    parser.add_argument("--shares", nargs="+", type=int, default=list(SHARES), help="of common rows, in percent")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", default="test", choices=["test", "valid"], help="which rows are scored")
    parser.add_argument("--owner-rows", type=int, help="so many of the training rows only")
    parser.add_argument("--epochs", type=int, help="for all methods alike, instead of those of the data set")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--folder", type=Path, default=Path("runs/overlap"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.folder, train=not options.only_show)
    for data in options.data:
        score = "accuracy" if data in PICTURES else "AUC"
        which = f"{options.rows} rows, mean of seeds {options.seeds}"
        trial = Trial(data, options.rows, options.owner_rows, options.epochs, options.batch)
        cells = cells_of(kept, trial, options.methods, options.shares, options.seeds)
        table(f"{data}: {score} on {which}", cells, options.shares)


if __name__ == "__main__":
    main()
