"""Pictures in one message: what a few numbers of every party, sent once and without any label, are good for.

    python -m benchmarks.one_message                               MNIST and Fashion-MNIST; seeds 0 to 2; test rows
    python -m benchmarks.one_message --rows valid --seeds 0 --ways "3 numbers x 4 bits" --tops network
                                                                   to choose settings: no test row is looked at
    python -m benchmarks.one_message --folder benchmarks/results/one_message --only-show

Every one of 14 parties has two rows of pixels. It sends each picture's place along a few main directions, in a few
bits, once; the owner has the labels, no pixel, and fits a network to what came. A tenth of the training rows, which
follows from the seed, is never trained on: settings are chosen on these rows. The last lines are what there is to
beat: every party sends its pixels, compressed. Results are kept in ``--folder``, one file a run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.pixels import PACKERS, packed_size
from benchmarks.rebuilding import WATCHED, classes_of, columns_of, last_read, r2, shuffled
from benchmarks.table import show
from colonnade.core.schedule import Schedule
from colonnade.core.task import Classes
from colonnade.learners import make_learner

PARTIES, VALID = 14, 0.1
DATA = {"mnist": "mnist", "fashion": "fashion_mnist"}
TOPS = {
    "linear": "linear",
    "trees": "trees(iterations=100,rate=0.1,leaves=31)",
    "network": "network",
    "wide network": "network(width=512,dropout=0.3)",
}
DECODERS = [("ridge", 200), ("network", 200), ("ridge", 2000), ("network", 2000)]


class Way(NamedTuple):
    """So many numbers of a row from every party, in so many bits each."""

    numbers: int
    bits: int
    learn: str = "pca"

    @property
    def title(self) -> str:
        more = "" if self.learn == "pca" else f", {self.learn}"
        return f"{self.numbers} numbers x {self.bits} bits{more}"


PCA = [(2, 4), (3, 4), (4, 3), (4, 4), (5, 3), (5, 4), (6, 3), (6, 4), (8, 2)]
WAYS = {way.title: way for way in [*(Way(*both) for both in PCA), Way(4, 4, "autoencoder")]}
CHOSEN = {"mnist": ("4 numbers x 4 bits", "wide network"), "fashion": ("6 numbers x 4 bits", "wide network")}


@cache
def federations(data: str) -> tuple[list[cn.Table], list[cn.Table]]:
    """All training rows, and the test rows."""
    train, test = cn.load(DATA[data], parties=PARTIES)
    return train, test


def one_message(data: str, way: Way, top: str, seed: int, rows: str) -> Found:
    """Train, score on test or validation rows, and rebuild."""
    train, test = federations(data)
    began = time.process_time()
    method = cn.OneShot(learn=way.learn, embedding=way.numbers, top=TOPS[top], epochs=10)
    run = cn.train(train, method, seal=cn.Bits(way.bits), seed=seed, valid=VALID, evaluate_every=10**9, record=WATCHED)
    sent = run.ledger.bytes_for("train") + run.ledger.bytes_for("setup")
    held = test if rows == "test" else [table.take(run.schedule.valid_rows.numpy()) for table in train]
    found = {"accuracy": run.evaluate(held)["accuracy"], "bytes": sent, "seconds": time.process_time() - began}
    if rows == "valid":
        return found
    seen, read = last_read(run.view)
    columns = columns_of(train, seen)
    decoded = {f"{by} {known}": r2(read, columns, known=known, by=by, seed=seed) for by, known in DECODERS}
    decoded["labels only"] = r2(classes_of(train, seen), columns, known=2000, seed=seed)
    decoded["shuffled"] = max(r2(shuffled(read), columns, known=known, by=by, seed=seed) for by, known in DECODERS[:3])
    return found | decoded


def all_pixels(data: str, packer: str, top: str, seed: int, rows: str) -> Found:
    """Every party sends its pixels, compressed, and the owner fits the same network to them."""
    train, test = federations(data)
    schedule = Schedule(train[0].rows, 1, seed, VALID)
    fit, held = schedule.train_rows.numpy(), schedule.valid_rows.numpy()
    learner, task = make_learner(TOPS[top]), Classes(10)
    began = time.process_time()
    state = learner.fit(torch.from_numpy(columns_of(train, fit)), train[0].labels[fit], task, seed)
    scored = (test, np.arange(test[0].rows)) if rows == "test" else (train, held)
    outputs = learner.outputs(state, torch.from_numpy(columns_of(*scored)))
    right = (outputs.argmax(1) == scored[0][0].labels[scored[1]]).float().mean()
    seconds = time.process_time() - began
    return {"accuracy": float(right), "bytes": packed_size(train, fit, packer), "seconds": seconds}


Cells = dict[str, list[Found]]


def cells_of(kept: Kept, data: str, ways: Sequence[str], tops: Sequence[str], options: argparse.Namespace) -> Cells:
    """All that was run for all seeds."""
    cells: Cells = {}
    finds = {f"{way}, {top}": partial(one_message, data, WAYS[way], top) for way in ways for top in tops if way in WAYS}
    finds |= {
        f"all pixels, {packer}, {top}": partial(all_pixels, data, packer, top)
        for packer in PACKERS
        for top in tops
        if f"all pixels, {packer}" in ways
    }
    for name, find in finds.items():
        names = [(f"{data} {options.rows} {name} {seed}", seed) for seed in options.seeds]
        found = [kept(title, partial(find, seed, options.rows)) for title, seed in names]
        if all(found):
            cells[name] = found
    return cells


def table(title: str, cells: Cells) -> None:
    """One data set, a line for each way."""
    heads = ["sent once by each of 14 parties; top", "accuracy %", "by seed", "MiB", "labels that parties see"]
    rebuilt = [f"R2, {by}, {known:,} rows" for by, known in DECODERS]
    show(title, [*heads, *rebuilt, "labels only", "shuffled", "CPU s"], [[k, *_line(v)] for k, v in cells.items()])


def _line(found: Sequence[Found]) -> list[str]:
    each = ", ".join(f"{100 * run['accuracy']:.2f}" for run in found)
    keys = [*(f"{by} {known}" for by, known in DECODERS), "labels only", "shuffled"]
    rebuilt = [f"{_mean(found, key):.2f}" if all(key in run for run in found) else "-" for key in keys]
    accuracy, mib = f"{100 * _mean(found, 'accuracy'):.2f}", f"{_mean(found, 'bytes') / 2**20:.2f}"
    return [accuracy, each, mib, "none", *rebuilt, f"{_mean(found, 'seconds'):.0f}"]


def _mean(found: Sequence[Found], key: str) -> float:
    return statistics.mean(run[key] for run in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pixels = [f"all pixels, {packer}" for packer in PACKERS]
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, *pixels], help="by default the chosen one, and all pixels")
    parser.add_argument("--tops", nargs="+", choices=list(TOPS), help="what the owner fits; by default the chosen one")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", default="test", choices=["test", "valid"], help="which rows are scored")
    parser.add_argument("--folder", type=Path, default=Path("runs/one_message"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.folder, train=not options.only_show)
    for data in options.data:
        ways, tops = options.ways or [CHOSEN[data][0], *pixels], options.tops or [CHOSEN[data][1]]
        which = f"{options.rows} rows, mean of seeds {options.seeds}"
        table(f"{data}: accuracy on {which}", cells_of(kept, data, ways, tops, options))


if __name__ == "__main__":
    main()
