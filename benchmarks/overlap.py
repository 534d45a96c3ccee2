"""Rows that not everybody has: test AUC against the share of the owner's rows that its partners have too.

    python -m benchmarks.overlap                                   credit, bank, adult; seeds 0 to 2
    python -m benchmarks.overlap --data credit --shares 5 --seeds 0
    python -m benchmarks.overlap --data mnist cifar10 --methods splitnn laser --seeds 0
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
PICTURES = {"mnist": 4, "cifar10": 4}  # data sets of pictures, in so many parts
PICTURE_ROWS, PICTURE_EPOCHS = 10_000, 10
LONGER = {100: 1.0, 50: 1.5, 20: 3.0, 5: 6.0}  # fewer rows, more epochs: rounds shrink less than rows do


class How(NamedTuple):
    """A method, the rows that it trains on, and for how many of the data set's epochs."""

    method: cn.Method
    rows: Callable[[Sequence[cn.Table]], list[cn.Table]] = list
    epochs: float = 1.0
    lengthened: bool = False
    asks: bool = True  # if not, the share of common rows changes nothing


METHODS = {
    "owner alone, all its rows": How(cn.Local(embedding=WIDTH), asks=False),
    "splitnn, common rows": How(
        cn.SplitNN(embedding=WIDTH, hidden=WIDTH, lr=0.1), rows=cn.common_rows, lengthened=True
    ),
    "apfed, all rows": How(cn.APFed(embedding=WIDTH)),
    "laser, all rows": How(cn.LASER(embedding=WIDTH, hidden=WIDTH), epochs=3.0),
}
NAMES = {name.partition(",")[0]: name for name in METHODS}


@cache
def tables_of(data: str, seed: int, rows: str) -> Federations:
    """To train on and to score on, with all rows at all parties."""
    if data not in PICTURES:
        return federations(data, seed, rows)
    train, test = cn.load(data, parties=PICTURES[data], owner="first")
    order = np.random.default_rng(seed).permutation(train[0].rows)[:PICTURE_ROWS]
    return [table.take(order) for table in train], test


def overlapping(tables: Sequence[cn.Table], share: int, seed: int) -> list[cn.Table]:
    """The tables as they are if partners have only a share of the owner's rows; smaller shares are parts of larger."""
    order = np.random.default_rng([seed, 18]).permutation(tables[0].rows)
    known = np.zeros(tables[0].rows, bool)
    known[order[: round(share / 100 * len(order))]] = True
    return [tables[0], *(replace(t, known=known, unaligned=t.columns[~known]) for t in tables[1:])]


def find(name: str, data: str, share: int, seed: int, rows: str) -> Found:
    """What one method makes of one share and seed."""
    how, (whole, held) = METHODS[name], tables_of(data, seed, rows)
    train = how.rows(overlapping(whole, share, seed))
    base = (PICTURE_EPOCHS if data in PICTURES else EPOCHS[data][0]) * how.epochs
    epochs = max(1, round(base * (LONGER[share] if how.lengthened else 1)))
    options: dict[str, Any] = {"optimizer": cn.Adam(0.001, decay=0.01), "evaluate_every": 10**9}
    options |= {} if data in PICTURES else {"model": MODEL}
    began = time.process_time()
    run = cn.train(train, how.method, epochs=epochs, batch=min(256, train[0].rows), seed=seed, **options)
    seconds, sent = time.process_time() - began, run.ledger.total
    score = "accuracy" if data in PICTURES else "auc"
    found = {"score": run.evaluate(held)[score], "bytes": sent, "seconds": seconds}
    if run.method.any_subset:
        others = [table.name for table in held[1:]]
        found["alone"] = run.evaluate(held, away=others, missing="zero")[score]
    return found | ({"alone": found["score"]} if run.method.predicts_alone else {})


Cells = dict[tuple[str, int], list[Found]]


def cells_of(kept: Kept, options: argparse.Namespace, data: str) -> Cells:
    """All that was run for all seeds."""
    cells = {}
    for name, share in itertools.product([NAMES[method] for method in options.methods], options.shares):
        ran = share if METHODS[name].asks else 100
        found = [
            kept(f"{data} {options.rows} {name} {ran} {seed}", partial(find, name, data, ran, seed, options.rows))
            for seed in options.seeds
        ]
        if all(found):
            cells[name, share] = found
    return cells


def table(title: str, cells: Cells, shares: Sequence[int]) -> None:
    """One data set: a line per method, a column per share of common rows."""
    names = dict.fromkeys(name for name, _ in cells)
    heads = ["common rows", *(f"{share} %" for share in shares), "MB sent", "CPU s"]
    show(title, heads, [[name, *_line(name, cells, shares)] for name in names])


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
    parser.add_argument("--methods", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--shares", nargs="+", type=int, default=list(SHARES), choices=SHARES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", default="test", choices=["test", "valid"], help="which rows are scored")
    parser.add_argument("--folder", type=Path, default=Path("runs/overlap"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.folder, train=not options.only_show)
    for data in options.data:
        score = "accuracy" if data in PICTURES else "AUC"
        which = f"{options.rows} rows, mean of seeds {options.seeds}"
        table(f"{data}: {score} on {which}", cells_of(kept, options, data), options.shares)


if __name__ == "__main__":
    main()
