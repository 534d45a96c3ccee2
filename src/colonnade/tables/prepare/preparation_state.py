"""A preparation as plain data and arrays, and back: no pickle, and nothing of another version is guessed at."""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.errors import CheckpointError
from colonnade.tables.prepare.categories import WAYS, Category
from colonnade.tables.prepare.numbers import Number
from colonnade.tables.prepare.preparation import Preparation

FORMAT = "colonnade-preparation-1"
_FACTS = ("median", "mean", "deviation")  # one number per column each, kept as float64


def to_state(preparation: Preparation) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What :func:`from_state` reads; the first part is JSON's."""
    numbers = preparation.numbers
    facts = {
        "format": FORMAT,
        "way": preparation.way,
        "seen": list(preparation.seen),
        "notes": list(preparation.notes),
        "numbers": [{"column": one.column, "absent": one.absent} for one in numbers],
        "categories": [
            {"column": one.column, "kept": list(one.kept), "missing": one.missing, "other": one.other}
            for one in preparation.categories
        ],
    }
    arrays = {name: np.array([getattr(one, name) for one in numbers], np.float64) for name in _FACTS}
    count = len(numbers[0].quantiles) if numbers else 0
    arrays["quantiles"] = np.array([one.quantiles for one in numbers], np.float64).reshape(len(numbers), count)
    return facts, arrays


def from_state(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Preparation:
    """The preparation again, exactly as it was."""
    came = facts.get("format") if isinstance(facts, dict) else None
    if came != FORMAT:
        raise CheckpointError(
            f"a saved preparation is of the format {came!r:.60}, not '{FORMAT}'; it is foreign or newer."
        )
    try:
        numbers = tuple(_number(entry, k, arrays) for k, entry in enumerate(facts["numbers"]))
        categories = tuple(_category(entry) for entry in facts["categories"])
        names = tuple(map(str, facts["seen"])), tuple(map(str, facts["notes"]))
        fits = facts["way"] in WAYS and all(len(arrays[name]) == len(numbers) for name in (*_FACTS, "quantiles"))
        finite = all(np.isfinite(arrays[name]).all() for name in (*_FACTS, "quantiles"))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CheckpointError(f"a saved preparation is damaged: {error!r:.100}; train again.") from error
    if not (fits and finite):
        raise CheckpointError("a saved preparation is damaged: its arrays do not fit its columns; train again.")
    return Preparation(numbers, categories, facts["way"], *names)


def _number(entry: dict[str, Any], k: int, arrays: dict[str, np.ndarray]) -> Number:
    median, mean, deviation = (float(arrays[name][k]) for name in _FACTS)
    return Number(
        str(entry["column"]), median, bool(entry["absent"]), mean, deviation, np.array(arrays["quantiles"][k])
    )


def _category(entry: dict[str, Any]) -> Category:
    kept = tuple(map(str, entry["kept"]))
    return Category(str(entry["column"]), kept, bool(entry["missing"]), bool(entry["other"]))
