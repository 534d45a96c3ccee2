"""The methods, options and data sets on which declarations are compared with audits."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import colonnade as cn

ROWS = 1200
"""Of the data sets that are larger."""
METHODS = {
    "aggvfl": [{}],
    "apfed": [{}, {"loss": "contrastive"}],
    "cvfl": [{}],
    "fdml": [{}],
    "fedbcd": [{}, {"combine": "sum"}],
    "fedoptimus": [{}],
    "gal": [{"learner": "linear"}],
    "laser": [{}],
    "local": [{}],
    "multivfl": [{}],
    "oneshot": [{"learner": "linear", "top": "linear"}],
    "splitnn": [{}],
    "tvfl": [{}],
    "vafl": [{}, {"learn_weights": False}],
    "vfedmh": [{}],
    "vimadmm": [{}],
    "vimadmm-j": [{}],
    "vimsgd": [{}],
}
DATA = ("digits", "breast_cancer", "wine")
CASES = [(data, name, number) for data in DATA for name, options in METHODS.items() for number in range(len(options))]
if (Path(os.environ.get("COLONNADE_DATA", "")) / "credit_default.csv.gz").exists():
    CASES.append(("credit_default", "gal", 0))  # whose residuals tell of others' columns only where these say much
FEW = [("breast_cancer", "local", 0), ("breast_cancer", "splitnn", 0), ("wine", "vimadmm-j", 0)]
"""For the ordinary run; the others are long."""


@cache
def wine() -> tuple[np.ndarray, np.ndarray]:
    """Chemistry of wines and their three growers, as scikit-learn ships it; each wine several times, measured anew."""
    from sklearn.datasets import load_wine

    found = load_wine()
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(found.target), 600)
    scaled = (found.data - found.data.mean(0)) / found.data.std(0)
    return (scaled[rows] + 0.3 * rng.standard_normal((600, scaled.shape[1]))).astype(np.float32), found.target[rows]


def tables(data: str, method: type[cn.Method]) -> list[cn.Table]:
    """A federation that the method can train on."""
    owner = "first" if method.needs_owner_columns else "labels"
    if data == "wine":
        columns, labels = wine()
        return cn.split(columns, labels, 3, owner=owner)
    rows = {"digits": ROWS, "credit_default": 2000}.get(data)
    train, _ = cn.load(data, 3 if data == "digits" else None, owner=owner, rows=rows)
    return [replace(table, origin=None) for table in train]


def trained(data: str, name: str, number: int) -> tuple[cn.Run, list[cn.Table]]:
    """A short run of a method with some of its options, recorded."""
    method = cn.methods()[name]
    rows = tables(data, method)
    if method.several_owners:
        rows = cn.share(rows, 2)
    return cn.train(rows, method(**METHODS[name][number]), rounds=40, record=True), rows
