"""Jobs on files, and predictions on new files: from organisations' own CSV and Parquet to scores."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.errors import CheckpointError, ConfigError, NoCommonIdError, PrivacyError, TableError
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import gather, train_job

JOB = """
[[party]]
name = "lab"
files = "lab-*.parquet"
id = "who"

[[party]]
name = "clinic"
files = "clinic.csv"
id = "mail"
label = "ill"

[align]
mode = "plain"
minimum = 20

[prepare]
test = 0.25

[train]
method = "{method}"
epochs = 4
batch = 32
"""


def people(low, high):
    """Ids and columns of some people; whether one is ill is told by a column of either party."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=400), rng.normal(size=400)
    job = rng.choice(["cook", "smith", "clerk"], 400)
    rows = slice(low, high)
    names = np.array([f"P{k:03d}@Example.org" for k in range(400)])[rows]
    return {"id": names, "x": x[rows], "y": y[rows], "job": job[rows], "ill": np.where(x + y > 0, "yes", "no")[rows]}


def write_csv(path, columns, rows):
    pyarrow.csv.write_csv(pa.table({name: list(values[rows]) for name, values in columns.items()}), path)


def write_parquet(path, columns, rows):
    pyarrow.parquet.write_table(pa.table({name: list(values[rows]) for name, values in columns.items()}), path)


@pytest.fixture
def folder(tmp_path):
    """Two organisations' files of 240 people, of whom each knows some; 60 others to score."""
    old, new = people(0, 240), people(240, 300)
    order = np.random.default_rng(1).permutation(240)
    clinic = {"mail": old["id"], "x": old["x"], "job": old["job"], "ill": old["ill"]}
    lab = {"who": np.char.lower(old["id"]), "y": old["y"]}
    write_csv(tmp_path / "clinic.csv", clinic, np.arange(200))
    write_parquet(tmp_path / "lab-1.parquet", lab, order[:100])
    write_parquet(tmp_path / "lab-2.parquet", lab, order[100:220])
    write_csv(tmp_path / "new-clinic.csv", {key: new[key] for key in ("id", "x", "job")} | {"mail": new["id"]}, ...)
    write_parquet(tmp_path / "new-lab.parquet", {"who": np.char.lower(new["id"]), "y": new["y"]}, np.arange(10, 60))
    (tmp_path / "job.toml").write_text(JOB.format(method="splitnn"))
    return tmp_path


