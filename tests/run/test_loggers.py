"""Loggers: every row once, to the real tools where they are installed, and never at the cost of a training."""

import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.errors import ColonnadeWarning, ConfigError
from colonnade.run.loggers import Logger

JOB = '[data]\nload = "digits"\nparties = 2\nrows = 200\n[train]\nmethod = "vafl"\nepochs = 2\nbatch = 100\n'
COLUMNS = {"epoch", "train/loss", "test/accuracy", "test/loss", "bytes", "seconds"}


class Noting(Logger):
    """Keeps what it was told; raises where it is asked to."""

    def __init__(self, failing=()):
        super().__init__()
        self.told, self.failing = [], failing

    def _note(self, what, *more):
        if what in self.failing:
            raise OSError("the server is away")
        self.told.append((what, *more))

    def _begin(self, run):
        self._note("begin")

    def _log(self, round, values):
        self._note("log", round, set(values))

    def _end(self, *, finished):
        self._note("end", finished)


def train(on_round, **how):
    rows, test = cn.load("digits", parties=2, rows=200)
    return cn.train(rows, "vafl", batch=100, test=test, on_round=on_round, **({"epochs": 2} | how))


def test_every_row_is_logged_once():
    logger = Noting()
    train(logger)
    logger.close()
    logger.close()
    assert logger.told == [("begin",), ("log", 2, COLUMNS), ("log", 4, COLUMNS), ("end", True)]


def test_a_second_run_begins_anew():
    logger = Noting()
    for _ in range(2):
        train(logger, epochs=1)
    assert [what for what, *_ in logger.told] == ["begin", "log", "end", "begin", "log"]


def test_what_a_resumed_run_knew_is_not_logged_again(tmp_path):
    train(None, folder=tmp_path / "run")
    logger = Noting()
    rows, test = cn.load("digits", parties=2, rows=200)
    cn.resume(tmp_path / "run", rows, epochs=3, test=test, on_round=logger)
    assert [told[:2] for told in logger.told] == [("begin",), ("log", 6)]


def test_an_unfinished_run_says_so():
    logger = Noting()

    def stop(run):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(cn.together(logger, stop))
    logger.close()
    assert logger.told == [("begin",), ("end", False)]


def test_a_tool_that_fails_costs_no_training():
    with pytest.warns(ColonnadeWarning, match="Noting did not take all of the history: the server is away"):
        assert train(Noting(["log"])).round == 4
    with pytest.raises(ConfigError, match="cannot log this run: the server is away"):
        train(Noting(["begin"]))


def test_together_calls_in_order():
    called = []
    cn.together(called.append, lambda run: called.append("second"))(SimpleNamespace())
    assert called[1:] == ["second"] and len(called) == 2


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [("mlflow", cn.MLflow, "mlflow"), ("torch.utils.tensorboard", lambda: cn.TensorBoard("x"), "tensorboard")],
)
def test_a_missing_package_is_told(monkeypatch, module, make, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"pip install 'colonnade\[{extra}\]'"):
        make()


def test_unknown_loggers_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    done = CliRunner().invoke(app, ["train", "job.toml", "--log", "tensorbord"])
    assert done.exit_code == 2 and "unknown logger 'tensorbord'; did you mean 'tensorboard'?" in done.stderr
    assert not (tmp_path / "runs").exists()


# the real tools


def test_tensorboard_reads_what_was_logged(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    done = CliRunner().invoke(app, ["train", "job.toml", "--log", "tensorboard", "--folder", "run", "--quiet"])
    assert done.exit_code == 0, done.output
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert set(found.Tags()["scalars"]) == COLUMNS
    assert [event.step for event in found.Scalars("test/accuracy")] == [2, 4]
    assert found.Scalars("bytes")[-1].value > 0


def test_mlflow_has_the_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv(
        "MLFLOW_ALLOW_FILE_STORE", "true"
    )  # or it wants a database, for which its small form has no driver
    uri = (tmp_path / "store").as_uri()
    logger = cn.MLflow(uri, experiment="mine", name="first")
    run = train(logger)
    logger.close()
    client = mlflow.MlflowClient(uri)
    (found,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
    assert found.data.params["method/name"] == "vafl" and found.data.params["batch"] == "100"
    logged = [(one.step, one.value) for one in client.get_metric_history(found.info.run_id, "test/accuracy")]
    assert logged == [(row["round"], pytest.approx(row["test_accuracy"])) for row in run.history]
