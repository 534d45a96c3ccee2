"""What several cores give: groups of parties at once, and torch's own threads within every operation.

Three kinds of work, each on one core, on ``--cores`` cores by groups, and with as many threads within operations, by
turns: VIMADMM on MNIST (14 parties, batch 1024, tau 20), splitnn on a table (4 parties, batch 256) and one message of
boosted trees (4 parties, 20,000 rows). CPU and wall seconds as ratios to one core, of medians. Wall ratios mean
something on an idle machine only; the load is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

import torch

import colonnade as cn
from benchmarks.sgd_rounds import table
from benchmarks.speed import prepared, step
from benchmarks.table import show
from colonnade.run.training import Run
from colonnade.runtime.cores import keep_to
from colonnade.runtime.local_backend import LocalBackend


class Way(NamedTuple):
    """How many cores are used by groups at once, and how many by threads within an operation."""

    groups: int
    threads: int


class Seconds(NamedTuple):
    """What some work took."""

    cpu: float
    wall: float


def measured(work: Callable[[], object]) -> Seconds:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall)


@contextmanager
def using(threads: int):  # type: ignore[no-untyped-def]
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(1)


def rounds(make: Callable[[], Run], way: Way, count: int) -> Callable[[], None]:
    keep_to(way.groups)
    run = make()
    assert isinstance(run.parties.backend, LocalBackend)
    one = step(run)

    def work() -> None:
        with using(way.threads):
            for _ in range(count):
                one()

    return work


def splitnn() -> Run:
    return cn.train(table(), cn.SplitNN(), rounds=2, batch=256)


def message(way: Way) -> Callable[[], object]:
    return lambda: cn.train(table(), "oneshot", threads=way.threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    mnist, _ = cn.load("mnist", parties=14)
    ways = {
        "one core": Way(1, 1),
        f"{options.cores} groups at once": Way(options.cores, 1),
        f"{options.cores} threads within": Way(1, options.cores),
    }
    works: dict[str, Callable[[Way], Callable[[], object]]] = {
        "vimadmm, MNIST": lambda way: rounds(lambda: prepared("fused", mnist), way, 1),
        "splitnn, a table": lambda way: rounds(splitnn, way, 50),
        "oneshot, a table": message,
    }
    rows = []
    for name, make in works.items():
        work = {key: make(way) for key, way in ways.items()}
        times: dict[str, list[Seconds]] = {key: [] for key in work}
        for _ in range(options.repeats):
            for key, one in work.items():
                times[key].append(measured(one))
        median = {key: Seconds(*map(statistics.median, zip(*values, strict=True))) for key, values in times.items()}
        first = median["one core"]
        rows += [
            [name, key, f"{found.cpu:.3f}", f"{found.cpu / first.cpu:.2f}", f"{found.wall / first.wall:.2f}"]
            for key, found in median.items()
        ]
    show("Cores", ["work", "how", "CPU s", "CPU to one core", "wall to one core"], rows)
    print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
