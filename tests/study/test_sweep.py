"""Sweeps: the whole grid, over processes, going on after an interruption, failures told, one table."""

from __future__ import annotations

import csv
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.errors import ConfigError, FolderError
from colonnade.study.sweep import grid as sweeping
from colonnade.study.sweep.sweep_table import Sweep

DIGITS = {"load": "digits", "parties": 2, "rows": 100}
METHOD = cn.VIMADMM(local_steps=2)
OVER: dict[str, Any] = {"rho": [0.5, 2.0], "seed": [0, 1]}


def sweep(folder: Path, over: dict[str, Any] = OVER, **more: Any) -> Sweep:
    options = {"data": DIGITS, "method": METHOD, "epochs": 1, "batch": 50, "processes": 1} | more
    return cn.sweep(over=over, folder=folder, **options)


def counted(seen: list[Any], row: dict[str, Any]) -> None:
    seen.append(row)


def test_the_grid_is_complete_and_each_point_is_its_run(tmp_path: Path) -> None:
    found = sweep(tmp_path)
    assert [(row["rho"], row["seed"]) for row in found.rows] == [(0.5, 0), (0.5, 1), (2.0, 0), (2.0, 1)]
    rows, test = cn.load("digits", 2, rows=100)
    run = cn.train(rows, cn.VIMADMM(local_steps=2, rho=2.0), seed=1, epochs=1, batch=50, test=test)
    for name in ("test_accuracy", "test_loss", "train_loss", "bytes", "round"):
        assert found.rows[3][name] == run.history[-1][name]
    assert found.heads[3] == run.importance()


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    def interrupt(row: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, on_point=interrupt)
    assert len(list(tmp_path.glob("*.json"))) == 2, "one point and what all have in common"
    seen: list[dict[str, Any]] = []
    whole = sweep(tmp_path, on_point=functools.partial(counted, seen))
    assert len(seen) == 3 and len(whole.rows) == 4
    assert sweep(tmp_path, on_point=functools.partial(counted, seen)).rows == whole.rows and len(seen) == 3
    more = sweep(tmp_path, OVER | {"seed": [0, 1, 2]}, on_point=functools.partial(counted, seen))
    assert len(seen) == 5 and len(more.rows) == 6, "only the new seed is trained"


def test_half_a_file_is_no_point(tmp_path: Path) -> None:
    whole = sweep(tmp_path, {"seed": [0]})
    (point,) = (place for place in tmp_path.glob("*.json") if place.name != "sweep.json")
    point.write_text(point.read_text()[:20])
    again = sweep(tmp_path, {"seed": [0]})
    assert again.rows[0]["test_accuracy"] == whole.rows[0]["test_accuracy"]


@pytest.mark.slow
def test_processes_find_the_same(tmp_path: Path) -> None:
    rows, test = cn.load(DIGITS["load"], DIGITS["parties"], rows=DIGITS["rows"])
    here = sweep(tmp_path / "here", data=rows, test=test)
    over = OVER | {"rho": [0.5, -1.0]}
    there = sweep(tmp_path / "there", over, data=rows, test=test, processes=2, model=cn.MLP())
    for one, other in zip(here.rows[:2], there.rows[:2], strict=True):
        assert one["test_accuracy"] == other["test_accuracy"] and one["seed"] == other["seed"]
    assert [row["error"] for row in there.rows[2:]] == ["vimadmm: rho=-1.0 is out of range; it must be positive."] * 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epochs": 2}, "other options, epochs=1 instead of 2"),
        ({"method": cn.VIMADMM(local_steps=3)}, "other method, local_steps=2 instead of 3"),
        ({"data": DIGITS | {"rows": 99}}, "other data, rows=100 instead of 99"),
        ({"seal": cn.Bits(4)}, "other options, seal="),
        ({"model": cn.MLP((3,))}, "other options, model="),
    ],
)
def test_another_base_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    sweep(tmp_path, {"seed": [0]})
    with pytest.raises(FolderError, match=f"holds a sweep with {told}"):
        sweep(tmp_path, {"seed": [0]}, **change)


def test_other_tables_are_another_base(tmp_path: Path) -> None:
    rows, test = cn.load("digits", 2, rows=100)
    sweep(tmp_path, {"seed": [0]}, data=rows, test=test)
    with pytest.raises(FolderError, match="other data, which are not those given"):
        sweep(tmp_path, {"seed": [0]}, data=cn.with_noise(rows, "party 1", 0.1), test=test)


def test_failing_points_are_told_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sweep(tmp_path, {"lr": [0.1, -1.0]})
    assert [row["lr"] for row in found.failed] == [-1.0] and found.best()["lr"] == 0.1
    assert "lr=-1.0 is out of range" in str(found) and "lr=-1.0" in found.failed[0]["error"]

    def broken(*_: Any) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "result_at", broken)
        only = sweep(tmp_path, {"lr": [0.2]})
    assert only.rows == [{"lr": 0.2, "error": "MemoryError: no room"}]
    with pytest.raises(ConfigError, match="all points of this sweep failed, so none is the best; the first: Memory"):
        only.best()
    assert "test_accuracy" in sweep(tmp_path, {"lr": [0.2]}).rows[0], "not kept, so tried again"


