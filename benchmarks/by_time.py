"""Bank marketing, which is in order of date: the same models tested on a random fifth, and on later calls.

    python -m benchmarks.by_time                  seeds 0 to 2; about three minutes of one core
    python -m benchmarks.by_time --after 2009-06 --seeds 0

Files, settings and methods are those of ``benchmarks.tables``; the owner's column `called` has each call's month. A
seed decides the networks, and which rows a random fifth has; which rows are later than a date is the same for all.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import colonnade as cn
from benchmarks.table import show
from benchmarks.tables import ALONE, EPOCHS, METHODS, OTHERS, Federations, aligned, fitted, in_one_place, scikit_learns
from benchmarks.tables import sheets_of as sheets_in

TREES = "all columns, boosted trees"
LINES = (ALONE, "vimadmm-j", TREES)
RANDOM = "a random fifth"


def auc_of(line: str, pair: Federations, seed: int) -> float:
    """The test AUC of one line of the table."""
    if line == TREES:
        whole = in_one_place(pair[0]), in_one_place(pair[1])
        return scikit_learns(OTHERS[TREES](seed), whole)["auc"]
    return fitted(METHODS[line], EPOCHS["bank"], pair, seed)["auc"]


def described(which: str, pair: Federations) -> list[str]:
    """What the two parts of a split are: rows, and how many said yes."""
    parts = [f"{part[0].rows:,} ({100 * float(part[0].labels.double().mean()):.1f} %)" for part in pair]
    return [which, *parts]


def written(found: Sequence[float]) -> str:
    return f"{statistics.mean(found):.3f} ({', '.join(f'{auc:.3f}' for auc in found)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--after", nargs="+", default=["2009-01", "2010-01"], help="first months to test on")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    splits: dict[str, dict[str, Any]] = {RANDOM: {"test": 0.2}}
    splits |= {f"from {after} on": {"split": cn.TimeSplit("called", after)} for after in options.after}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        sheets = sheets_in("bank", Path(name))
        common = aligned(sheets)
        for which, how in splits.items():
            pairs = {seed: cn.prepare(sheets, common, seed=seed, **how) for seed in options.seeds}
            cells = [written([auc_of(line, pair, seed) for seed, pair in pairs.items()]) for line in LINES]
            rows.append([*described(which, pairs[options.seeds[0]]), *cells])
    heads = ["tested on", "training rows (yes)", "test rows (yes)", *LINES]
    show(f"bank: test AUC, mean of seeds {options.seeds} (and each)", heads, rows)


if __name__ == "__main__":
    main()
