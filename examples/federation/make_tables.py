"""Writes the table of one side of the example: a clinic and a laboratory that know the same people.

    python make_tables.py clinic        writes clinic.csv: patient, ten columns, the diagnosis
    python make_tables.py lab           writes lab.csv: sample, twenty columns

The numbers are real: the 569 biopsies of the Wisconsin breast cancer data set, which comes with scikit-learn. The ids
are made up. Each side knows nine people in ten and has them in an order of its own.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

SIDES = {"clinic": ("patient", slice(0, 10)), "lab": ("sample", slice(10, 30))}
KNOWN = 0.9


def write_table(side: str, folder: Path) -> Path:
    """Write one side's CSV and say where."""
    data = load_breast_cancer()
    id_name, columns = SIDES[side]
    generator = np.random.default_rng(list(SIDES).index(side))
    people = generator.permutation(len(data.data))[: int(KNOWN * len(data.data))]
    path = folder / f"{side}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [str(name).replace(" ", "_") for name in data.feature_names[columns]]
        writer.writerow([id_name, *names, *(["diagnosis"] if side == "clinic" else [])])
        for person in people:
            label = [str(data.target_names[data.target[person]])] if side == "clinic" else []
            writer.writerow([f"P-{person:04d}", *data.data[person, columns], *label])
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write one side's table of the example.")
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    chosen = parser.parse_args()
    print(write_table(chosen.side, chosen.folder))
