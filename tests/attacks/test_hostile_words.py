"""Words, terms and plans that are signed and wrong: a small count of ``python -m benchmarks.hostile_words``."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.hostile_words import MOST_MB, attack

import near

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")


def test_no_mutated_word_is_accepted_and_none_ends_a_party(tmp_path: Path) -> None:
    """The control is within: the true words between the mutated ones are accepted, and the job goes on to its end."""
    tally = attack(400, 1, tmp_path, near)
    assert tally.tried.total() > 250 and min(tally.tried[word] for word in ("hello", "terms", "plan", "begin")) > 0
    assert not tally.accepted and not tally.crashed
    assert tally.most_mb <= MOST_MB  # CPU time is the benchmark's: here others may want the cores
