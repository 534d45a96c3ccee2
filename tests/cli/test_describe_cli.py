"""``[describe]`` in a job and ``colonnade describe``."""

import csv
import json

import pytest
from typer.testing import CliRunner

from colonnade.cli import app

pytest.importorskip("nacl")

JOB = """
[data]
load = "breast_cancer"
parties = 3
rows = 120

[describe]
bins = 4
minimum = 20
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def colonnade(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_describe_shows_columns_bins_and_what_was_told(job):
    shown = colonnade("describe", job, "--bins", "--page", "page.html", "--csv", "tables")
    assert shown.exit_code == 0, shown.output
    assert "correlation" in shown.stdout and "WoE" in shown.stdout and "nobody else can open one" in shown.stdout
    page = (job.parent / "page.html").read_text()
    assert "Which columns tell most" in page and "Who learnt what" in page and page.count("<h3>") > 20
    columns = list(csv.DictReader((job.parent / "tables" / "columns.csv").read_text().splitlines()))
    bins = list(csv.DictReader((job.parent / "tables" / "bins.csv").read_text().splitlines()))
    assert {row["party"] for row in columns} == {"party 1", "party 2", "party 3"}
    assert min(int(row["rows"]) for row in bins) >= 20


def test_describe_for_machines(job):
    job.write_text(JOB + 'names = {"party 2" = "numbered"}\nepsilon = {"party 3" = 5.0}\n')
    found = json.loads(colonnade("describe", job, "--json").stdout)
    assert found["minimum"] == {f"party {k}": 20 for k in (1, 2, 3)}
    assert found["sigma"]["party 1"] == 0 < found["sigma"]["party 3"]
    titles = {column["party"]: column["bins"][0]["title"] for column in found["columns"]}
    assert titles["party 2"] == "bin 1" and titles["party 1"].startswith("<= ")
    assert all(column["stability"] >= 0 for column in found["columns"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bins = 1", "bins=1 is out of range"),
        ('bins = "ten"', "bins = 'ten' in [describe] is not a whole number."),
        ("bin = 4", "unknown key of [describe] 'bin'; did you mean 'bins'?"),
        ("minimum = 80", "has two bins of at least 80 rows"),
        ('names = "none"', "unknown way to name bins 'none'"),
        ('epsilon = {"party 9" = 1.0}', "epsilon= names 'party 9', which is no party"),
    ],
)
def test_bad_sections_are_told_in_one_sentence(job, text, told):
    job.write_text(JOB.replace("bins = 4\nminimum = 20", text))
    result = colonnade("describe", job)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert told in line and line.startswith("error: ")


def test_a_section_that_is_none(job):
    job.write_text("describe = 3\n" + JOB.replace("[describe]\nbins = 4\nminimum = 20\n", ""))
    assert "describe = 3 is not a section" in colonnade("describe", job).stderr


@pytest.mark.parametrize("words", [("--terms",), ("--folder", "x")])
def test_options_of_a_federation_need_one(job, words):
    said = colonnade("describe", job, *words)
    assert said.exit_code == 2 and "has no [federation]" in said.output.replace("\n", " ")


def test_a_job_without_certificates_hears_of_flare(sides):
    """A job file for FLARE has none, and descriptions are not offered there."""
    sides.owner_file(more="[describe]\nminimum = 5")
    (sides.folder / "bank" / "cert.pem").unlink()
    said = colonnade("describe", sides.folder / "bank" / "job.toml")
    assert said.exit_code == 4 and "cert.pem cannot be read" in said.stderr
    assert "A description travels over TLS" in said.stderr and "on FLARE it is not offered" in said.stderr
