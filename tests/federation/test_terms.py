"""Terms: the same after a restart, for every method."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import test_contract

import colonnade as cn
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.small_rehearsal import rehearse_small, without_owner
from colonnade.federation.terms import terms_of
from colonnade.run.make_plan import outline_of
from colonnade.run.rehearsal import rehearse_tables
from near import Sides
from plans import plan_for

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

ACCEPTED = 'labels = "shown"'


@pytest.mark.parametrize("case", test_contract.ONE_OWNER, ids=str)
def test_a_party_works_out_the_forms_of_every_method_at_little_cost(case: test_contract.Case) -> None:
    """Its rehearsal knows no networks and no wide widths, and comes to what the owner's comes to."""
    network = hasattr(case.method, "hidden") and not getattr(case.method, "learner", "")
    wide = {"embedding": 300} | ({"hidden": 500} if network else {})
    for method in (case.method, replace(case.method, **wide)):
        tables = test_contract.tables_of(case)
        what = plan_for(tables, method, **{"rounds": 3, "batch": 16, "runtime": "loop", **case.options})
        due = rehearse_tables(tables, what).to_json()
        outline = {**outline_of(tables), "outputs": test_contract.CLASSES}
        found = rehearse_small(outline, what)
        owner = tables[0].name
        assert found == json.loads(json.dumps(without_owner(due, owner)))


@pytest.mark.parametrize("method", cn.methods())
def test_the_terms_of_every_method_are_the_same_after_a_restart(sides: Sides, method: str, tmp_path: Path) -> None:
    for more in ("", '[model]\nkind = "mlp"\nhidden = [7, 5]\n[[seal]]\nkind = "bits"'):
        for _ in range(2):
            JobFolder(tmp_path / f"job{len(more)}").take_terms(
                terms_of(sides.owner_file(method, federation=ACCEPTED, more=more))
            )


def test_a_job_of_apfed_goes_on_after_a_restart(sides: Sides) -> None:
    sides.write_parties("layers = 0")
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
