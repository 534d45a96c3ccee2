"""Words, terms and plans that are signed and wrong: a small count of ``python -m benchmarks.hostile_words``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import hostile_words
from benchmarks.hostile_words import MOST_MB, attack

import near

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")


def test_no_mutated_word_is_accepted_and_none_ends_a_party(tmp_path: Path) -> None:
    """The control is within: the true words between the mutated ones are accepted, and the job goes on to its end."""
    tally = attack(400, 1, tmp_path, near)
    assert tally.tried.total() > 250 and min(tally.tried[word] for word in ("hello", "terms", "plan", "begin")) > 0
    assert not tally.accepted and not tally.crashed and not tally.unnamed
    assert tally.most_mb <= MOST_MB  # CPU time is the benchmark's: here others may want the cores


def test_no_mutated_word_of_a_description_is_accepted(tmp_path: Path) -> None:
    tally = attack(300, 2, tmp_path, near, describe=True)
    assert tally.tried.total() > 150 and min(tally.tried[word] for word in ("hello", "terms", "plan", "begin")) > 0
    assert not tally.accepted and not tally.crashed and not tally.unnamed and tally.most_mb <= MOST_MB


def test_another_sides_network_is_a_usual_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the terms name no network; which columns of another are codes is the owner's word, and no more."""
    networks: list[dict[str, Any]] = [
        {"kind": "mlp", "hidden": [10**6, 10**6]},
        {"kind": "mlp"},
        {"kind": "table-net", "hidden": [10**6], "cardinalities": [3], "dims": None},
    ]
    left = iter(networks)

    def with_network(draw: Any, plan: dict[str, Any]) -> dict[str, Any]:
        return {**plan, "model": [*plan["model"][:2], next(left)]}

    monkeypatch.setattr(hostile_words, "mutated", with_network)
    monkeypatch.setattr(hostile_words, "SHARES", {"plan": 1})
    tally = attack(len(networks), 1, tmp_path, near)
    assert tally.tried["plan"] == len(networks) and not tally.accepted and not tally.crashed
