"""Terms: the same after a restart, for every method."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import colonnade as cn
from colonnade.federation.desk import Desk
from colonnade.federation.terms import terms_of
from near import Sides, make_sides

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

ACCEPTED = 'labels = "shown"'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sides(tmp_path_factory.mktemp("sides"))


@pytest.fixture
def sides(made: Path, tmp_path: Path) -> Iterator[Sides]:
    found = Sides(Path(shutil.copytree(made, tmp_path / "sides")))
    yield found
    found.restart()


@pytest.mark.parametrize("method", cn.methods())
def test_the_terms_of_every_method_are_the_same_after_a_restart(sides: Sides, method: str, tmp_path: Path) -> None:
    for more in ("", '[model]\nkind = "mlp"\nhidden = [7, 5]\n[[seal]]\nkind = "bits"'):
        for _ in range(2):
            Desk(tmp_path / f"desk{len(more)}").take_terms(
                terms_of(sides.owner_paper(method, federation=ACCEPTED, more=more))
            )


def test_a_job_of_apfed_goes_on_after_a_restart(sides: Sides) -> None:
    job = {"method": "apfed", "federation": ACCEPTED}
    host = sides.host(**job)
    host.gather()
    host.close()
    sides.restart()
    again = sides.host(**job)
    try:
        again.gather()
        assert again.train().round == 2
    finally:
        again.close()
