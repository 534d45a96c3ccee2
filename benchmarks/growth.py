"""How cost grows with rows, parties, columns, classes, and the processes of a federation: time, bytes, memory.

    python -m benchmarks.growth                                             all
    python -m benchmarks.growth --axes parties classes
    python -m benchmarks.growth --folder benchmarks/results/growth --only-show

Every cell is a process of its own (of the last axis: one for each side), so that its peak memory is that cell's alone.
Seconds are CPU seconds, so other programs on the machine count little. *start* is from the tables to the end of the
first round; *round* is the mean of the rounds after it; *evaluate* is all rows once. An exponent says how a cost grew
since the line above: 1.00 is linear, above 1.15 it is marked with "!". Cells are kept in ``--folder``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.sides import OWNER, Trial
from benchmarks.table import show

BLIND = "vimadmm-j, Blind, Bits(4)"
SEALS = {BLIND: [cn.Blind(), cn.Bits(4)]}
COSTS = {"start": "CPU s to start", "round": "CPU ms a round", "evaluate": "CPU s to evaluate", "bytes": "MB a round"}
SCALE = {"round": 1000.0, "bytes": 1e-6, "setup": 1e-3}
STEEP, SLACK = 1.15, 600
FEDERATION_ROUNDS = 10


@dataclass(frozen=True)
class Size:
    """One size of a job."""

    rows: int = 10_000
    parties: int = 2
    columns: int = 10
    """Of each party."""
    classes: int = 2


@dataclass(frozen=True)
class Axis:
    """What grows, from least to most, with which methods, and over how many rounds a cell is timed."""

    name: str
    sizes: Sequence[int]
    methods: Sequence[str]
    rounds: int = 20
    base: Size = Size()

    def at(self, size: int) -> Size:
        """The job of this size; the others stay as they are."""
        return replace(self.base, **{self.name: size})


AXES = {
    axis.name: axis
    for axis in (
        Axis("rows", (10_000, 100_000, 1_000_000, 10_000_000), ("vafl", "vimadmm-j")),
        Axis("parties", (2, 5, 10, 20, 50, 100, 200), ("vafl", "vimadmm-j", BLIND), 6),
        Axis("columns", (10, 100, 1_000, 10_000), ("vafl", "vimadmm-j"), 6),
        Axis("classes", (2, 10, 100, 1_000), ("vafl", "vimadmm", "vimadmm-j"), 6),
    )
}
PROCESSES = (2, 5, 10, 20, 40)


def tables_of(size: Size) -> list[cn.Table]:
    """Rows drawn at random."""
    draw = torch.Generator().manual_seed(0)
    columns = torch.randn(size.rows, size.parties * size.columns, generator=draw)
    labels = torch.randint(size.classes, (size.rows,), generator=draw)
    labels[: size.classes] = torch.arange(size.classes)
    return cn.split(columns, labels, parties=size.parties)


def cell(axis: Axis, size: int, method: str) -> Found:
    """What one run costs."""
    tables, marks, began = tables_of(axis.at(size)), list[float](), time.process_time()
    run = cn.train(
        tables,
        method.split(",")[0],
        seal=SEALS.get(method),
        rounds=axis.rounds + 2,
        batch=1024,
        evaluate_every=axis.rounds + 2,
        on_round=lambda _: marks.append(time.process_time()),
    )
    trained = time.process_time()
    run.evaluate(tables)
    return {
        "start": marks[0] - began,
        "round": (marks[-2] - marks[0]) / axis.rounds,
        "evaluate": time.process_time() - trained,
        "bytes": run.ledger.bytes_for("train") / run.round,
        "setup": float(run.ledger.bytes_for("setup")),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def apart(axis: Axis, size: int, method: str) -> Found:
    """A cell in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", "--cell", axis.name, str(size), method]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the cell {axis.name} {size} {method} failed: {done.stderr[-2000:]}")
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


# A federation's processes


