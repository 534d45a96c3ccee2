"""What adversaries of small real runs have, for tests of attacks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from benchmarks.attack_materials import materials_of

import colonnade as cn
from colonnade.privacy.material import Array, Material


@cache
def breast_cancer(method: Any, owner: str = "labels") -> dict[tuple[str, str], Material]:
    """Three rounds of four of 455 people; with ``owner="first"`` the owner has the columns of the first party."""
    train, _ = cn.load("breast_cancer", **({"owner": owner} if owner == "first" else {}))
    return materials_of(train, method)


@cache
def digits(method: Any) -> dict[tuple[str, str], Material]:
    """Two parties with half of each picture, ten classes, three epochs."""
    train, _ = cn.load("digits", parties=2)
    return materials_of(train, method, rounds=18, batch=256)


def table_federation(columns: Array, labels: Array) -> list[cn.Table]:
    """An owner with these labels, and two parties with half of the columns each."""
    ids = np.arange(len(columns))
    halves = np.array_split(((columns - columns.mean(0)) / columns.std(0)).astype(np.float32), 2, axis=1)
    owner = cn.Table(ids=ids, labels=labels, name="owner")
    return [owner, *(cn.Table(ids=ids, columns=half, name=f"half {k}") for k, half in enumerate(halves))]


@cache
def diabetes(method: Any) -> dict[tuple[str, str], Material]:
    """Values: how far the disease of 442 people went."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    return materials_of(table_federation(data.data, (data.target / 7 + 0.05).astype(np.float32)), method)


@cache
def three_labels(method: Any) -> dict[tuple[str, str], Material]:
    """Several labels: three bits of which digit it is, by 64 pixels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    bits = np.stack([data.target >> place & 1 for place in range(3)], axis=1).astype(np.float32)
    kept = data.data.std(0) > 0
    return materials_of(table_federation(data.data[:600, kept] + 1e-3, bits[:600]), method, task="several")
