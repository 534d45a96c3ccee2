"""For all tests: what grpc and OpenMP read once, at their import, so it is set before any test imports them.

Also a federation's sides in one folder, for tests of what they say and refuse.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from near import Sides

os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-PSK-CHACHA20-POLY1305"  # as colonnade.federation.tls.load_grpc has it
# Threads that wait for each other on busy cores spin: two workers of two threads each took thrice the CPU time of one.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def keys_and_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of three sides; making keys takes long, so tests copy them."""
    from near import make_sides

    return make_sides(tmp_path_factory.mktemp("sides"))


@pytest.fixture
def sides(keys_and_tables: Path, tmp_path: Path) -> Iterator[Sides]:
    from near import Sides

    found = Sides(Path(shutil.copytree(keys_and_tables, tmp_path / "sides")))
    yield found
    found.restart()
