"""Groups of parties on several cores at once: who may use how many, and that no number depends on it."""

import itertools
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.cli.train_command import tell
from colonnade.errors import ColonnadeError
from colonnade.report.summary import RunView, read_summary
from colonnade.runtime import cores as machine
from colonnade.runtime import fused
from colonnade.runtime.cores import at_once, cores, keep_to
from colonnade.runtime.local_backend import LocalBackend


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with four cores of which nobody else wants one."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(machine, "_quota", list)
    monkeypatch.setattr(machine, "_share", [])


def test_the_fewest_cores_that_anybody_allows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() == 4
    for said, expected in (("3", 3), ("2,1", 2), ("9", 4), ("many", 4), ("0", 4)):
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert cores() == expected
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    keep_to(2)
    assert cores() == 2
    keep_to(0)
    assert cores() == 1


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", []), ("150000 100000", [1]), ("400000 100000", [4]), ("", []), ("1 0", [])]
)
def test_a_containers_limit_is_read(monkeypatch, tmp_path, text, expected) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(machine, "QUOTA", tmp_path / "cpu.max")
    (tmp_path / "cpu.max").write_text(text)
    assert machine._quota() == expected


def test_jobs_run_at_once_and_answer_in_their_order() -> None:
    meet = threading.Barrier(2, timeout=20)  # breaks unless two jobs are under way together

    def job(number: int) -> tuple[int, int]:
        meet.wait()
        return number, torch.get_num_threads()

    assert at_once([lambda k=k: job(k) for k in range(4)], 2) == [(k, 1) for k in range(4)]


def test_if_a_job_fails_the_others_have_ended() -> None:
    ended: list[int] = []

    def slow() -> None:
        time.sleep(0.2)
        ended.append(1)

    def wrong() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        at_once([wrong, slow], 2)
    assert ended == [1]


def tables(widths: tuple[int, ...] = (3,) * 6) -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, sum(widths))).astype(np.float32)
    cuts = np.cumsum((0, *widths))
    return cn.split(x, (x[:, 0] > 0).astype(int), [list(range(a, b)) for a, b in itertools.pairwise(cuts)])


def trained(method: str, **options) -> cn.Run:
    return cn.train(tables(), method, rounds=4, batch=64, valid=0.2, **options)


@pytest.mark.parametrize("method", ["vimadmm", "vimadmm-j", "splitnn", "fdml"])
def test_no_number_depends_on_the_cores(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(fused, "CACHE_BYTES", 2 * 64 * 120 * 4)
    monkeypatch.setattr(fused, "LARGE_BYTES", 1)
    several = trained(method)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = trained(method)
    assert (several.parties.backend.cores, one.parties.backend.cores) == (3, 1)
    for side, state in several.model.states().items():
        for name, value in state.items():
            assert torch.equal(value, one.model.states()[side][name]), f"{side}: {name}"


def test_small_groups_and_threads_within_operations_keep_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "CACHE_BYTES", 2 * 64 * 120 * 4)
    assert trained("splitnn").parties.backend.cores == 1
    monkeypatch.setattr(fused, "LARGE_BYTES", 1)
    assert trained("splitnn", threads=2).parties.backend.cores == 1


def test_an_error_in_one_of_the_groups_names_its_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "CACHE_BYTES", 2 * 64 * 120 * 4)
    monkeypatch.setattr(fused, "LARGE_BYTES", 1)
    run = trained("splitnn")
    backend = run.parties.backend
    assert isinstance(backend, LocalBackend)
    monkeypatch.setattr(type(backend.grouping.groups[0]), "inputs", lambda *_: 1 / 0)
    with pytest.raises(ColonnadeError, match=r"step 'embed' failed at party 1, party 2 in round"):
        run.evaluate(tables())


def test_a_run_says_how_many_cores_it_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(fused, "CACHE_BYTES", 2 * 64 * 120 * 4)
    monkeypatch.setattr(fused, "LARGE_BYTES", 1)
    run = trained("splitnn", folder=tmp_path / "run")
    assert run.summary()["cores"] == read_summary(tmp_path / "run")["cores"] == 3
    tell({**RunView(run.summary()).result, "folder": "", "report": ""})
    assert "parties computed on 3 cores at once" in capsys.readouterr().out
