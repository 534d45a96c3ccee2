"""Jobs whose [prepare] splits by the owner's dates: train, resume, report, predict, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from test_files import colonnade, refused

from colonnade.errors import CheckpointError
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import gather, resume_job, train_job
from colonnade.report.summary import read_summary

pytest.importorskip("pyarrow")
ROWS = 240
JOB = """
[[party]]
name = "shop"
files = "shop.csv"
id = "id"
leave_out = ["bought"]

[[party]]
name = "bank"
files = "bank.csv"
id = "id"
label = "paid"

[align]
mode = "plain"

[prepare]
split = {column = "called", after = "2024-06"}

[train]
method = "splitnn"
epochs = 2
batch = 32
valid = 0.1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    age, spent = random.normal(size=ROWS), random.normal(size=ROWS)
    called = np.datetime64("2023-01", "M") + np.arange(ROWS) // 10
    paid = np.where(age + spent > 0, "yes", "no")
    lines = [f"p{k:03d},{age[k]:.4f},{called[k]},{paid[k]}" for k in range(ROWS)]
    (tmp_path / "bank.csv").write_text("\n".join(["id,age,called,paid", *lines]) + "\n")
    lines = [f"p{k:03d},{spent[k]:.4f},{called[k]}-01" for k in random.permutation(ROWS)[:230]]
    (tmp_path / "shop.csv").write_text("\n".join(["id,spent,bought", *lines]) + "\n")
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_job_splits_by_date(folder: Path) -> None:
    job = read_job(folder / "job.toml")
    gathered = gather(job)
    assert gathered.train[0].dates.max() == np.datetime64("2024-05")
    assert gathered.test[0].dates.min() == np.datetime64("2024-06")
    assert gathered.train[0].rows + gathered.test[0].rows == 230 and gathered.train[0].column_names == ("age",)
    run = train_job(job, folder / "run", gathered=gathered)
    facts = read_summary(folder / "run")
    assert facts["description"]["data"]["files"]["prepare"]["split"] == {
        "column": "called", "after": "2024-06", "missing": "refuse", "feature": False,
    }  # fmt: skip
    assert {line["part"] for line in facts["findings"]["periods"]["lines"]} == {"valid", "test"}
    assert resume_job(job, folder / "run", gathered=gathered).history == run.history
    change(folder / "job.toml", "2024-06", "2024-07")
    with pytest.raises(CheckpointError, match="split after '2024-06', but the job says '2024-07'"):
        resume_job(read_job(folder / "job.toml"), folder / "run", gathered=None)


def test_the_command_says_what_the_parties_learn_and_reports_by_month(folder: Path) -> None:
    change(folder / "job.toml", '"2024-06"', "2024-06-01")  # a date as TOML has it
    done = colonnade("train", folder / "job.toml", "--folder", folder / "run")
    assert done.exit_code == 0, done.output
    sentence = "whether its date in column 'called' of 'bank' is 2024-06-01 or later."
    assert sentence in " ".join(done.stderr.split())
    assert "<h2>By month</h2>" in (folder / "run" / "report.html").read_text()
    (folder / "new.csv").write_text("id,age\np001,0.5\np002,-0.5\np003,1.0\n")
    named = f"bank={folder / 'new.csv'}", f"shop={folder / 'shop.csv'}"
    done = colonnade("predict", folder / "run", *named, "--to", folder / "scores.csv")
    assert done.exit_code == 0 and "rows scored" in done.stdout, "new files need no date"


def test_predictions_are_judged_over_time_once_labels_are_known(folder: Path) -> None:
    done = colonnade("train", folder / "job.toml", "--folder", folder / "run")
    assert done.exit_code == 0, done.output
    named = f"bank={folder / 'bank.csv'}", f"shop={folder / 'shop.csv'}", "--to", folder / "scores.csv"
    done = colonnade("predict", folder / "run", *named, "--over-time", folder / "months.csv")
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader((folder / "months.csv").read_text().splitlines()))
    assert [row["period"] for row in rows[:2]] == ["2023-01", "2023-02"] and len(rows) == 24
    assert sum(int(row["rows"]) for row in rows) == 230 and rows[0]["psi"] == "" != rows[1]["psi"]
    kept = {line["period"]: line for line in read_summary(folder / "run")["findings"]["periods"]["lines"]}
    for row in rows[17:]:  # the months of the test rows, which the run was evaluated on
        assert float(row["score"]) == pytest.approx(kept[row["period"]]["score"], abs=1e-4)
        assert float(row["predicted"]) == pytest.approx(kept[row["period"]]["predicted"], abs=1e-5)
    (folder / "new.csv").write_text("id,age,called\np001,0.5,2025-01\n")
    words = f"bank={folder / 'new.csv'}", named[1], "--to", folder / "new-scores.csv", "--over-time", folder / "x.csv"
    assert "'bank' has no column 'paid' in its new files" in refused(colonnade("predict", folder / "run", *words))
    (folder / "new.csv").write_text("id,age,called,paid\np001,0.5,soon,yes\n")
    assert "holds 'soon' in row 1, which is no date" in refused(colonnade("predict", folder / "run", *words))
    (folder / "new.csv").write_text("id,age,called,paid\np001,0.5,2025-01,perhaps\n")
    assert "holds 'perhaps', which is none of the classes no, yes" in refused(
        colonnade("predict", folder / "run", *words)
    )
    assert not (folder / "new-scores.csv").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"called"', '"cold"', "'bank' has no column 'cold' to split by; only the owner's dates decide"),
        (
            '"called"',
            '"bought"',
            "'bank' has no column 'bought' to split by; 'shop' has it, but only the owner's dates",
        ),
        ('"2024-06"', '"2030-01"', "before 2030-01, the last at 2024-12; give an earlier date"),
        ('"2024-06"', '"2001-01"', "at 2001-01 or later, the first at 2023-01; give a later date"),
        ('"2024-06"', '"soon"', "after = 'soon' in split is no date"),
        ('"2024-06"', "2024-06-01T00:00:00+02:00", "is a time of a zone; write 2024"),
        (', after = "2024-06"', "", "does not say by what"),
        ('after = "2024-06"', 'after = "2024-06", until = "2025"', "key of split 'until'"),
        ("[prepare]", "[prepare]\ntest = 0.2", "test = 0.2 and split came"),
        ('{column = "called", after = "2024-06"}', '"called"', "split = 'called' in [prepare] is not a table"),
    ],
)
def test_a_wrong_split_is_one_sentence_before_ids_are_compared(folder: Path, old: str, new: str, sentence: str) -> None:
    change(folder / "job.toml", old, new)
    done = colonnade("train", folder / "job.toml", "--folder", folder / "run")
    assert sentence in refused(done)
    assert "ids are common" not in done.stderr and not (folder / "run").exists()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("p000,0.1,,yes", "column 'called' of 'bank' has no date in 1 rows, the first is row 241; fill them in, or"),
        ("p000,0.1,2024-06-30,yes", "mixes kinds of dates: '2023-01' in row 1 is a month, and '2024-06-30' in row 241"),
        ("p000,0.1,2024-06-30T10:00+01:00,yes", "holds '2024-06-30T10:00+01:00' in row 241, a time of a zone"),
    ],
)
def test_a_wrong_date_is_one_sentence(folder: Path, row: str, sentence: str) -> None:
    with (folder / "bank.csv").open("a") as file:
        file.write(row.replace("p000", "new") + "\n")
    assert sentence in refused(colonnade("train", folder / "job.toml", "--folder", folder / "run"))
