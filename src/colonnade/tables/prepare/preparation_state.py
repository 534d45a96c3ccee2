"""A preparation as plain data and arrays, and back, without pickle; a state of another version is refused."""

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
    """Plain data for JSON, and arrays, which :func:`from_state` reads."""
    numbers = preparation.numbers
    facts = {
        "format": FORMAT,
        "way": preparation.way,
        "seen": list(preparation.seen),
        "notes": list(preparation.notes),
        "numbers": [{"column": number.column, "absent": number.absent} for number in numbers],
        "categories": [
            {"column": own.column, "kept": list(own.kept), "missing": own.missing, "other": own.other}
            for own in preparation.categories
        ],
    }
    arrays = {name: np.array([getattr(number, name) for number in numbers], np.float64) for name in _FACTS}
    count = len(numbers[0].quantiles) if numbers else 0
    arrays["quantiles"] = np.array([number.quantiles for number in numbers], np.float64).reshape(len(numbers), count)
    return facts, arrays


def from_state(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Preparation:
    """The preparation of such a state."""
    written = facts.get("format") if isinstance(facts, dict) else None
    if written != FORMAT:
        raise CheckpointError(
            f"a saved preparation is of the format {written!r:.60}, not '{FORMAT}'; it is foreign or newer."
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