def test_bits_parties_and_rows(tmp_path: Path) -> None:
    found = sweep(tmp_path, {"bits": [None, 4], "parties": [2, 4], "rows": [60]})
    whole, *_, few = (row["bytes"] for row in found.rows)
    assert len(found.rows) == 4 and found.rows[1]["bytes"] > whole > few
    assert [len(heads) for heads in found.heads] == [2, 4, 2, 4]
    with pytest.raises(ConfigError, match="or the parties differ"):
        found.importance()


def test_means_over_seeds(tmp_path: Path) -> None:
    found = sweep(tmp_path, OVER | {"rho": [0.5, 2.0, -1.0]})
    means = found.mean_over("seed")
    assert [row["rho"] for row in means.rows] == [0.5, 2.0, -1.0] and means.over == ("rho",)
    pair = [row["test_accuracy"] for row in found.rows[:2]]
    assert means.rows[0]["test_accuracy"] == pytest.approx(np.mean(pair))
    assert means.rows[0]["test_accuracy spread"] == pytest.approx(np.std(pair, ddof=1))
    assert means.rows[0]["runs"] == 2 and means.rows[2]["runs"] == 0 and "out of range" in means.rows[2]["error"]
    heads = found.importance()
    assert heads.each["party 1"] == pytest.approx(np.mean([one["party 1"] for one in found.heads if one]))
    assert heads.spread["party 1"] > 0 and "of 4 runs" in str(heads)


def test_the_table(tmp_path: Path) -> None:
    found = sweep(tmp_path / "sweep", {"seed": [0, 1]})
    with found.to_csv(tmp_path / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["0", "1"]
    assert float(rows[1]["test_accuracy"]) == found.rows[1]["test_accuracy"]
    head, *lines = str(found).splitlines()
    assert head.split()[:2] == ["seed", "test_accuracy"] and len(lines) == 2
    assert found.best("test_loss")["test_loss"] == min(row["test_loss"] for row in found.rows)
    with pytest.raises(ConfigError, match="unknown metric of this sweep 'accuracy'; did you mean 'test_accuracy'"):
        found.best("accuracy")
    with pytest.raises(ConfigError, match="unknown key of this sweep 'rho'"):
        found.mean_over("rho")


@pytest.mark.parametrize(
    ("over", "options", "told"),
    [
        ({}, {}, "over={} names nothing to sweep over"),
        ({"rh": [1]}, {}, "unknown key to sweep over 'rh'; did you mean 'rho'"),
        ({"rho": 1}, {}, r"over= has rho=1; give a list of values"),
        ({"rho": []}, {}, r"over= has rho=\[\]; give a list of values"),
        ({"rho": "12"}, {}, "over= has rho='12'; give a list"),
        ({"rho": [object()]}, {}, "over= holds a value that cannot be written down"),
        ({"epochs": [1], "rounds": [3]}, {}, "over= has epochs and rounds"),
        (OVER, {"processes": 0}, "processes=0 is out of range"),
        (OVER, {"epoch": 1}, "unknown option of train 'epoch'; did you mean 'epochs'"),
        (OVER, {"on_round": print}, "on_round= is for one run"),
        (OVER, {"data": {"parties": 3}}, "names no data set"),
        (OVER, {"data": {"load": "digits", "party": 3}}, "unknown option of load 'party'; did you mean 'parties'"),
        (OVER, {"test": []}, "brings its own test rows"),
        ({"parties": [2]}, {"data": cn.load("digits", 2)[0]}, "over= has 'parties', which says how data are loaded"),
        (OVER, {"processes": 2, "model": lambda *_: None}, "cannot send them a model or optimiser of your own"),
    ],
)
def test_bad_input_is_told(tmp_path: Path, over: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        sweep(tmp_path, over, **options)


# the command

JOB = """
[data]
load = "digits"
parties = 2
rows = 100

[train]
method = "vimsgd"
epochs = 1
batch = 50

[model]
kind = "mlp"
hidden = [8]
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def colonnade(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command(job: Path) -> None:
    words = ["sweep", job, "--over", "lr=0.1,0.3,-1", "--over", "seed=0,1", "--folder", "runs/s", "--processes", 1]
    shown = colonnade(*words)
    assert shown.exit_code == 0, shown.output
    assert "lr=0.1, seed=1: test_accuracy" in shown.stderr and "out of range" in shown.stderr
    assert len(shown.stdout.splitlines()) == 1 + 6 + 1 and Path("runs/s/points.csv").exists()
    again = colonnade(*words, "--json", "--mean", "seed")
    found = json.loads(again.stdout)
    assert again.stderr == "" and [row["runs"] for row in found["rows"]] == [2, 2, 0]
    assert {"lr", "test_accuracy", "test_accuracy spread"} <= found["rows"][0].keys()


@pytest.mark.parametrize(
    ("over", "told"),
    [
        (["rho"], "--over 'rho' is not KEY=VALUES; write rho=0.5,1,2"),
        (["seed=0", "seed=1"], "--over names a key twice"),
        (["rho=1"], "unknown key to sweep over 'rho'"),
    ],
)
def test_bad_commands_are_told(job: Path, over: list[str], told: str) -> None:
    result = colonnade("sweep", job, *(word for one in over for word in ("--over", one)), "--folder", "s")
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 2 and line.startswith("error: ") and told in line


def test_a_job_that_selects_is_refused(job: Path) -> None:
    job.write_text(JOB + "[select]\nshare = 0.5\n")
    assert "a sweep trains with all parties" in colonnade("sweep", job, "--over", "seed=0", "--folder", "s").stderr
