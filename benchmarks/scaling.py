"""Time, bytes and memory against parties and rows: all linear; and a 100-party MNIST run's peak memory.

Each cell is a process of its own, so that peak memory is that cell's alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import colonnade as cn
from benchmarks.table import show

WIDTH = 14  # pixels per party, overlapping, as the paper's 100-party experiment


def cell(method: str, parties: int, rows: int, rounds: int) -> dict[str, float]:
    """One run's CPU seconds per round, bytes per round and peak memory."""
    train, _ = cn.load("mnist", parties=parties, by="overlap", width=WIDTH, rows=rows)
    marks: list[float] = []
    run = cn.train(
        train,
        method,
        rounds=rounds + 1,
        batch=1024,
        evaluate_every=rounds + 1,
        on_round=lambda _: marks.append(time.process_time()),
    )
    return {
        "seconds": (marks[-1] - marks[0]) / rounds,
        "bytes": run.ledger.bytes_for("train") / run.round,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def apart(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scaling", "--cell", *map(str, arguments)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", nargs=4, metavar=("METHOD", "PARTIES", "ROWS", "ROUNDS"))
    options = parser.parse_args()
    if options.cell:
        method, *numbers = options.cell
        print(json.dumps(cell(method, *map(int, numbers))))
        return
    rows = []
    for method, rounds in (("vafl", 8), ("vimadmm-j", 3)):
        for parties in (10, 20, 50, 100):
            found = apart(method, parties, 60000, rounds)
            per = 1000 * found["seconds"] / parties
            mib = found["bytes"] / 2**20
            rows.append([method, parties, f"{per:.2f}", f"{mib / parties:.3f}", f"{mib:.1f}", f"{found['peak']:.0f}"])
    header = ["method", "parties", "CPU ms per party", "MiB per party", "MiB in all", "peak memory, MB"]
    show("one round of 1024 rows on MNIST", header, rows)
    rows = []
    for count in (15000, 30000, 60000):
        found = apart("vafl", 14, count, 8)
        epoch = count / 1024
        rows.append(
            [count, f"{found['seconds'] * epoch:.2f}", f"{found['bytes'] * epoch / 2**20:.0f}", f"{found['peak']:.0f}"]
        )
    show("one epoch of vafl, 14 parties", ["rows", "CPU s", "MiB", "peak memory, MB"], rows)


if __name__ == "__main__":
    main()
