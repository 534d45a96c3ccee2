"""Resuming is exact: a run in pieces equals the undisturbed one, bit for bit, however it was interrupted."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import colonnade as cn
from colonnade.core import method as registry
from colonnade.core.state import pack
from colonnade.errors import CheckpointError, ColonnadeError, FolderError

ROWS = 48
X = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(0)).numpy()
Y = (X[:, 0] + X[:, 3] - X[:, 6] > 0).astype(int) + (X[:, 1] > 1)
TRAIN, TEST = cn.split(X[:40], Y[:40], 4), cn.split(X[40:], Y[40:], 4)

VAFL = cn.VAFL(embedding=6, momentum=0.9, lr=0.1)
VIMADMM = cn.VIMADMM(embedding=6, local_steps=3)
VIMADMMJ = cn.VIMADMMJ(embedding=6, local_steps=3)


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


class KilledError(Exception):
    """Stands for a power cut."""


def noisy(shape: tuple[int, ...], width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(shape[0], 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(8, width),
        nn.BatchNorm1d(width),
    )


def kill_at(number: int) -> Callable[[cn.Run], None]:
    def on_round(run: cn.Run) -> None:
        if run.round >= number:
            raise KilledError

    return on_round


def in_pieces(folder: Path, at: list[int], again: dict[str, Any], **options: Any) -> cn.Run:
    """Train until the first number, be killed, resume until the next, and at last to the end."""
    with pytest.raises(KilledError):
        cn.train(TRAIN, folder=folder, on_round=kill_at(at[0]), **options)
    for number in at[1:]:
        with pytest.raises(KilledError):
            cn.resume(folder, TRAIN, on_round=kill_at(number), **again)
    return cn.resume(folder, TRAIN, **again)


def assert_equal(one: cn.Run, two: cn.Run) -> None:
    assert one.round == two.round and one.stopped == two.stopped
    sides = zip([one.owner.kept(), *one.parties.states()], [two.owner.kept(), *two.parties.states()], strict=True)
    for mine, yours in ((pack(a), pack(b)) for a, b in sides):
        assert mine.keys() == yours.keys()
        for name, value in mine.items():
            assert value.dtype == yours[name].dtype and torch.equal(value, yours[name]), name
    assert told(one) == told(two)
    assert one.ledger.to_json() == two.ledger.to_json()


def told(run: cn.Run) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in run.history]


# In pieces, in this process


@pytest.mark.parametrize(
    ("method", "runtime"),
    [(VAFL, "loop"), (VIMADMM, "loop"), (VIMADMMJ, "loop"), (VIMADMMJ, "bytes")],
    ids=lambda value: getattr(value, "name", value),
)
def test_with_dropout_and_batch_norm(tmp_path: Path, method: cn.Method, runtime: str) -> None:
    options = {
        "method": method,
        "rounds": 11,
        "batch": 7,
        "valid": 0.2,
        "evaluate_every": 2,
        "model": noisy,
        "runtime": runtime,
    }
    undisturbed = cn.train(TRAIN, test=TEST, **options)
    resumed = in_pieces(tmp_path, [1, 5, 6], {"model": noisy, "test": TEST}, test=TEST, **options)
    assert_equal(resumed, undisturbed)
    assert [row["round"] for row in resumed.history] == [2, 4, 6, 8, 10, 11]


@pytest.mark.parametrize("method", [VAFL, VIMADMM, VIMADMMJ, cn.FDML(embedding=6)], ids=lambda method: method.name)
@pytest.mark.parametrize("shuffle", ["epoch", "once"])
def test_with_default_nets_fused(tmp_path: Path, method: cn.Method, shuffle: str) -> None:
    options = {
        "method": method,
        "rounds": 11,
        "batch": 7,
        "valid": 0.2,
        "evaluate_every": 3,
        "seed": 3,
        "shuffle": shuffle,
    }
    undisturbed = cn.train(TRAIN, **options)
    assert_equal(in_pieces(tmp_path, [2, 4, 10], {}, **options), undisturbed)


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize("optimizer", [cn.Adam(0.01), cn.Adagrad(0.1)], ids=["adam", "adagrad"])
def test_with_other_optimisers(tmp_path: Path, runtime: str, optimizer: Any) -> None:
    options = {"method": VAFL, "rounds": 9, "batch": 8, "evaluate_every": 2, "runtime": runtime, "optimizer": optimizer}
    assert_equal(in_pieces(tmp_path, [3, 7], {}, **options), cn.train(TRAIN, **options))


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.NAdam,
        torch.optim.Rprop,
        torch.optim.Adafactor,
    ],
)
def test_with_any_optimiser_of_torch(tmp_path: Path, optimizer: Any) -> None:
    options = {"method": VAFL, "rounds": 6, "batch": 8, "evaluate_every": 2, "optimizer": optimizer}
    assert_equal(in_pieces(tmp_path, [3], {"optimizer": optimizer}, **options), cn.train(TRAIN, **options))


def test_with_pictures_fused(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 8, 16), dtype=np.uint8)
    tables = cn.split(pixels, Y[:40], 2, by="columns")
    model = cn.CNN(channels=(4, 4))
    options = {"method": cn.VIMSGD(embedding=4), "batch": 16, "evaluate_every": 2, "model": model}
    with pytest.raises(KilledError):
        cn.train(tables, rounds=6, folder=tmp_path, on_round=kill_at(3), **options)
    assert_equal(cn.resume(tmp_path, tables), cn.train(tables, rounds=6, **options))


def test_an_owner_with_columns(tmp_path: Path) -> None:
    tables = cn.split(X, Y, 3, owner="first")
    for method in (VIMADMMJ, cn.Local(embedding=4)):
        options = {"method": method, "rounds": 6, "batch": 16, "evaluate_every": 2}
        with pytest.raises(KilledError):
            cn.train(tables, folder=tmp_path / method.name, on_round=kill_at(3), **options)
        assert_equal(cn.resume(tmp_path / method.name, tables), cn.train(tables, **options))


def test_killed_before_the_first_evaluation(tmp_path: Path) -> None:
    options = {"method": VAFL, "rounds": 4, "batch": 10, "evaluate_every": 3}
    assert_equal(in_pieces(tmp_path, [1], {}, **options), cn.train(TRAIN, **options))


def test_a_finished_run_is_only_read(tmp_path: Path) -> None:
    done = cn.train(TRAIN, VIMADMM, rounds=4, batch=10, folder=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = cn.resume(tmp_path, TRAIN, on_round=lambda run: pytest.fail("nothing is left to do"))
    assert_equal(again, done)
    assert torch.equal(again.predict(TEST), done.predict(TEST))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


def test_more_epochs_prolong_a_run(tmp_path: Path) -> None:
    options = {"method": VIMADMM, "batch": 10, "evaluate_every": 2}
    cn.train(TRAIN, epochs=1, folder=tmp_path, **options)
    assert_equal(cn.resume(tmp_path, TRAIN, epochs=3), cn.train(TRAIN, epochs=3, **options))
    assert cn.resume(tmp_path, TRAIN).round == 12  # and the longer goal is remembered
    assert cn.resume(tmp_path, TRAIN, epochs=1).round == 12  # fewer do not shorten it


def test_a_saved_run_is_the_run(tmp_path: Path) -> None:
    run = cn.train(TRAIN, VIMADMM, rounds=5, batch=10, evaluate_every=3)
    assert run.save(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert_equal(cn.resume(tmp_path / "a" / "b", TRAIN), run)


def test_tables_of_load_are_found_again(tmp_path: Path) -> None:
    tables, _ = cn.load("digits", parties=3, rows=60)
    options = {"method": cn.VAFL(embedding=4), "rounds": 4, "batch": 30, "evaluate_every": 1}
    with pytest.raises(KilledError):
        cn.train(tables, folder=tmp_path, on_round=kill_at(2), **options)
    assert_equal(cn.resume(tmp_path), cn.train(tables, **options))


def test_the_folder_tells_its_story(tmp_path: Path) -> None:
    run = cn.train(TRAIN, VAFL, rounds=6, batch=10, evaluate_every=2, folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoints",
        "config.json",
        "history.csv",
        "ledger.csv",
    ]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["00000004", "00000006"]
    assert (tmp_path / "ledger.csv").read_text() == run.ledger.to_csv()
    head, *rows = (tmp_path / "history.csv").read_text().splitlines()
    assert head == "round,epoch,train_loss,bytes,seconds" and [row.split(",")[0] for row in rows] == ["2", "4", "6"]


# KilledError for real

CHILD = """
import sys
import colonnade as cn
folder = sys.argv[1]
train, test = cn.load("digits", parties=4, rows=300)
print("ready", flush=True)
from pathlib import Path
if Path(folder, "config.json").exists():
    cn.resume(folder, test=test)
