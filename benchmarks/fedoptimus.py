"""FedOptimus's Table 1 on MNIST and Fashion-MNIST: 14 parties, five owners, batch 128, ours beside the paper's.

    python -m benchmarks.fedoptimus                                     both data sets, seed 0, 2000 rounds
    python -m benchmarks.fedoptimus --data mnist --rows fedoptimus k-step --seeds 0 1 2
    python -m benchmarks.fedoptimus --alpha 0.3                         labels shared class by class, not evenly
    python -m benchmarks.fedoptimus --only-show

Strips of 2 x 28 pixels, a convolution and two linear layers at every party, two linear layers at every owner, Adam with
the paper's learning rate of 0.001 at both. A round is one batch of 128 rows at each of the five owners: 94 rounds are
an epoch; all rows of the table get the same number. Accuracy and loss are those of the first owner on the test
rows after the last round. CS is the selection of parties; "SlowMo" is the paper's damped step. Results are kept in
``--folder``, one file a run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean

import colonnade as cn
from benchmarks.kept import Found, Kept
from benchmarks.table import show
from colonnade.methods.fedoptimus import PRESETS

PARTIES, OWNERS, BATCH = 14, 5, 128
MODEL = cn.TinyCNN()
# Test accuracy in %, and loss.
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "mnist": {
        "cs+fedavg": (41.53, 7.1339),
        "cs+slowmo": (97.02, 0.1253),
        "cs+k-step": (97.32, 0.0001),
        "fedavg": (94.63, 0.0326),
        "slowmo": (97.89, 0.4937),
        "k-step": (94.58, 0.5982),
        "fedoptimus": (98.57, 0.0111),
    },
    "fashion_mnist": {
        "cs+fedavg": (57.47, 4.8803),
        "cs+slowmo": (95.34, 0.1310),
        "cs+k-step": (97.97, 0.0010),
        "fedavg": (94.59, 0.5208),
        "slowmo": (95.24, 0.5318),
        "k-step": (56.55, 5.1507),
        "fedoptimus": (98.43, 0.0013),
    },
}


class Bench:
    """Runs by row of the table, each trained once and kept."""

    def __init__(self, data: str, rounds: int, alpha: float | None, folder: Path, *, train: bool) -> None:
        self.data, self.rounds, self.alpha = data, rounds, alpha
        self.kept = Kept(folder / data / f"{rounds}-rounds{'' if alpha is None else f'-alpha-{alpha:g}'}", train=train)

    def found(self, row: str, seed: int) -> Found:
        """What a run came to, or nothing if it was not run and shall not be."""
        return self.kept(f"{row} {seed}", partial(self._run, row, seed))

    def _run(self, row: str, seed: int) -> Found:
        rows, test = cn.load(self.data, parties=PARTIES, owners=OWNERS, alpha=self.alpha, seed=seed)
        method = cn.FedOptimus.preset(row)
        began = time.process_time()
        run = cn.train(
            rows, method, rounds=self.rounds, batch=BATCH, seed=seed, model=MODEL, evaluate_every=self.rounds
        )
        spent = time.process_time() - began
        scores, steps = run.evaluate(test), run.ledger.by_step
        return {
            "accuracy": 100 * scores["accuracy"],
            "loss": scores["loss"],
            "MiB": run.ledger.bytes_for("train") / 2**20,
            "averaging": (steps.get("top", 0) + steps.get("adopt", 0)) / 2**20,
            "seconds": spent,
        }


def line(bench: Bench, row: str, seeds: list[int]) -> list[object]:
    """One row of the table, the mean over seeds, beside the paper's."""
    runs = [found for seed in seeds if (found := bench.found(row, seed))]
    accuracy, loss = PAPER[bench.data][row]

    def ours(key: str, written: Callable[[float], str]) -> str:
        return written(mean(run[key] for run in runs)) if runs else "-"

    return [
        row,
        ours("accuracy", "{:.2f}".format),
        f"{accuracy:.2f}",
        ours("loss", "{:.4f}".format),
        f"{loss:.4f}",
        ours("MiB", "{:.0f}".format),
        ours("averaging", "{:.0f}".format),
        ours("seconds", "{:.0f}".format),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--rows", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--alpha", type=float)
    parser.add_argument("--folder", type=Path, default=Path("runs/fedoptimus"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    head = ["row", "accuracy %", "paper's", "loss", "paper's", "MiB", "averaging MiB", "CPU s"]
    for data in options.data:
        bench = Bench(data, options.rounds, options.alpha, options.folder, train=not options.only_show)
        rows = [line(bench, row, options.seeds) for row in options.rows]
        shared = "labels shared evenly" if options.alpha is None else f"labels shared with alpha {options.alpha:g}"
        seeds = ", ".join(map(str, options.seeds))
        show(f"Table 1, {data}: {options.rounds} rounds, {shared}, seeds {seeds}", head, rows)


if __name__ == "__main__":
    main()
