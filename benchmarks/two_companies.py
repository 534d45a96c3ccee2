"""What protecting the diagnoses costs the job of docs/two_companies.md: ``python -m benchmarks.two_companies``.

The tables are those of ``examples/federation/make_tables.py``, aligned and prepared as in the job but in one process:
10 epochs of batches of 64 of ``splitnn``, or one message. Every row is the mean of five seeds of cut and training.
"""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn

EXAMPLE = Path(__file__).parents[1] / "examples" / "federation" / "make_tables.py"
SEEDS = range(5)
WAYS: dict[str, tuple[cn.Method, float | None]] = {
    "splitnn": (cn.SplitNN(), None),
    "splitnn, labels at epsilon 4": (cn.SplitNN(), 4.0),
    "splitnn, labels at epsilon 2": (cn.SplitNN(), 2.0),
    "splitnn, labels at epsilon 1": (cn.SplitNN(), 1.0),
    "oneshot, labels at epsilon 2": (cn.OneShot(), 2.0),
    "oneshot, no label sent (pca)": (cn.OneShot(learn="pca"), None),
    "local": (cn.Local(), None),
}


def sheets(folder: Path) -> list[cn.Sheet]:
    """Both sides' tables as they come from their files."""
    write_table = runpy.run_path(str(EXAMPLE))["write_table"]
    clinic, lab = (write_table(side, folder) for side in ("clinic", "lab"))
    return [cn.read(clinic, name="clinic", id="patient", label="diagnosis"), cn.read(lab, name="lab", id="sample")]


def scores(both: list[cn.Sheet], method: cn.Method, epsilon: float | None, seed: int) -> tuple[float, float]:
    """Accuracy and AUC on the test rows."""
    train, test = cn.prepare(both, cn.align(both, mode="plain"), test=0.2, seed=seed)
    how: dict[str, Any] = {} if method.name == "oneshot" else {"epochs": 10, "batch": 64}
    seal = None if epsilon is None else cn.RandomLabels(epsilon=epsilon)
    found = cn.train(train, method, seed=seed, seal=seal, **how).evaluate(test)
    return found["accuracy"], found["auc"]


def main() -> None:
    """Print a row for every way."""
    print("| way | accuracy | AUC |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        both = sheets(Path(folder))
        for name, (method, epsilon) in WAYS.items():
            accuracy, auc = np.mean([scores(both, method, epsilon, seed) for seed in SEEDS], axis=0)
            print(f"| {name} | {accuracy:.3f} | {auc:.3f} |", flush=True)


if __name__ == "__main__":
    main()