else:
    cn.train(train, "vimadmm", rounds=60, batch=100, valid=0.1, test=test, evaluate_every=1, folder=folder)
print("done", flush=True)
"""


@pytest.mark.long
def test_killed_at_random_moments(tmp_path: Path) -> None:
    luck, kills = random.Random(1), 0
    while True:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child, child.stdout:
            assert child.stdout.readline() == "ready\n"
            if kills < 4:
                time.sleep(luck.uniform(0, 0.5))
                child.send_signal(signal.SIGKILL)
                kills += 1
            finished = "done" in child.stdout.read()
        if finished:
            break
        assert child.returncode == -signal.SIGKILL
    train, test = cn.load("digits", parties=4, rows=300)
    undisturbed = cn.train(train, "vimadmm", rounds=60, batch=100, valid=0.1, test=test, evaluate_every=1)
    assert_equal(cn.resume(tmp_path / "run", test=test), undisturbed)


def test_killed_between_the_checkpoint_and_its_description(tmp_path: Path) -> None:
    cn.train(TRAIN, VAFL, epochs=1, batch=10, folder=tmp_path)
    before = (tmp_path / "config.json").read_text()
    cn.resume(tmp_path, TRAIN, epochs=2)
    (tmp_path / "config.json").write_text(before)  # as if killed before it was written
    assert cn.resume(tmp_path, TRAIN, epochs=2).round == 8


# Early stop: a method whose accuracy follows a script, so that every number is known

SCRIPT = [0.5, 0.75, 0.7, 1.0, 0.9, 0.95, 0.6, 0.5, 0.4]


@dataclass(frozen=True, kw_only=True)
class Scripted(cn.Method):
    """Round k has accuracy SCRIPT[k]."""

    name: ClassVar[str] = "scripted"
    summary: ClassVar[str] = "follows a script"
    party_sends: ClassVar[str] = "nothing"
    owner_sends: ClassVar[str] = "nothing"

    def start(self, owner: cn.Owner) -> None:
        owner.rounds = torch.zeros(1, dtype=torch.int64)

    def round(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        owner.rounds += 1
        return torch.zeros(())

    def predict(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        right = round(SCRIPT[int(owner.rounds) - 1] * len(turn.rows))
        labels = owner.labels(turn)
        labels = torch.where(torch.arange(len(labels)) < right, labels, 1 - labels)
        return torch.nn.functional.one_hot(labels, 2).float()


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setitem(registry._registry, "scripted", Scripted)
    return {"method": "scripted", "rounds": 9, "batch": 20, "valid": 0.5, "evaluate_every": 1, "watch": "accuracy"}


TWO_CLASSES = cn.split(X[:40], Y[:40] > 0, 4)


@pytest.mark.parametrize(
    ("drop", "last", "best"),
    [(1.0, 3, 2), (6.0, 5, 4), (10.1, 7, 4), (40.1, 8, 4), (50.1, 9, 4), (60.1, 9, 4)],
)
def test_it_stops_when_accuracy_falls_and_keeps_the_best(
    stopping: dict[str, Any], drop: float, last: int, best: int
) -> None:
    run = cn.train(TWO_CLASSES, stop_drop=drop, **stopping)
    assert run.round == len(run.history) == last
    assert [row["valid_accuracy"] for row in run.history] == pytest.approx(SCRIPT[:last])
    assert run.stopped == (100 * (max(SCRIPT[:last]) - SCRIPT[last - 1]) > drop)
    assert int(run.owner.rounds) == best
    assert run.evaluate(TWO_CLASSES)["accuracy"] == pytest.approx(SCRIPT[best - 1], abs=0.02)


def test_without_stop_drop_the_last_is_kept(stopping: dict[str, Any]) -> None:
    assert int(cn.train(TWO_CLASSES, **stopping).owner.rounds) == 9


@pytest.mark.parametrize("at", [[4], [5, 6], [6]])
def test_the_best_is_kept_across_a_resume(stopping: dict[str, Any], tmp_path: Path, at: list[int]) -> None:
    undisturbed = cn.train(TWO_CLASSES, stop_drop=10.1, **stopping)
    with pytest.raises(KilledError):
        cn.train(TWO_CLASSES, stop_drop=10.1, folder=tmp_path, on_round=kill_at(at[0]), **stopping)
    for number in at[1:]:
        with pytest.raises(KilledError):
            cn.resume(tmp_path, TWO_CLASSES, on_round=kill_at(number))
    resumed = cn.resume(tmp_path, TWO_CLASSES)
    assert_equal(resumed, undisturbed)
    assert int(resumed.owner.rounds) == 4 and resumed.round == 7


def test_a_run_that_stopped_stays_stopped(stopping: dict[str, Any], tmp_path: Path) -> None:
    cn.train(TWO_CLASSES, stop_drop=10.1, folder=tmp_path, **stopping)
    again = cn.resume(tmp_path, TWO_CLASSES, on_round=lambda run: pytest.fail("it had stopped"))
    assert again.stopped and int(again.owner.rounds) == 4 and again.round == 7


def test_prolonging_a_saved_run_goes_on_from_its_last_round(stopping: dict[str, Any], tmp_path: Path) -> None:
    run = cn.train(TWO_CLASSES, stop_drop=99.0, **{**stopping, "rounds": 6})
    assert int(run.owner.rounds) == 4
    run.save(tmp_path)
    assert int(cn.resume(tmp_path, TWO_CLASSES).owner.rounds) == 4
    seen: list[int] = []
    cn.resume(tmp_path, TWO_CLASSES, epochs=8, on_round=lambda run: seen.append(int(run.owner.rounds)))
    assert seen == [7, 8]


def test_a_real_run_stops_and_resumes_with_its_best(tmp_path: Path) -> None:
    options = {
        "method": cn.VAFL(embedding=4, lr=2.0),
        "rounds": 40,
        "batch": 5,
        "valid": 0.5,
        "evaluate_every": 1,
        "stop_drop": 4.0,
    }
    undisturbed = cn.train(TRAIN, **options)
    assert undisturbed.stopped and undisturbed.round < 40
    assert_equal(in_pieces(tmp_path, [1], {}, **options), undisturbed)


# What is refused


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    cn.train(TRAIN, VAFL, rounds=4, batch=10, evaluate_every=1, folder=folder)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.mark.parametrize(
    "tables",
    [
        cn.split(X[:40], Y[:40], 2),
        cn.split(X[:39], Y[:39], 4),
        cn.split(X[:40], Y[:40], {"a": [0, 1], "b": [2, 3], "c": [4, 5], "d": [6, 7]}),
        [*TRAIN[:1], *TRAIN[:0:-1]],
        TRAIN[:4],
        cn.split(X[:40], Y[:40], 4, owner="first"),
    ],
    ids=["wider", "fewer rows", "other names", "other order", "fewer parties", "owner has columns"],
)
def test_foreign_tables(folder: Path, tables: list[cn.Table]) -> None:
    with pytest.raises(CheckpointError, match="other tables"):
        cn.resume(folder, tables)


def test_the_same_shapes_with_other_ids(folder: Path) -> None:
    with pytest.raises(CheckpointError):
        cn.resume(folder, cn.split(X[:40], Y[:40], 4, ids=np.arange(1000, 1040)), epochs=2)


def test_tables_of_ones_own_must_come_again(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="tables of your own; pass them"):
        cn.resume(folder)


def test_a_model_of_ones_own_must_come_again(tmp_path: Path) -> None:
    cn.train(TRAIN, VAFL, rounds=1, batch=10, folder=tmp_path, model=noisy)
    with pytest.raises(CheckpointError, match="model of your own; pass model="):
        cn.resume(tmp_path, TRAIN)
    with pytest.raises(CheckpointError, match="party 0: weights has tensors"):
        cn.resume(tmp_path, TRAIN, model=cn.MLP((8,)))


def test_an_optimiser_of_ones_own_must_come_again(tmp_path: Path) -> None:
    mine = torch.optim.Adamax
    cn.train(TRAIN, VAFL, rounds=2, batch=10, folder=tmp_path, optimizer=mine)
    with pytest.raises(CheckpointError, match="optimiser of your own; pass optimizer="):
        cn.resume(tmp_path, TRAIN)
    options = {"method": VAFL, "epochs": 1, "batch": 10, "optimizer": mine}
    resumed = cn.resume(tmp_path, TRAIN, epochs=1, optimizer=mine)
    assert resumed.round == 4
    for mine_state, yours in zip(resumed.parties.states(), cn.train(TRAIN, **options).parties.states(), strict=True):
        assert all(torch.equal(value, yours[name]) for name, value in mine_state.items())


def test_another_optimiser_is_refused(folder: Path) -> None:
    with pytest.raises(ColonnadeError):
        cn.resume(folder, TRAIN, epochs=2, optimizer=cn.Adam())


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_serves(folder: Path) -> None:
    newest = folder / "checkpoints" / "00000004"
    raw = bytearray((newest / "party-002.safetensors").read_bytes())
    raw[-1] ^= 1
    (newest / "party-002.safetensors").write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"00000004 is damaged: party-002\.safetensors .* delete it to resume"):
        cn.resume(folder, TRAIN)
    shutil.rmtree(newest)
    assert_equal(cn.resume(folder, TRAIN), cn.train(TRAIN, VAFL, rounds=4, batch=10, evaluate_every=1))


def test_another_runs_checkpoints_are_foreign(folder: Path, tmp_path: Path) -> None:
    cn.train(TRAIN, VAFL, rounds=4, batch=10, seed=1, folder=tmp_path / "other")
    (folder / "config.json").write_text((tmp_path / "other" / "config.json").read_text())
    with pytest.raises(CheckpointError, match="another run"):
        cn.resume(folder, TRAIN)


@pytest.mark.parametrize("text", ["", "{", "5", "[]", "{}", '{"method": 1}'])
def test_a_damaged_config(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json is damaged or foreign"):
        cn.resume(folder, TRAIN)


@pytest.mark.parametrize("part", ['"rounds":', '"name":', '"embedding":'])
def test_a_config_with_a_word_changed(folder: Path, part: str) -> None:
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace(part, part.upper()))
    with pytest.raises(CheckpointError):
        cn.resume(folder, TRAIN)


def test_no_run_at_all(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="not a run folder"):
            cn.resume(path, TRAIN)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(FolderError, match="cannot be written"):
            cn.train(TRAIN, VAFL, rounds=1, batch=10, folder=path)


def test_a_folder_that_holds_another_run(folder: Path) -> None:
    with pytest.raises(FolderError):
        cn.train(TRAIN, VAFL, rounds=2, batch=10, seed=5, folder=folder)


def test_saving_into_another_runs_folder(folder: Path) -> None:
    other = cn.train(TRAIN, VAFL, rounds=2, batch=10, seed=5)
    with pytest.raises(FolderError):
        other.save(folder)
    assert cn.resume(folder, TRAIN).settings.seed == 0


def test_saving_again_and_again(tmp_path: Path) -> None:
    run = cn.train(TRAIN, VAFL, rounds=2, batch=10)
    for _ in range(5):
        run.save(tmp_path)
        run.predict(TEST)
    run.save(tmp_path)
    assert_equal(cn.resume(tmp_path, TRAIN), run)


def test_test_rows_may_come_later(folder: Path) -> None:
    run = cn.resume(folder, TRAIN, epochs=2, test=TEST)
    assert "test_accuracy" in run.history[-1] and "test_accuracy" not in run.history[0]
    assert (folder / "history.csv").read_text().count("\n") == 1 + len(run.history)


def test_test_rows_may_stay_away(tmp_path: Path) -> None:
    cn.train(TRAIN, VAFL, epochs=1, batch=10, folder=tmp_path, test=TEST)
    run = cn.resume(tmp_path, TRAIN, epochs=2)
    assert "test_accuracy" in run.history[0] and "test_accuracy" not in run.history[-1]