def colonnade(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(result):
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    return line


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_job_on_files_aligns_prepares_and_trains(folder):
    job = read_job(folder / "job.toml")
    gathered = gather(job)
    assert [table.name for table in gathered.train] == ["clinic", "lab"], "the owner comes first"
    assert gathered.alignment.count == gathered.train[0].rows + gathered.test[0].rows
    assert gathered.train[0].classes == ("no", "yes")
    run = train_job(job, gathered=gathered)
    assert run.ledger.bytes_for("align") == gathered.alignment.bytes, "the run's ledger tells of its alignment too"
    assert run.evaluate(gathered.test)["accuracy"] > 0.8
    again = train_job(job)
    assert torch.equal(run.predict(gathered.test), again.predict(gather(job).test)), "the seed settles everything"


def test_private_and_plain_alignment_give_the_same_run(folder):
    plain = train_job(read_job(folder / "job.toml"))
    change(folder / "job.toml", '"plain"', '"psi"')
    assert train_job(read_job(folder / "job.toml")).history[-1]["train_loss"] == plain.history[-1]["train_loss"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_after_a_restart_are_those_of_the_run(folder, suffix):
    place = folder / "run"
    result = colonnade("train", folder / "job.toml", "--folder", place)
    assert result.exit_code == 0, result.output
    assert "Every party learns" in result.stderr and "ids are common to 2 parties" in result.stderr
    scores = folder / f"scores.{suffix}"
    result = colonnade(
        "predict", place, f"clinic={folder / 'new-clinic.csv'}", f"lab={folder / 'new-lab.parquet'}", "--to", scores
    )
    assert result.exit_code == 0, result.output
    assert "50 rows scored" in result.stdout and "10 of 60 rows of 'clinic' are not scored" in result.stdout
    read = pyarrow.csv.read_csv(scores) if suffix == "csv" else pyarrow.parquet.read_table(scores)
    new = people(250, 300)
    assert read["mail"].to_pylist() == [*new["id"]], "as the owner's file has them, and in its order"
    assert np.mean(np.array(read["class"].to_pylist()) == new["ill"]) > 0.8
    run = train_job(read_job(folder / "job.toml"))
    sheets = [cn.read(folder / "new-clinic.csv", id="mail", name="clinic")]
    sheets.append(cn.read(folder / "new-lab.parquet", id="who", name="lab"))
    assert cn.score(run, sheets).values[:, 1].tolist() == pytest.approx(read["p(yes)"].to_pylist(), abs=1e-6)
    assert not list(folder.glob(".*")), "no draft is left"


def test_rows_that_only_some_know_are_scored_where_the_policy_allows(folder):
    run = train_job(read_job(folder / "job.toml"))
    new = [
        cn.read(folder / "new-clinic.csv", id="mail", name="clinic"),
        cn.read(folder / "new-lab.parquet", id="who", name="lab"),
    ]
    known = cn.score(run, new)
    more = [new[0], cn.read(folder / "new-lab.parquet", id="who", name="lab")]
    scores = cn.score(run, more, missing="zero", mode="plain")
    assert torch.equal(scores.values, known.values), "whom nobody else knows cannot be scored by splitnn"
    assert scores.notes == ("10 of 60 rows of 'clinic' are not scored: nobody else knows them",)


def test_three_parties_score_each_row_with_those_who_know_it(folder):
    job = folder / "job.toml"
    job.write_text(job.read_text() + '\n[[party]]\nname = "bank"\nfiles = "bank.csv"\nid = "mail"\n')
    old, new = people(0, 240), people(240, 300)
    write_csv(folder / "bank.csv", {"mail": old["id"], "z": old["x"] - old["y"]}, np.arange(230))
    write_csv(folder / "new-bank.csv", {"mail": new["id"], "z": new["x"] - new["y"]}, np.arange(0, 20))
    run = train_job(read_job(job))
    files = {"clinic": "new-clinic.csv", "lab": "new-lab.parquet", "bank": "new-bank.csv"}
    ids = {"clinic": "mail", "lab": "who", "bank": "mail"}
    sheets = [cn.read(folder / path, id=ids[name], name=name) for name, path in files.items()]
    scores = cn.score(run, sheets, missing="zero")
    assert len(scores.ids) == 60, "each is known to the lab or the bank"
    assert sorted(scores.notes) == [
        "10 rows are scored without lab (zero), which does not know them",
        "40 rows are scored without bank (zero), which does not know them",
    ]
    both = cn.score(run, sheets)
    assert both.ids.tolist() == scores.ids[10:20].tolist()
    torch.testing.assert_close(both.values, scores.values[10:20])
    alone = cn.score(run, sheets[:2], missing="zero")
    torch.testing.assert_close(alone.values[10:], scores.values[20:])


def test_a_method_that_predicts_alone_needs_the_owners_file_only(folder):
    (folder / "job.toml").write_text(JOB.format(method="apfed"))
    run = train_job(read_job(folder / "job.toml"))
    scores = cn.score(run, [cn.read(folder / "new-clinic.csv", id="mail", name="clinic")])
    assert len(scores.ids) == 60 and not scores.notes and not scores.ledger.total


@pytest.mark.parametrize("method", ["vimadmm", "vimadmm-j", "fdml", "local", "vfedmh"])
def test_every_run_opens_without_its_tables(folder, method):
    (folder / "job.toml").write_text(JOB.format(method=method))
    gathered = gather(read_job(folder / "job.toml"))
    run = train_job(read_job(folder / "job.toml"), folder / "run", gathered=gathered)
    opened = cn.resume(folder / "run", train=False)
    torch.testing.assert_close(opened.predict(gathered.test), run.predict(gathered.test))
    with pytest.raises(ConfigError, match="opened without the tables"):
        opened.fit()


def test_values_keep_their_units_after_a_restart(folder):
    old = people(0, 200)
    write_csv(
        folder / "clinic.csv",
        {"mail": old["id"], "x": old["x"], "job": old["job"], "ill": 100 + 10 * (old["x"] + old["y"])},
        ...,
    )
    (folder / "job.toml").write_text(JOB.format(method="splitnn").replace("epochs", 'task = "values"\nepochs'))
    gathered = gather(read_job(folder / "job.toml"))
    run = train_job(read_job(folder / "job.toml"), folder / "run", gathered=gathered)
    found = cn.resume(folder / "run", train=False).predict(gathered.test)
    torch.testing.assert_close(found, run.predict(gathered.test))
    assert 80 < float(found.mean()) < 120
    new = [cn.read(folder / "new-clinic.csv", id="mail", name="clinic")]
    new.append(cn.read(folder / "new-lab.parquet", id="who", name="lab"))
    place = cn.score(run, new).write(folder / "scores.csv")
    assert place.read_text().splitlines()[0] == '"mail","value"'


def test_a_resumed_job_wants_the_same_files(folder):
    place = folder / "run"
    assert colonnade("train", folder / "job.toml", "--folder", place, "--quiet").exit_code == 0
    change(folder / "job.toml", "epochs = 4", "epochs = 6")
    result = colonnade("train", folder / "job.toml", "--folder", place, "--resume", "--quiet", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["data"] == "files of clinic, lab"
    change(folder / "clinic.csv", "cook", "baker")
    result = colonnade("train", folder / "job.toml", "--folder", place, "--resume", "--quiet")
    assert "the files of 'clinic' are not those that the run was trained on" in refused(result)


def test_align_says_who_learns_what_and_writes_rows(folder):
    result = colonnade("align", folder / "job.toml", "--folder", folder / "rows")
    assert result.exit_code == 0 and "a hash of each of its ids" in result.stderr
    rows = {name: (folder / "rows" / f"{name}.csv").read_text().split()[1:] for name in ("clinic", "lab")}
    assert len(rows["clinic"]) == len(rows["lab"]) > 150
    kinds = json.loads(colonnade("align", folder / "job.toml", "--columns", "--json").stdout)
    assert kinds == {"clinic": {"x": "number", "job": "category"}, "lab": {"y": "number"}}
    assert "clinic: 200 rows" in colonnade("align", folder / "job.toml", "--columns").stdout
    found = json.loads(colonnade("align", folder / "job.toml", "--json", "--quiet").stdout)
    assert found["count"] == len(rows["clinic"]) and found["names"] == ["clinic", "lab"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('label = "ill"', "", "2 [[party]] came and 0 of them with a label"),
        ('id = "who"', 'id = "whom"', "'whom'"),
        ('files = "clinic.csv"', 'files = "clinical.csv"', "clinical.csv"),
        ('files = "clinic.csv"', "files = [1]", "must hold texts only"),
        ('name = "clinic"', "", "the job has no name in [party]"),
        ('mode = "plain"', 'mode = "secret"', "secret"),
        ("minimum = 20", "minimum = 2000", "minimum=2000"),
        ("[prepare]", "[data]\nload = 'digits'\n[prepare]", "the job has [data] and [[party]]"),
        ("test = 0.25", "test = 1.5", "test=1.5"),
        ("test = 0.25", "tests = 0.25", "tests"),
    ],
)
def test_a_job_that_cannot_be_done_gets_one_sentence(folder, old, new, sentence):
    change(folder / "job.toml", old, new)
    assert sentence in refused(colonnade("train", folder / "job.toml", "--folder", folder / "run"))
    assert not (folder / "run").exists(), "nothing half-written is left behind"


def test_align_or_prepare_without_files_is_refused(folder):
    (folder / "job.toml").write_text("[data]\nload = 'digits'\n[align]\nmode = 'plain'\n")
    assert "[align] is about files" in refused(colonnade("train", folder / "job.toml"))
    (folder / "job.toml").write_text("[data]\nload = 'digits'\n")
    assert "loads a named data set" in refused(colonnade("align", folder / "job.toml"))


def test_predictions_that_cannot_be_made_get_one_sentence(folder):
    place, to = folder / "run", ("--to", folder / "scores.csv")
    assert colonnade("train", folder / "job.toml", "--folder", place, "--quiet").exit_code == 0
    clinic, lab = f"clinic={folder / 'new-clinic.csv'}", f"lab={folder / 'new-lab.parquet'}"
    assert "NAME=FILE" in refused(colonnade("predict", place, "new.csv", *to))
    assert "no party 'shop'" in refused(colonnade("predict", place, clinic, "shop=a.csv", *to))
    assert "no file of 'lab' came" in refused(colonnade("predict", place, clinic, *to))
    assert "the owner is 'clinic'" in refused(colonnade("predict", place, lab, *to))
    assert "neither" in refused(colonnade("predict", place, clinic, lab, "--to", folder / "scores.txt"))
    assert "does not exist" in refused(colonnade("predict", place, clinic, lab, "--to", folder / "no" / "s.csv"))
    write_csv(folder / "narrow.csv", {"mail": people(0, 9)["id"]}, ...)
    narrow = refused(colonnade("predict", place, f"clinic={folder / 'narrow.csv'}", lab, *to))
    assert "lacks the columns 'x', 'job'" in narrow
    write_csv(folder / "others.csv", people(300, 400) | {"mail": people(300, 400)["id"]}, ...)
    assert "no id is common" in refused(colonnade("predict", place, f"clinic={folder / 'others.csv'}", lab, *to))
    assert not (folder / "scores.csv").exists()


def test_python_users_get_the_same_sentences(folder):
    run = train_job(read_job(folder / "job.toml"))
    sheet = cn.read(folder / "new-clinic.csv", id="mail", name="clinic")
    with pytest.raises(TableError, match=r"colonnade.score\(run, sheets\)"):
        run.predict([sheet])
    with pytest.raises(TableError, match="no sheets came"):
        cn.score(run, sheet)
    with pytest.raises(NoCommonIdError):
        cn.score(run, [sheet, cn.read(folder / "lab-1.parquet", id="who", name="lab")])
    with pytest.raises(NoCommonIdError, match="no party knows"):
        cn.score(run, [sheet, cn.read(folder / "lab-1.parquet", id="who", name="lab")], missing="zero")
    with pytest.raises(PrivacyError):
        cn.score(run, [sheet, cn.read(folder / "new-lab.parquet", id="who", name="lab")], minimum=51)
    other = cn.train(cn.load("digits", parties=2, rows=100)[0], "splitnn", epochs=1, batch=50)
    with pytest.raises(ConfigError, match="did not make"):
        cn.score(other, [sheet])


def test_a_damaged_preparation_is_refused(folder):
    train_job(read_job(folder / "job.toml"), folder / "run")
    (folder / "run" / "preparation" / "001.safetensors").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="is damaged"):
        cn.resume(folder / "run", train=False)


def test_predictions_keep_to_the_jobs_minimum_unless_told_otherwise(folder):
    change(folder / "job.toml", "minimum = 20", "minimum = 51")
    place, to = folder / "run", ("--to", folder / "scores.csv", "--quiet")
    assert colonnade("train", folder / "job.toml", "--folder", place, "--quiet").exit_code == 0
    new = f"clinic={folder / 'new-clinic.csv'}", f"lab={folder / 'new-lab.parquet'}"
    assert "50 ids are common" in refused(colonnade("predict", place, *new, *to))
    assert "50 ids are common" in refused(colonnade("predict", place, *new, "--missing", "zero", *to))
    assert not (folder / "scores.csv").exists()
    assert colonnade("predict", place, *new, "--minimum", 50, *to).exit_code == 0


def test_predict_says_who_learns_what_as_it_is_done(folder):
    place, to = folder / "run", ("--to", folder / "scores.csv")
    (folder / "job.toml").write_text(JOB.format(method="splitnn").replace('"plain"', '"psi"'))
    assert colonnade("train", folder / "job.toml", "--folder", place, "--quiet").exit_code == 0
    new = f"clinic={folder / 'new-clinic.csv'}", f"lab={folder / 'new-lab.parquet'}"
    assert "stay secret" in colonnade("predict", place, *new, *to).stderr
    plain = colonnade("predict", place, *new, "--mode", "plain", *to).stderr
    assert "a hash of each of its ids" in plain and "stay secret" not in plain
    (folder / "alone.toml").write_text(JOB.format(method="local"))
    assert colonnade("train", folder / "alone.toml", "--folder", folder / "alone", "--quiet").exit_code == 0
    assert "'clinic' asks nobody" in colonnade("predict", folder / "alone", new[0], *to).stderr


def test_new_files_may_lack_columns_that_were_left_out(folder):
    change(folder / "job.toml", 'label = "ill"', 'label = "ill"\nleave_out = ["job"]\nnumbers = ["x"]')
    place = folder / "run"
    assert colonnade("train", folder / "job.toml", "--folder", place, "--quiet").exit_code == 0
    write_csv(folder / "narrow.csv", {"mail": people(240, 300)["id"], "x": people(240, 300)["x"]}, ...)
    new = f"clinic={folder / 'narrow.csv'}", f"lab={folder / 'new-lab.parquet'}"
    result = colonnade("predict", place, *new, "--to", folder / "scores.csv", "--quiet")
    assert result.exit_code == 0, result.output


def test_scores_go_to_no_folder(folder):
    train_job(read_job(folder / "job.toml"), folder / "run")
    (folder / "scores.csv").mkdir()
    result = colonnade("predict", folder / "run", f"clinic={folder / 'new-clinic.csv'}", "--to", folder / "scores.csv")
    assert "it is a folder" in refused(result)
    assert "Every party" not in result.stderr, "before anything is aligned"


def test_files_that_change_before_they_are_scored_are_refused(folder):
    run = train_job(read_job(folder / "job.toml"))
    sheets = [cn.read(folder / "new-clinic.csv", id="mail", name="clinic")]
    sheets.append(cn.read(folder / "new-lab.parquet", id="who", name="lab"))
    change(folder / "new-clinic.csv", "cook", "baker")
    with pytest.raises(TableError, match="the files of 'clinic' have changed"):
        cn.score(run, sheets, mode="plain")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("test = 0.25", "test = nan", "test=nan is out of range"),
        ("test = 0.25", "test = inf", "test=inf is out of range"),
        ("test = 0.25", "numbers = 'std'", "unknown scale of numbers 'std'"),
        ("test = 0.25", "categories = 'onehot'", "did you mean 'one-hot'"),
        ("minimum = 20", "normalise = ['trimm']", "did you mean 'trim'"),
        ("epochs = 4", "task = 'value'", "unknown task 'value'"),
        ('id = "mail"', 'id = "mail"\ndelimiter = ";;"', "delimiter=';;' is not one character"),
    ],
)
def test_what_cannot_be_done_is_said_before_ids_are_compared(folder, monkeypatch, old, new, sentence):
    monkeypatch.setattr("colonnade.jobs.table_sections.align", None)
    change(folder / "job.toml", old, new)
    assert sentence in refused(colonnade("train", folder / "job.toml", "--folder", folder / "run"))
    assert not (folder / "run").exists()


