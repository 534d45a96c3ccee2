"""VFedMH's Tables II, III and IV on MNIST and Fashion-MNIST: four parties, batch 128, ours beside the paper's.

    python -m benchmarks.vfedmh                             both data sets, seed 0, five epochs
    python -m benchmarks.vfedmh --data mnist --epochs 2 --tables II
    python -m benchmarks.vfedmh --only-show

Four strips of 7 x 28 pixels; the owner holds the first strip and the labels. Learning rate 0.05 with momentum 0.9 (the
paper names none), all 60,000 rows, accuracy on the test rows after the last epoch. VFedMH runs blinded. Its mixed
federation is CNN, LeNet, MLP, MLP, of which the first three give the columns. Results are kept in ``--folder``, one
file a run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.table import show

BATCH, LR = 128, 0.05
MODELS = {"CNN": cn.SmallCNN(), "LeNet": cn.LeNet(), "MLP": cn.MLP((120,))}
MIXED = [MODELS["CNN"], MODELS["LeNet"], MODELS["MLP"], MODELS["MLP"]]
# The paper's learning rate is one for all optimisers; Adagrad and Adam have usual ones of their own here.
OPTIMIZERS = {
    "SGD": cn.SGD(LR, 0.0),
    "SGD_Momentum": cn.SGD(LR, 0.9),
    "Adagrad": cn.Adagrad(0.01),
    "Adam": cn.Adam(0.001),
}
PAPER: dict[str, dict[str, tuple[float, float, float]]] = {
    "mnist": {
        "Local": (23.47, 35.57, 31.89),
        "Pyvertical": (65.36, 49.56, 78.86),
        "C_VFL": (89.71, 94.72, 95.33),
        "Agg_VFL (Homo_aggVFL)": (91.72, 86.03, 95.71),
        "Heter_aggVFL": (36.29, 45.15, 68.78),
        "Homo_VFedMH": (96.05, 98.61, 96.57),
        "VFedMH": (97.58, 97.87, 97.73),
        "SGD": (91.50, 96.48, 95.96),
        "SGD_Momentum": (91.65, 96.67, 95.92),
        "Adagrad": (91.34, 96.68, 95.93),
        "Adam": (91.25, 96.67, 95.31),
    },
    "fashion_mnist": {
        "Local": (65.55, 76.24, 70.40),
        "Pyvertical": (72.62, 76.34, 73.86),
        "C_VFL": (83.92, 84.32, 84.53),
        "Agg_VFL (Homo_aggVFL)": (84.37, 84.68, 84.37),
        "Heter_aggVFL": (45.45, 70.04, 42.82),
        "Homo_VFedMH": (86.42, 90.45, 86.57),
        "VFedMH": (87.78, 88.33, 88.08),
        "SGD": (85.86, 84.14, 86.45),
        "SGD_Momentum": (85.76, 83.88, 86.19),
        "Adagrad": (85.48, 84.23, 86.44),
        "Adam": (float("nan"), 84.06, 86.02),
    },
}
Scores = dict[str, float]  # by party or "all": test accuracy in %, with "MiB" and "seconds" beside


class Bench:
    """Runs by name, each trained once and kept."""

    def __init__(self, data: str, epochs: int, seed: int, folder: Path, *, train: bool) -> None:
        self.data, self.epochs, self.seed = data, epochs, seed
        self.kept = Kept(folder / data / f"{epochs}-epochs", train=train)
        self._rows: Any = None

    def scores(self, name: str, method: cn.Method, model: Any, **more: Any) -> Scores:
        """The accuracies of a run, or nothing if it was not run and shall not be."""
        return self.kept(f"{name} {self.seed}", partial(self._run, method, model, **more))

    def _run(self, method: cn.Method, model: Any, **more: Any) -> Scores:
        self._rows = self._rows or cn.load(self.data, parties=4, by="rows", owner="first")
        rows, test = self._rows
        began = time.process_time()
        run = cn.train(rows, method, epochs=self.epochs, batch=BATCH, seed=self.seed, model=model, **more)
        spent = time.process_time() - began
        found = {"all": 100 * run.evaluate(test)["accuracy"]}
        if isinstance(method, cn.VFedMH):
            found |= {str(k): 100 * one["accuracy"] for k, one in enumerate(run.evaluate_each(test).values())}
        return found | {"MiB": run.ledger.bytes_for("train") / 2**20, "seconds": spent}

    def per_model(self, name: str, method: cn.Method, **more: Any) -> list[float | None]:
        """One homogeneous run per kind of model."""
        runs = [self.scores(f"{name} {kind}", method, model, **more) for kind, model in MODELS.items()]
        return [run.get("all") for run in runs]


def vfedmh(**options: Any) -> cn.VFedMH:
    return cn.VFedMH(lr=LR, **options)


def table_two(bench: Bench) -> dict[str, list[float | None]]:
    mixed = bench.scores("VFedMH mixed", vfedmh(), MIXED, seal=cn.Blind())
    return {
        "Local": bench.per_model("Local", cn.Local(lr=LR)),
        "Pyvertical": bench.per_model("SplitNN", cn.SplitNN(lr=LR)),
        "C_VFL": bench.per_model("C_VFL", cn.CVFL(lr=0.02, local_steps=2), seal=cn.Bits(8)),
        "Agg_VFL (Homo_aggVFL)": bench.per_model("Agg_VFL", cn.AggVFL(lr=LR)),
        "VFedMH": [mixed.get(str(k)) for k in range(3)],
    }


def table_three(bench: Bench) -> dict[str, list[float | None]]:
    one = bench.scores("Agg_VFL mixed", cn.AggVFL(lr=LR), MIXED).get("all")
    return {
        "Heter_aggVFL": [one] * 3,
        "Homo_VFedMH": bench.per_model("VFedMH", vfedmh(), seal=cn.Blind()),
    }


def table_four(bench: Bench) -> dict[str, list[float | None]]:
    runs = [
        bench.scores(f"VFedMH optimisers {kind}", vfedmh(), model, optimizer=list(OPTIMIZERS.values()), seal=cn.Blind())
        for kind, model in MODELS.items()
    ]
    return {name: [run.get(str(k)) for run in runs] for k, name in enumerate(OPTIMIZERS)}


def local_steps(bench: Bench) -> None:
    """Beyond the paper: several local steps per round, at the same epochs and at the same bytes."""
    rows = []
    for steps, lr in ((1, 0.05), (1, 0.1), (3, 0.05), (3, 0.02), (5, 0.02), (5, 0.01)):
        found = bench.scores(f"VFedMH MLP steps {steps} lr {lr}", cn.VFedMH(lr=lr, local_steps=steps), MODELS["MLP"])
        rows.append(
            [steps, lr, written(found.get("all")), f"{found.get('MiB', 0):.0f}", f"{found.get('seconds', 0):.0f}"]
        )
    show(f"{bench.data}: VFedMH with local steps, MLP", ["local steps", "lr", "accuracy %", "MiB", "CPU s"], rows)


TABLES: dict[str, Callable[[Bench], dict[str, list[float | None]]]] = {
    "II": table_two,
    "III": table_three,
    "IV": table_four,
}


def written(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--tables", nargs="+", default=[*TABLES, "steps"], choices=[*TABLES, "steps"])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/vfedmh"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    for data in options.data:
        bench = Bench(data, options.epochs, options.seed, options.folder, train=not options.only_show)
        for number in options.tables:
            if number == "steps":
                local_steps(bench)
                continue
            rows = []
            for name, ours in TABLES[number](bench).items():
                rows.append([name, *map(written, ours), *map(written, PAPER[data][name])])
            head = ["method", *(f"{kind}, ours" for kind in MODELS), *(f"{kind}, paper" for kind in MODELS)]
            show(
                f"Table {number}, {data}: test accuracy in %, {options.epochs} epochs, seed {options.seed}", head, rows
            )


if __name__ == "__main__":
    main()