def federated(processes: int) -> Found:
    """A federation of so many processes on this machine, as its operators start it, from the start to the end."""
    names = [f"party{k}" for k in range(1, processes)]
    with TemporaryDirectory() as place:
        trial = Trial(Path(place), rounds=FEDERATION_ROUNDS, deadline=SLACK, patience=SLACK, parties=names)
        began = time.monotonic()
        sides = {name: _start(trial, name) for name in (OWNER, *names)}
        used = {name: os.wait4(side.pid, 0) for name, side in sides.items()}
        seconds = time.monotonic() - began
        for name, (_, status, _) in used.items():
            if status:
                raise SystemExit(f"'{name}' ended with {status}: {trial.words(name)[-2000:]}")
    usage = {name: found for name, (_, _, found) in used.items()}
    cpu = {name: found.ru_utime + found.ru_stime for name, found in usage.items()}
    parties = [cpu[name] for name in names]
    return {
        "owner": cpu[OWNER],
        "a party": sum(parties) / len(parties),
        "all": sum(cpu.values()),
        "seconds": seconds,
        "owner's MB": usage[OWNER].ru_maxrss / 1024,
        "a party's MB": max(usage[name].ru_maxrss for name in names) / 1024,
    }


def _start(trial: Trial, name: str) -> subprocess.Popen[bytes]:
    with (trial.folder / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "colonnade", *trial.command(name)]
        return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})


# Tables


def exponent(before: tuple[int, float] | None, now: tuple[int, float]) -> str:
    """How a cost grew since a smaller size, as a power of the size.

    >>> exponent((10, 1.0), (100, 10.0)), exponent((10, 1.0), (20, 4.0))
    ('1.00', '2.00!')
    """
    if before is None or min(before[1], now[1]) <= 0:
        return ""
    power = math.log(now[1] / before[1]) / math.log(now[0] / before[0])
    return f"{power:.2f}" + "!" * (power > STEEP)


def shown(costs: Mapping[str, str], found: Sequence[tuple[int, Found]]) -> list[list[str]]:
    """Every size with its costs, each with its exponent."""
    rows, before = [], dict[str, tuple[int, float]]()
    for size, one in found:
        row = [f"{size:,}"]
        for cost in costs:
            row.append(f"{SCALE.get(cost, 1.0) * one[cost]:,.2f}")
            row.append(exponent(before.get(cost), (size, one[cost])))
            before[cost] = size, one[cost]
        rows.append(row)
    return rows


def header(costs: Mapping[str, str]) -> list[str]:
    """Names of costs, with a column for the exponent of each."""
    return [name for cost in costs.values() for name in (cost, "^")]


def show_axis(kept: Kept, axis: Axis) -> None:
    """One table for each method."""
    for method in axis.methods:
        costs = {**COSTS, **({"setup": "kB of keys"} if method in SEALS else {}), "peak": "peak MB"}
        each = [(size, kept(f"{axis.name} {size} {method}", partial(apart, axis, size, method))) for size in axis.sizes]
        there = [(size, found) for size, found in each if found]
        if there:
            show(f"{axis.name}, {method}", [axis.name, *header(costs)], shown(costs, there))


def show_processes(kept: Kept, counts: Sequence[int]) -> None:
    """The table of a federation's processes."""
    costs = {"owner": "owner's CPU s", "a party": "a party's CPU s", "all": "CPU s of all"}
    costs |= {"seconds": "s on this machine", "owner's MB": "owner's MB", "a party's MB": "a party's MB"}
    each = [(count, kept(f"processes {count}", partial(federated, count))) for count in counts]
    there = [(count, found) for count, found in each if found]
    if there:
        title = f"processes of a federation, {FEDERATION_ROUNDS} rounds of vimadmm, start-up and end included"
        show(title, ["processes", *header(costs)], shown(costs, there))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*AXES, "processes"]
    parser.add_argument("--axes", nargs="+", choices=names, default=names)
    parser.add_argument("--methods", nargs="+", help="only these; all that an axis has without it")
    parser.add_argument("--most", type=int, help="no larger size than this")
    parser.add_argument("--folder", type=Path, default=Path("runs/growth"))
    parser.add_argument("--only-show", action="store_true")
    parser.add_argument("--cell", nargs=3, metavar=("AXIS", "SIZE", "METHOD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        axis, size, method = options.cell
        print(json.dumps(cell(AXES[axis], int(size), method)))
        return
    kept = Kept(options.folder, train=not options.only_show)
    for name in options.axes:
        if name == "processes":
            show_processes(kept, [count for count in PROCESSES if count <= (options.most or count)])
        else:
            axis = AXES[name]
            methods = [method for method in axis.methods if method in (options.methods or axis.methods)]
            sizes = [size for size in axis.sizes if size <= (options.most or size)]
            show_axis(kept, replace(axis, sizes=sizes, methods=methods))


if __name__ == "__main__":
    main()
