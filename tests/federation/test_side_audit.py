"""``colonnade audit`` of the folder of one side of a federation: found by itself, compared with the signed terms."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.privacy.audit_file import read_audit

CHEAP = ("--attack", "gradient scoring", "--attack", "equations", "--quiet")


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def refused(*words: object) -> str:
    told = invoke(*words)
    assert told.exit_code == 2, told.output
    return " ".join(told.output.split())


@pytest.fixture
def places(ended: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """A copy of the folders, to spoil."""
    return {name: Path(shutil.copytree(ended[name], tmp_path / name)) for name in ("owner", "shop")}


def test_the_owner_audits_its_labels_and_compares_with_the_terms(ended: dict[str, Path]) -> None:
    told = invoke(ended["owner"], *CHEAP, "--json", "--fail-on", "undeclared")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert {(one["adversary"], one["secret"], one["declared"]) for one in found["verdicts"]} == {
        ("shop", "labels", "read"),
        ("mill", "labels", "read"),
        ("mill", "columns", "leaks"),
    }
    assert found["worst"] in ("read", "leaks") and found["undeclared"] == [] and found["method"] == "splitnn"
    assert read_audit(ended["owner"])["worst"] == found["worst"]
    assert invoke(ended["owner"], *CHEAP, "--fail-on", "leaks").exit_code == 3


def test_a_party_audits_its_columns_from_the_folder_of_all_its_jobs(ended: dict[str, Path]) -> None:
    told = invoke(ended["shop"].parent, "--attack", "decoder", "--json", "--quiet", "--fail-on", "undeclared")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    (verdict,) = found["verdicts"]
    assert (verdict["of"], verdict["declared"]) == ("shop", "read") and verdict["word"] in ("read", "leaks")
    assert read_audit(ended["shop"])["worst"] == verdict["word"]
    assert "columns of shop to owner" in (ended["shop"] / "audit.html").read_text()


def test_what_a_folder_lacks_is_said_in_a_sentence(places: dict[str, Path], ended: dict[str, Path]) -> None:
    for name in ("owner", "shop"):
        (places[name] / "audited-table.json").unlink()
    assert "which nothing was noted of; pass that file as --job" in refused(places["owner"], *CHEAP)
    shop = ended["shop"].parent.parent / "shop" / "party.toml"
    assert invoke(places["shop"], "--job", shop, "--attack", "equations", "--quiet").exit_code == 0
    mill = shop.parent.parent / "mill" / "party.toml"
    assert "is the file of 'mill', and the folder is that of 'shop'" in refused(places["shop"], "--job", mill)
    shutil.rmtree(places["shop"] / "view")
    assert "no recorded view; record one with" in refused(places["shop"], "--job", shop)


def test_other_terms_than_those_signed_are_refused(places: dict[str, Path]) -> None:
    path = places["owner"] / "terms.json"
    terms = json.loads(path.read_text())
    path.write_text(json.dumps(terms | {"labels": "unsent"}))
    assert "are not the terms that" in refused(places["owner"], *CHEAP)


def test_a_view_that_does_not_match_the_log_is_refused(places: dict[str, Path]) -> None:
    log = places["owner"] / "audit.jsonl"
    log.write_text(log.read_text().replace('"kind":"embed"', '"kind":"follow"', 1))
    assert "audit.jsonl" in refused(places["owner"], *CHEAP)


def test_other_files_than_those_of_the_training_are_refused(places: dict[str, Path], ended: dict[str, Path]) -> None:
    sides = ended["owner"].parent
    own = shutil.copytree(sides, places["shop"].parent / "files", ignore=shutil.ignore_patterns("run-*")) / "shop"
    lines = (own / "table.csv").read_text().splitlines()
    (own / "table.csv").write_text("\n".join(lines[:-1]) + "\n")
    assert "the files changed since their rows were aligned" in refused(places["shop"], "--job", own / "party.toml")
