"""Selecting parties: how much of the information, at what cost, and what training with the chosen ones gives.

    python -m benchmarks.selection                   both parts
    python -m benchmarks.selection --parts digits    (a) only, four minutes
    python -m benchmarks.selection --parts mnist --epochs 3

(a) Digits: eight parties of one pixel row each, two of noise, two near-copies of the third and the sixth (noise of a
tenth of the pixel range); a third of the twelve is chosen, 300 queries among 1,000 rows. (b) MNIST: fourteen parties of
two pixel rows, VIMADMM-J at the settings of the other benchmarks, on all parties and on half of them. CPU seconds on
one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

import colonnade as cn
from benchmarks.settings import BATCH, METHODS, MODEL, PARTIES, VALID
from benchmarks.table import show
from colonnade.core.schedule import permutation
from colonnade.selection.distances import squared_distances
from colonnade.selection.fagin import touched_by_order, touched_by_threshold
from colonnade.selection.information import information, ranks, same_class

THIRD, SEEDS, RANDOM = 4, range(10), range(20)
QUERIES = 300
COPIED = {"copy of 3": 3, "copy of 6": 6}


def digits(seed: int) -> list[cn.Table]:
    """Eight real parties, two of noise, two near-copies."""
    tables, _ = cn.load("digits", parties=8)
    rng = np.random.default_rng(seed)
    real = [table.draw(torch.arange(table.rows)).flatten(1).numpy() for table in tables[1:]]
    more = {f"noise {k}": rng.normal(0, 0.3, real[0].shape) for k in (1, 2)}
    more |= {name: real[k - 1] + rng.normal(0, 0.1, real[0].shape) for name, k in COPIED.items()}
    plain = cn.Scale(unit=1.0)
    return [*tables, *(cn.Table(tables[0].ids, columns, name=name, scale=plain) for name, columns in more.items())]


def mistakes(selection: cn.Selection) -> int:
    """Noise parties, and copies beside their originals."""
    chosen = selection.chosen
    pairs = sum(name in chosen and f"party {k}" in chosen for name, k in COPIED.items())
    return pairs + sum(name.startswith("noise") for name in chosen)


def row_of(name: str, found: Sequence[cn.Selection]) -> list[object]:
    shares = [100 * (one.reached or 0.0) for one in found]
    mean = statistics.mean
    return [
        name,
        f"{mean(one.information or 0.0 for one in found):.3f}",
        f"{mean(one.of_all or 0.0 for one in found):.3f}",
        f"{mean(shares):.1f} ({min(shares):.1f})",
        f"{mean(map(mistakes, found)):.1f}",
        f"{mean(one.evaluations for one in found):.0f}",
        f"{mean(one.bytes for one in found) / 1e6:.1f}",
        f"{mean(one.seconds for one in found):.2f}",
    ]


def third_of_digits() -> None:
    ways: dict[str, dict[str, object]] = {
        "greedy": {"by": "greedy"},
        "greedy, blinded": {"by": "greedy", "seal": cn.Blind()},
        "groups (VF-PS), 100 tests": {"by": "groups"},
        "groups by Fagin's algorithm": {"by": "fagin"},
        "the same, blinded, 20 tests": {"by": "fagin", "tests": 20, "seal": cn.Blind()},
        "top single": {"by": "single"},
    }
    rows = []
    for name, how in ways.items():
        rows.append(row_of(name, [cn.select(digits(seed), count=THIRD, seed=seed, **how) for seed in SEEDS]))  # type: ignore[arg-type]
    at_random = [cn.select(digits(0), count=THIRD, seed=seed, by="random") for seed in RANDOM]
    head = ["chosen by", "nats", "of all 12", "% (worst)", "copies, noise", "groups", "MB", "CPU s"]
    rows += [row_of("random, seeds 0 to 19", at_random), best_of_digits()]
    show("digits, 4 of 12 parties, mean of seeds 0 to 9", head, rows)


def best_of_digits() -> list[object]:
    """What the best four of the eight real parties have, of all groups there are: more than that nobody can choose."""
    best, whole = [], []
    for seed in SEEDS:
        tables = digits(seed)
        rows, labels = sampled(tables, seed)
        each = [squared_distances(table.draw(rows), QUERIES) for table in tables[1:]]

        def nats(group: Iterable[int], each: list[Tensor] = each, labels: Tensor = labels) -> float:
            return information(ranks(torch.stack([each[k] for k in group]).sum(0)), labels).value

        best.append(max(map(nats, combinations(range(8), THIRD))))
        whole.append(nats(range(12)))
    shares = [100 * one / all_of_them for one, all_of_them in zip(best, whole, strict=True)]
    mean = statistics.mean
    numbers = [f"{mean(best):.3f}", f"{mean(whole):.3f}", f"{mean(shares):.1f} ({min(shares):.1f})"]
    return ["the best of all 70 groups", *numbers, "0.0", "70", "-", "-"]


def sampled(tables: list[cn.Table], seed: int) -> tuple[Tensor, Tensor]:
    """The rows that a selection looks at, and their labels."""
    rows = permutation(tables[0].rows, seed, "select")[:1000]
    return rows, tables[0].labels[rows]


def fagin_on_digits() -> None:
    """How many rows must be added up, for groups of real, noise and copied parties together."""
    tables = digits(0)
    sample, labels = sampled(tables, 0)
    every = torch.stack([squared_distances(table.draw(sample), QUERIES) for table in tables[1:]])
    every[:, range(QUERIES), range(QUERIES)] = torch.inf  # no row is its own neighbour
    same = same_class(labels, QUERIES)
    rows = []
    for parties in (2, 4, 8, 12):
        lists = torch.stack([ranks(one) for one in every[:parties]])
        anybody = torch.ones_like(same).fill_diagonal_(False)
        order = touched_by_order(lists, anybody, 3).float().mean()
        classes = touched_by_order(lists, same, 3).float().mean()
        threshold = touched_by_threshold(every[:parties], 3)
        rows.append([parties, *(f"{100 * float(share):.0f} %" for share in (threshold, order, classes))])
    head = ["parties", "3 nearest, by threshold", "3 nearest, by order", "what the estimator needs, by order"]
    show("digits: rows that Fagin's algorithms touch, 300 queries among 1,000 rows, seed 0", head, rows)


def half_of_mnist(epochs: int) -> None:
    rows, test = cn.load("mnist", parties=PARTIES)
    method = METHODS["vimadmm-j"]

    def trained(tables: list[cn.Table]) -> tuple[cn.Run, float]:
        began = time.process_time()
        run = cn.train(tables, method, epochs=epochs, batch=BATCH, valid=VALID, model=MODEL, seed=0)
        return run, time.process_time() - began

    whole, spent = trained(rows)
    lines: list[list[object]] = []

    def add(name: str, run: cn.Run, seconds: float, tables: list[cn.Table], selection: cn.Selection | None) -> None:
        accuracy = 100 * run.evaluate(tables)["accuracy"]
        sent = run.ledger.bytes_for("train") / 1e6
        cost = ["-", "-"] if selection is None else [f"{selection.bytes / 1e6:.1f}", f"{selection.seconds:.1f}"]
        lines.append([name, len(run.parties), f"{accuracy:.2f}", f"{sent:.0f}", f"{seconds:.0f}", *cost])
        print(lines[-1], flush=True)  # a run of minutes may be cut short

    add("all", whole, spent, test, None)
    for name, how in {
        "greedy half": {},
        "head norms of the run on all": {"by": "heads", "run": whole},
        "random half, seed 0": {"by": "random"},
        "random half, seed 1": {"by": "random", "seed": 1},
    }.items():
        selection = cn.select(rows, share=0.5, **how)  # type: ignore[arg-type]
        print(f"{name}: {', '.join(selection.chosen)}", flush=True)
        add(name, *trained(selection.tables), cn.keep(test, selection), selection)
    head = ["parties", "how many", "test accuracy %", "MB in training", "CPU s", "MB to select", "CPU s to select"]
    show(f"MNIST, VIMADMM-J, {epochs} epochs, seed 0", head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["digits", "mnist"], choices=["digits", "mnist"])
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    if "digits" in options.parts:
        third_of_digits()
        fagin_on_digits()
    if "mnist" in options.parts:
        half_of_mnist(options.epochs)
    print(f"\n{time.process_time() - began:.0f} CPU seconds in all")


if __name__ == "__main__":
    main()
