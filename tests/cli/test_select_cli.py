"""``[select]`` in a job, ``colonnade select`` and ``colonnade train`` with it."""

import json

import pytest
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import resume_job, train_job

JOB = """
[data]
load = "digits"
parties = 4
rows = 300

[select]
share = 0.5
queries = 40
rows = 150

[train]
method = "fdml"
epochs = 1
batch = 100
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def colonnade(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_select_shows_who_would_be_chosen(job):
    shown = colonnade("select", job)
    assert shown.exit_code == 0 and "2 of 4 parties by greedy" in shown.stdout and "The owner read" in shown.stdout
    found = json.loads(colonnade("select", job, "--json").stdout)
    assert (
        len(found["chosen"]) == 2 and found["bytes"] > 0 and set(found["scores"]) == {f"party {k}" for k in range(1, 5)}
    )


def test_train_selects_first_and_goes_on_with_the_same(job):
    trained = colonnade("train", job, "--folder", "run", "--json")
    assert trained.exit_code == 0, trained.output
    assert "2 of 4 parties chosen by greedy" in trained.stderr and "The owner read" in trained.stderr
    chosen = json.loads(trained.stdout)["selection"]["chosen"]
    job.write_text(JOB.replace("epochs = 1", "epochs = 2"))
    longer = resume_job(read_job(job), "run")
    assert longer.parties.names == sorted(chosen) and longer.round == 6
    assert without_seconds(train_job(read_job(job)).history[-1]) == without_seconds(longer.history[-1])


def without_seconds(row):
    return {name: value for name, value in row.items() if name != "seconds"}


def test_a_job_that_blinds_selects_blindly(job):
    job.write_text(JOB + '[[seal]]\nkind = "blind"\n')
    assert "helper opened the summed distances" in colonnade("select", job).stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('share = "half"', "share = 'half' in [select] is not a number."),
        ("share = 0.0", "share=0.0 of the parties selects nobody"),
        ("shares = 0.5", "unknown key of [select] 'shares'; did you mean 'share'?"),
        ('by = "heads"', "by = 'heads' in [select] reads the heads of a trained run"),
        ('by = "luck"', "unknown way to select 'luck'"),
    ],
)
def test_bad_sections_are_told_in_one_sentence(job, text, told):
    job.write_text(JOB.replace("share = 0.5", text))
    for verb in ("select", "train"):
        result = colonnade(verb, job)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert told in line and line.startswith("error: ")


def test_a_section_that_is_none(job):
    job.write_text("select = 3\n" + JOB.replace("[select]\nshare = 0.5\nqueries = 40\nrows = 150\n", ""))
    assert "select = 3 is not a section" in colonnade("train", job).stderr