def test_a_resumed_job_says_which_fact_differs_and_compares_no_ids_of_other_files(folder, monkeypatch):
    place = folder / "run"
    assert colonnade("train", folder / "job.toml", "--folder", place, "--quiet").exit_code == 0
    change(folder / "job.toml", "test = 0.25", "test = 0.3")
    differs = refused(colonnade("train", folder / "job.toml", "--folder", place, "--resume", "--quiet"))
    assert "has data's files prepare test 0.25, but the job says 0.3" in differs
    change(folder / "clinic.csv", "cook", "baker")
    monkeypatch.setattr("colonnade.jobs.table_sections.align", None)
    result = colonnade("train", folder / "job.toml", "--folder", place, "--resume", "--quiet")
    assert "the files of 'clinic' are not those" in refused(result)


def test_a_class_that_only_held_out_rows_have_is_learnt_as_one(folder):
    gathered = gather(read_job(folder / "job.toml"))
    (who,) = gathered.test[0].ids[:1]
    lines = [line.split(",") for line in (folder / "clinic.csv").read_text().splitlines()]
    for line in lines:
        line[-1] = '"zombie"' if line[0].strip('"').lower() == who else line[-1]
    (folder / "clinic.csv").write_text("\n".join(map(",".join, lines)))
    job = read_job(folder / "job.toml")
    run, test = train_job(job), gather(job).test
    assert run.names == ("no", "yes", "zombie") and run.predict(test).shape[1] == 3
    assert 0 < run.evaluate(test)["accuracy"] < 1


