"""A federation whose every side recorded its view, trained once for all tests that look at what it left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from near import RECORD, Sides, job_folders, lead, make_sides


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Enough rows, each of them sent, for an audit of each side."""
    sides = Sides(make_sides(tmp_path_factory.mktemp("ended"), rows=260))
    sides.write_parties(more=RECORD)
    lead(sides.host(method="splitnn", train="rounds = 26\nevaluate_every = 13\nseed = 3", more=RECORD))
    return job_folders(sides)
