"""Terms: the same after a restart, for every method."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import test_contract

import colonnade as cn
from colonnade.errors import ManifestError
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.small_rehearsal import rehearse_small, without_owner
from colonnade.federation.terms import labels_under, terms_of
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


@pytest.mark.parametrize("method", cn.methods())
def test_the_terms_say_what_every_message_shows(sides: Sides, method: str) -> None:
    terms = terms_of(sides.owner_file(method, federation=ACCEPTED))
    owner, said = terms["owner"], " ".join(terms["learns"])
    for one in cn.methods()[method]().disclosures or ():
        assert f"in step '{one.step}'" in said and (one.level == "nothing known" or f"({one.level})" in said)
        assert one.note in said
    assert ("Nothing that depends on labels goes to any party." in said) == (method == "local")
    assert method == "local" or f"'{owner}' can rebuild" in said


def test_the_terms_name_the_seals_that_lower_a_level_and_no_others(sides: Sides) -> None:
    seals = '[[seal]]\nkind = "random-labels"\n[[seal]]\nkind = "bits"'
    terms = terms_of(sides.owner_file("splitnn", federation="", more=seals))
    (about,) = (line for line in terms["learns"] if "'follow'" in line and "labels" in line)
    assert about.startswith("Every party can read noisy labels of the rows only (leaks) from gradients")
    assert about.endswith("without the seal 'random-labels' the level is read.") and "bits" not in about
    assert terms["labels"] == "protected"


def test_the_terms_of_a_method_that_declares_nothing_say_so(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cn.SplitNN, "disclosures", None)
    assert labels_under(cn.SplitNN(), []) == "shown"
    with pytest.raises(ManifestError, match="not declared"):
        terms_of(sides.owner_file("splitnn", federation='labels = "inferable"'))
    said = terms_of(sides.owner_file("splitnn", federation=ACCEPTED))["learns"]
    assert any("not declared, so take it for the worst" in line for line in said)
    sealed = sides.owner_file("splitnn", federation="", more='[[seal]]\nkind = "random-labels"')
    with pytest.raises(ManifestError, match="not declared"):
        terms_of(sealed)
