"""Test accuracy per epoch of all methods on MNIST with the papers' settings, and MB to 96.5 %.

    python -m benchmarks.accuracy                     all methods, seeds 0 to 2, as the docs show
    python -m benchmarks.accuracy --methods vimadmm-j --seeds 0 --epochs 3

Every method is trained for its own number of epochs below, or for ``--epochs``. Results are kept in
``--folder`` as they come, one run folder each, so an interrupted benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import colonnade as cn
from benchmarks.settings import BATCH, METHODS, MODEL, PARTIES, VALID
from benchmarks.table import show

EPOCHS = {"vimadmm": 10, "vimadmm, paper's messages": 4, "vimadmm-j": 5}  # the others: 30
EVALUATE_EVERY = 10  # rounds; an epoch has 53
SHOWN = (1, 2, 3, 5, 10, 20, 30)
TARGET = 0.965
PAPER_MB = {"vafl": 6954, "vimsgd": 3825, "vimadmm, paper's messages": 700}
# The authors' code on the same data, one seed; shared/notes has how it was run.
AUTHORS = {
    "vafl": {1: 74.94, 2: 91.78, 3: 93.54, 5: 94.68, 10: 95.74, 20: 96.70, 30: 97.00},
    "vimsgd": {1: 92.11, 2: 94.25, 3: 94.94, 5: 95.54, 10: 96.08, 20: 96.58, 30: 96.60},
    "fdml": {1: 92.67, 2: 94.45, 3: 95.21, 5: 95.74, 10: 96.39, 20: 96.98, 30: 97.05},
    "vimadmm": {1: 96.37, 2: 96.46, 3: 96.55, 5: 96.78, 10: 96.93},
    "vimadmm-j": {1: 96.99, 2: 97.12, 3: 97.08, 5: 97.15},
}


def trained(name: str, seed: int, epochs: int, folder: Path) -> list[dict[str, float]]:
    """The history of one run, from its folder if it is there already."""
    place = folder / re.sub(r"[^a-z]+", "-", name) / str(seed)
    train, test = cn.load("mnist", parties=PARTIES)
    if (place / "config.json").exists():
        run = cn.resume(place, epochs=epochs, test=test)
    else:
        run = cn.train(
            train,
            METHODS[name],
            epochs=epochs,
            batch=BATCH,
            seed=seed,
            valid=VALID,
            test=test,
            model=MODEL,
            evaluate_every=EVALUATE_EVERY,
            folder=place,
        )
    return run.history


def accuracy_at(history: list[dict[str, float]], epoch: int) -> float | None:
    """At the last evaluation within the epoch, if training got that far."""
    found = [row["test_accuracy"] for row in history if row["epoch"] <= epoch]
    return 100 * found[-1] if found and history[-1]["epoch"] >= epoch else None


def megabytes_to(history: list[dict[str, float]], target: float) -> tuple[float, float] | None:
    """Training MiB and rounds at the first evaluation that reaches the target."""
    for row in history:
        if row["test_accuracy"] >= target:
            return row["bytes"] / 2**20, row["round"]
    return None


def mean(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}" if len(known) == len(values) and known else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--folder", type=Path, default=Path("runs/accuracy"))
    options = parser.parse_args()
    histories = {}
    for name in options.methods:
        epochs = options.epochs or EPOCHS.get(name, 30)
        histories[name] = [trained(name, seed, epochs, options.folder) for seed in options.seeds]
        last = ", ".join(f"{100 * history[-1]['test_accuracy']:.2f}" for history in histories[name])
        print(f"{name}: {last} %", flush=True)
    rows = []
    for name, found in histories.items():
        rows.append([name, *(mean([accuracy_at(h, epoch) for h in found]) for epoch in SHOWN)])
        if name in AUTHORS:
            rows.append(["  authors' code, one seed", *(AUTHORS[name].get(epoch, "-") for epoch in SHOWN)])
    show(f"MNIST test accuracy in %, mean of seeds {options.seeds}, at epoch", ["method", *map(str, SHOWN)], rows)
    show_megabytes(histories)


def show_megabytes(histories: dict[str, list[list[dict[str, float]]]]) -> None:
    rows = []
    for name, found in histories.items():
        reached = [megabytes_to(history, TARGET) for history in found]
        known = [pair for pair in reached if pair is not None]
        if len(known) < len(found):
            cells = [f"not in {len(found) - len(known)} of {len(found)} runs", "-"]
        else:
            cells = [f"{sum(mb for mb, _ in known) / len(known):.0f}", f"{sum(r for _, r in known) / len(known):.0f}"]
        rows.append([name, *cells, PAPER_MB.get(name, "-")])
    show("(c) MiB on the wire until 96.5 % on MNIST", ["method", "MiB", "rounds", "paper's MB"], rows)


if __name__ == "__main__":
    main()
