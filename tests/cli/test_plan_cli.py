"""``colonnade plan``: what a job will cost over a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from colonnade.cli import app

JOB = """
[data]
load = "digits"
parties = 3
rows = 300

[train]
method = "fdml"
rounds = 6
batch = 100
valid = 0.2
stop_drop = 1.0
"""
FILES = """
[[party]]
name = "bank"
files = "bank.csv"
id = "id"
label = "y"
[[party]]
name = "shop"
files = "shop.csv"
id = "id"
[align]
mode = "plain"
[train]
method = "splitnn"
rounds = 3
batch = 20
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def colonnade(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_named_data_set_over_two_lines(job: Path) -> None:
    said = colonnade("plan", job, "--link", "100mbit,50ms", "--link", "10mbit,100ms", "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    near, far = found["links"]
    assert (near["megabits"], near["milliseconds"]) == (100, 50)
    for cost in found["links"]:
        parts = cost["computing"] + cost["round_trips"] + cost["transfer"]
        assert cost["seconds"] == pytest.approx(parts, abs=0.01)
    assert far["round_trips"] == pytest.approx(2 * near["round_trips"]) and far["seconds"] > near["seconds"]
    assert found["rounds"] == 6 and found["bytes"] > 0
    assert any("Early stopping" in sentence for sentence in found["assumptions"])
    assert not list(job.parent.glob("runs*")), "nothing is kept"


def test_files_count_their_alignment(tmp_path: Path) -> None:
    for name, label in (("bank", "y"), ("shop", "")):
        head = ["id", "a", "b", *([label] if label else [])]
        rows = [[f"c{k}", k % 7, k % 5, *([k % 2] if label else [])] for k in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(",".join(map(str, row)) for row in [head, *rows]))
    (tmp_path / "job.toml").write_text(FILES)
    said = colonnade("plan", tmp_path / "job.toml", "--json", "--quiet")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    before = found["parts"][0]
    assert before["name"] == "before training" and before["bytes_up"] > 0 and before["computing"] > 0
    assert len(found["links"]) == 6, "the usual table"
    assert any("alignment and preparation are counted" in sentence for sentence in found["assumptions"])


def test_a_table_for_people(job: Path) -> None:
    said = colonnade("plan", job)
    assert said.exit_code == 0, said.output
    assert "fdml, 6 rounds at most" in said.stdout and "100 Mbit/s, 100 ms" in said.stdout


def test_a_malformed_link_is_one_sentence(job: Path) -> None:
    said = colonnade("plan", job, "--link", "50ms")
    assert said.exit_code == 2 and "such as 100mbit,50ms" in said.stderr


def test_a_job_between_organisations_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text('[federation]\nlisten = "127.0.0.1:0"\n')
    said = colonnade("plan", tmp_path / "job.toml")
    assert said.exit_code == 2 and "to rehearse it" in said.stderr
