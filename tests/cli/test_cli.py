import json
import os
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_config import EXAMPLE, SMALL
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.report.summary import read_summary
from colonnade.seal import SEALS
from ctrl_c import hearing

ROOT = Path(__file__).parents[2]


def colonnade(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(result):
    """The one line that a refused command prints."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and line.endswith(".") and "Traceback" not in line
    return line


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job(here):
    path = here / "job.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def trained(job):
    assert colonnade("train", job, "--folder", "run", "--quiet").exit_code == 0
    return job.parent / "run"


# what each verb gives


def test_train_writes_a_run_folder(job):
    result = colonnade("train", job)
    folder = job.parent / "runs" / "vafl-digits-0"
    assert result.exit_code == 0
    assert "vafl on digits: accuracy" in result.stdout and "runs/vafl-digits-0/report.html" in result.stdout
    assert "4/4 rounds" in result.stderr
    names = {path.name for path in folder.iterdir()}
    assert names == {"checkpoints", "config.json", "history.csv", "ledger.csv", "report.html"}


def test_json_is_one_object_and_nothing_else(job):
    result = colonnade("train", job, "--json", "--quiet")
    found = json.loads(result.stdout)
    assert result.stderr == ""
    assert (found["method"], found["rounds"], found["measured_on"]) == ("vafl", 4, "test")
    assert 0 <= found["metrics"]["accuracy"] <= 1 and found["train_bytes"] > 0


def test_flag_for_the_folder_wins_over_the_job(job):
    job.write_text(SMALL + 'folder = "mine"\n')
    assert json.loads(colonnade("train", job, "--json").stdout)["folder"] == "mine"
    assert json.loads(colonnade("train", job, "--json", "--folder", "other").stdout)["folder"] == "other"


def test_resume_after_ctrl_c_is_exact(job, monkeypatch):
    job.write_text(SMALL.replace("epochs = 2", "epochs = 4"))
    assert colonnade("train", job, "--folder", "whole").exit_code == 0

    def stop_in_round_five(progress, label):
        def on_round(run):
            if run.round == 5:
                raise KeyboardInterrupt

        return on_round

    with monkeypatch.context() as patch:
        patch.setattr("colonnade.cli.train_command.follow", stop_in_round_five)
        stopped = colonnade("train", job, "--folder", "a run")
    assert stopped.exit_code == 130
    (line,) = stopped.stderr.splitlines()
    command = line.removeprefix("interrupted; go on with: ")
    assert shlex.split(command) == ["colonnade", "train", str(job), "--folder", "a run", "--resume"]
    assert colonnade(*shlex.split(command)[1:]).exit_code == 0
    scores = [[row["test_loss"] for row in read_summary(folder)["history"]] for folder in ("whole", "a run")]
    assert scores[0] == scores[1]


def test_report_about_several_runs(trained):
    shutil.copytree(trained, "second")
    result = colonnade("report", trained, "second", "--out", "both.html")
    assert result.exit_code == 0 and result.stdout == "report: both.html\n"
    assert "second" in Path("both.html").read_text()
    found = json.loads(colonnade("report", trained, "--json").stdout)
    assert found["report"] == "report.html" and found["runs"][0]["method"] == "vafl"
    assert found["not_comparable"] == [] and Path("both-files/accuracy-by-round.svg").is_file()


def test_report_about_runs_that_cannot_be_compared(trained):
    train, test = cn.load("breast_cancer", parties=2)
    cn.train(train, "vafl", rounds=2, test=test, folder="cancer")
    result = colonnade("report", trained, "cancer", "--no-pictures")
    assert result.exit_code == 0 and result.stdout == "report: report.html\n"
    told = "run cannot be compared with cancer: they differ in data (digits, breast_cancer)"
    assert result.stderr.startswith(f"note: {told}") and told in Path("report.html").read_text()
    assert not Path("report-files").exists()


def test_methods_are_listed():
    table = colonnade("methods").stdout
    found = json.loads(colonnade("methods", "--json").stdout)
    assert set(found) == set(cn.methods())
    assert all(name in table for name in found)
    assert "not declared" not in table and "leaks" in table and "read" in table
    gradient = next(one for one in found["splitnn"]["discloses"] if one["secret"] == "labels")
    assert (gradient["step"], gradient["way"]) == ("follow", "down")
    assert gradient["level"] == "read" and "one known label of each class" in gradient["given"]
    assert found["vimadmm"]["options"]["rho"] == 1.0 and found["vimadmm"]["labels"] == "shown"


def test_one_method_is_shown_with_options_and_source():
    text = colonnade("methods", "vimadmm").stdout
    assert "local_steps" in text and "Algorithm 2" in text and "shows the labels" in text
    assert json.loads(colonnade("methods", "vafl", "--json").stdout)["name"] == "vafl"


def test_data_sets_are_listed():
    found = json.loads(colonnade("data", "--json").stdout)
    assert found["digits"]["available"] and found["digits"]["rows"] == [1437, 360]
    assert "CC BY 4.0" in colonnade("data").stdout


def test_version_and_help():
    assert colonnade("--version").stdout == f"colonnade {cn.__version__}\n"
    for verb in ("demo", "train", "methods", "seals", "data", "report"):
        assert f"Example: colonnade {verb}" in colonnade(verb, "--help").stdout


# what is refused, in one sentence


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('"vafl"', '"vimadm"', "unknown method 'vimadm'; did you mean 'vimadmm'?"),
        ("[train]", "[method]\nlearn_weight = true\n[train]", "did you mean 'learn_weights'?"),
        ("batch = 100", "batch = 1000", "batch=1000 does not fit a table with 200 training rows"),
        ("[train]", "[train", "not valid TOML"),
        ('"digits"', '"digit"', "unknown data set 'digit'; did you mean 'digits'?"),
        ("parties = 2", "parties = 9", "9 parties cannot share 8 image rows"),
        ("epochs = 2", "epochs = 2\nrounds = 2", "both given"),
        ("epochs = 2", 'runtime = "fuse"', "unknown runtime 'fuse'; did you mean 'fused'?"),
        ("epochs = 2", "stop_drop = 1", "stop_drop needs validation rows"),
        ("epochs = 2", "valid = 1.5", "valid=1.5 is not a share"),
        ("[train]", '[[model]]\nkind = "mlp"\n[train]', "1 builders for 2 parties"),
    ],
)
def test_bad_jobs_are_refused(job, before, after, told):
    job.write_text(SMALL.replace(before, after))
    assert told in refused(colonnade("train", job))
    assert not Path("runs").exists() or not any(Path("runs").rglob("*.html"))


def test_values_that_stop_being_numbers_are_told(job):
    job.write_text(SMALL + "[method]\nlr = 1e30\n")
    assert "lower the learning rate" in refused(colonnade("train", job, "--quiet"))


def test_missing_job_is_refused(here):
    assert "none.toml cannot be read" in refused(colonnade("train", "none.toml"))


def test_unwritable_folder_is_refused(job):
    assert "cannot be written" in refused(colonnade("train", job, "--folder", job / "run"))
    assert "cannot be written" in refused(colonnade("demo", "--folder", job / "demo"))


def test_folder_in_use_is_refused(job, trained):
    assert "is not empty; add --resume" in refused(colonnade("train", job, "--folder", trained))


def test_resume_refuses_foreign_and_damaged_folders(job, trained):
    assert "is not a run folder" in refused(colonnade("train", job, "--folder", "none", "--resume"))
    job.write_text(SMALL + "seed = 1\n")
    assert "has seed 0, but the job says 1" in refused(colonnade("train", job, "--folder", trained, "--resume"))
    job.write_text(SMALL)
    newest = max((trained / "checkpoints").iterdir())
    (newest / "owner.safetensors").write_bytes(b"torn")
    assert "is damaged: owner.safetensors" in refused(colonnade("train", job, "--folder", trained, "--resume"))
    (newest / "manifest.json").write_text("{}")
    assert "it is foreign" in refused(colonnade("train", job, "--folder", trained, "--resume"))


def test_report_refuses_foreign_and_damaged_folders(here, trained):
    assert "is not a run folder" in refused(colonnade("report", here))
    newest = max((trained / "checkpoints").iterdir())
    (newest / "manifest.json").write_text((newest / "manifest.json").read_text().replace("vafl", "fdml"))
    assert "does not match its digest" in refused(colonnade("report", trained))
    (newest / "manifest.json").unlink()
    assert "no manifest.json that can be read" in refused(colonnade("report", trained))


def test_report_refuses_a_page_below_a_file(trained):
    assert "cannot be written" in refused(colonnade("report", trained, "--out", trained / "config.json" / "page.html"))


def test_unknown_method_name_is_refused():
    assert "did you mean 'vimadmm'?" in refused(colonnade("methods", "vimadm"))


def test_demo_touches_no_other_folder(here):
    (here / "colonnade-demo" / "vafl").mkdir(parents=True)
    (here / "colonnade-demo" / "vafl" / "thesis.txt").write_text("years of work")
    assert "holds more than the run of an earlier demo" in refused(colonnade("demo"))
    assert (here / "colonnade-demo" / "vafl" / "thesis.txt").exists()


@pytest.mark.parametrize("words", [("trian",), ("train",), ("train", "a", "b"), ("report",), ("demo", "--fold", "x")])
def test_bad_usage_exits_with_two(words):
    result = colonnade(*words)
    assert result.exit_code == 2 and "Traceback" not in result.output


# for real: processes, the demo, the examples


def command(*words):
    return [sys.executable, "-c", "from colonnade.cli import main; main()", *map(str, words)]


def test_real_process_prints_one_sentence(job):
    job.write_text(SMALL.replace("vafl", "vimadm"))
    done = subprocess.run(command("train", job), capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: unknown method 'vimadm'") and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_real_ctrl_c(job):
    job.write_text(SMALL.replace("epochs = 2", "epochs = 100000"))
    with subprocess.Popen(hearing(command("train", job)), stderr=subprocess.PIPE, text=True) as process:
        folder = job.parent / "runs" / "vafl-digits-0"
        deadline = time.monotonic() + 60
        while not (folder / "history.csv").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        try:
            told = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode == 130
    assert "--resume" in told.splitlines()[-1] and "Traceback" not in told
    assert read_summary(folder)["round"] >= 0


LOADING = [  # the installed script, which pip writes so, and the module
    ["{script}", "methods"],
    [sys.executable, "-m", "colonnade", "methods"],
]


WAITS = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"


@pytest.mark.parametrize(
    ("module", "told"), [("typer", b""), ("torch", b"interrupted; nothing is left to do.\n")], ids=["typer", "torch"]
)
@pytest.mark.parametrize("words", LOADING, ids=["script", "module"])
def test_ctrl_c_while_it_loads_ends_quietly(words, module, told, tmp_path):
    """Before there is a command at all, and at the first module of PyTorch, long before a verb does something."""
    script = tmp_path / "colonnade"
    script.write_text(f"#!{sys.executable}\nfrom colonnade.cli import main\nmain()\n")
    script.chmod(0o700)
    (tmp_path / f"{module}.py").write_text(WAITS)
    paths = os.pathsep.join([str(tmp_path), str(Path(cn.__file__).parent.parent)])
    done = subprocess.run(
        hearing([word.format(script=script) for word in words]),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", told)


def test_a_program_that_uses_the_package_keeps_its_ctrl_c():
    code = "import signal, colonnade; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run(hearing([sys.executable, "-c", code]), check=True)


@pytest.mark.long  # `make demo` runs it, too
def test_demo_tells_the_whole_story(here):
    first = json.loads(colonnade("demo", "--json").stdout)
    slow, fast, sealed = first["runs"]
    assert (slow["method"], fast["method"], sealed["method"]) == ("vafl", "vimadmm", "vimadmm-j")
    assert first["goal"] >= 0.92 and slow["ratio"] > 3 * fast["ratio"] > 9 * sealed["ratio"]
    assert [seal["kind"] for seal in sealed["seals"]] == ["blind", "bits", "random-labels"]
    assert Path(first["report"]).is_file() and (here / "colonnade-demo" / "vafl" / "config.json").is_file()


def test_demo_prints_a_table_and_starts_over(here, monkeypatch):
    monkeypatch.setattr("colonnade.cli.demo_command.EPOCHS", 1)
    assert colonnade("demo").exit_code == 0
    again = colonnade("demo").stdout
    assert "ratio" in again and "This is one seed" in again
    assert "vimadmm: The parties sent embeddings" in again
    assert again.count("can read the labels of the rows (read)") == 2, "of vafl and vimadmm"
    assert "noisy labels of the rows only (leaks). " in again and "drawn once, with epsilon 4.0" in again
    assert "report: colonnade-demo/report.html" in again


@pytest.mark.parametrize(("name", "least"), [("job.toml", 0.9), ("sealed.toml", 0.9), ("apfed.toml", 0.55)])
def test_example_jobs_run(here, name, least):
    found = json.loads(colonnade("train", EXAMPLE.with_name(name), "--json", "--quiet").stdout)
    assert found["metrics"]["accuracy"] > least


def test_seals_are_listed(here):
    listed = json.loads(colonnade("seals", "--json").stdout)
    assert set(listed) == set(SEALS) and listed["bits"]["options"]["bits"] == 4
    assert "[[seal]]" in colonnade("seals").stdout


def test_quickstart_runs(here, capsys):
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"))
    printed = capsys.readouterr().out
    assert "accuracy" in printed and "party 4" in printed
    assert (here / "report.html").is_file()