def test_scores_are_the_same_whatever_is_prepared_at_once(folder, monkeypatch):
    run = train_job(read_job(folder / "job.toml"))
    sheets = [cn.read(folder / "new-clinic.csv", id="mail", name="clinic")]
    sheets.append(cn.read(folder / "new-lab.parquet", id="who", name="lab"))
    whole = cn.score(run, sheets, mode="plain", missing="zero")
    monkeypatch.setattr("colonnade.study.score_files.CHUNK", 7)
    monkeypatch.setattr("colonnade.study.score_files.CHUNK_BYTES", 1)
    parts = cn.score(run, sheets, mode="plain", missing="zero")
    assert parts.ids.tolist() == whole.ids.tolist() and torch.allclose(parts.values, whole.values)


def test_a_folder_that_cannot_be_written_to_still_predicts(folder):
    gathered = gather(read_job(folder / "job.toml"))
    run = train_job(read_job(folder / "job.toml"), folder / "run", gathered=gathered)
    before = sorted(path.stat().st_mtime_ns for path in (folder / "run").rglob("*"))
    opened = cn.resume(folder / "run", train=False)
    torch.testing.assert_close(opened.predict(gathered.test), run.predict(gathered.test))
    assert sorted(path.stat().st_mtime_ns for path in (folder / "run").rglob("*")) == before, "nothing was written"
