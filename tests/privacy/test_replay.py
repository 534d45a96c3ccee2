"""A run that nobody recorded is trained again, and gives the view that recording would have given, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
import views
from colonnade.errors import CheckpointError, ConfigError
from colonnade.privacy.replay import replayed, view_of
from colonnade.wire.view import View


def tables(rows: int = 60, shift: float = 0.0) -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 6)).astype(np.float32)
    y = (x @ rng.normal(size=(6, 3))).argmax(1)
    return cn.split(x + np.float32(shift), y, [[0, 1], [2, 3], [4, 5]])


def train(**more: Any) -> cn.Run:
    settings = {"method": "vimadmm", "epochs": 3, "batch": 16, "valid": 0.2, "runtime": "fused"}
    return cn.train(tables(), **{**settings, **more})


def check_like_recorded(view: View, **more: Any) -> None:
    views.check_same(view, train(record=True, **more).view)


@pytest.mark.parametrize("runtime", ["loop", "fused", "bytes"])
def test_a_run_is_replayed_exactly(runtime: str) -> None:
    check_like_recorded(replayed(train(runtime=runtime), tables()), runtime=runtime)


@pytest.mark.parametrize("seal", [cn.Bits(4, feedback=True), cn.Noise(epsilon=50.0, clip=1.0), cn.Blind()], ids=repr)
def test_a_sealed_run_is_replayed_exactly(seal: Any) -> None:
    more = {"seal": seal, "method": "vimadmm-j"}
    run = train(**more)
    run.predict(tables(20))  # spends of the budgets
    check_like_recorded(replayed(run, tables()), **more)


def test_a_folder_is_replayed(tmp_path: Path) -> None:
    train(folder=tmp_path / "run", stop_drop=1.0)
    check_like_recorded(replayed(tmp_path / "run", tables()), stop_drop=1.0)


def test_a_run_behind_requests_is_replayed_in_one_process() -> None:
    check_like_recorded(replayed(train(runtime="apart"), tables()), runtime="loop")


def test_an_interrupted_run_is_replayed_as_far_as_it_came(tmp_path: Path) -> None:
    def stop(run: cn.Run) -> None:
        if run.round == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(folder=tmp_path / "run", on_round=stop)
    rounds = {one.round for one in replayed(tmp_path / "run", tables()).seen if one.purpose == "train"}
    assert rounds == {0, 1, 2}, "the newest checkpoint is that of the first epoch"


def test_a_recorded_run_is_not_replayed(tmp_path: Path) -> None:
    run = train(record=True, folder=tmp_path / "run")
    for one in (run, tmp_path / "run"):
        views.check_same(view_of(one, tables(shift=1.0)), run.view)
        views.check_same(view_of(one), run.view)


def test_without_record_and_without_tables_there_is_one_sentence(tmp_path: Path) -> None:
    run = train(folder=tmp_path / "run")
    with pytest.raises(ConfigError, match="nothing was recorded of this run; train it with record=True, or give its"):
        view_of(run)
    with pytest.raises(CheckpointError, match="has no recorded view; record one with"):
        view_of(tmp_path / "run")


def test_other_tables_are_refused() -> None:
    run = train()
    with pytest.raises(CheckpointError, match="was trained on other tables than those given"):
        replayed(run, tables(70))
    with pytest.raises(CheckpointError, match=r"trained again, it came to another '.*' in the state of"):
        replayed(run, tables(shift=0.01))  # the same ids and shapes


def test_a_run_that_does_not_repeat_is_refused() -> None:
    dropping = train(when_absent="without", missing="zero", absent=lambda round: ["party 2"] if round == 3 else [])
    with pytest.raises(ConfigError, match="parties were absent from 1 rounds of the run"):
        replayed(dropping, tables())
