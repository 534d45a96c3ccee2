"""Where parties compute: on a second device that exists (see ``lazy_device``), with 16 bits, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contract import CASES, RUNTIMES, TOLERANCE, Case, everything, federation, train
from torch import nn

import colonnade as cn
from colonnade.core.device import HOST, Device, repeatable
from colonnade.core.host_draws import HostDraws
from colonnade.errors import ColonnadeError, ColonnadeWarning, ConfigError, ModelError, TrainingError
from colonnade.runtime.cluster import Cluster

ADMM = Case(cn.VIMADMM(lr=0.02, local_steps=2))
SHORT: dict[str, Any] = {"rounds": 3, "evaluate_every": 1}
TESTS = Path(__file__).parent.parent
SINGLY = ["loop", "bytes"]
NO_CUDA = "torch finds no CUDA device on this machine; run these where there is one"


def lines_of(script: str, *arguments: str) -> list[dict[str, Any]]:
    """What a script says that has torch's lazy backend in its own process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "methods"), *sys.path])}
    command = [sys.executable, str(TESTS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "runtime",
    [pytest.param("fused", marks=pytest.mark.slow), *(pytest.param(one, marks=pytest.mark.long) for one in SINGLY)],
)
def test_every_case_of_the_contract_agrees_on_another_device(runtime: str) -> None:
    """In CI stacked parties, beside which the federation's last party is computed singly."""
    lines = lines_of("lazy_contract.py", runtime)
    assert len(lines) == len(CASES)
    assert [line for line in lines if line["wrong"]] == []


@pytest.mark.long
def test_what_a_second_device_must_do_and_a_run_goes_on_without_it(tmp_path: Path) -> None:
    lines = lines_of("lazy_checks.py", str(tmp_path / "saved"))
    assert len(lines) > 12
    assert [line for line in lines if line["wrong"]] == []
    with pytest.warns(ColonnadeWarning, match=r"device='lazy', which is not on this machine; it goes on on the host"):
        run = cn.resume(tmp_path / "saved", federation("labels"), rounds=4)
    assert run.round == 4
    assert run.owner.device == HOST
    assert json.loads((tmp_path / "saved" / "config.json").read_text()).get("devices", []) == []


# 16 bits, which processors have too


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_16_bits_are_for_networks_alone(runtime: str) -> None:
    exact, rough = train(ADMM, runtime, **SHORT), train(ADMM, runtime, **SHORT, precision="bf16")
    found, expected = everything(rough), everything(exact)
    assert {name: value.dtype for name, value in found.items()} == {name: v.dtype for name, v in expected.items()}
    assert rough.ledger.to_json() == exact.ledger.to_json()
    assert any(not torch.equal(found[name], value) for name, value in expected.items())
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0.1, atol=0.05, msg=lambda m, n=name: f"{n}: {m}")


def test_a_run_with_16_bits_goes_on_with_them(tmp_path: Path) -> None:
    whole = everything(train(ADMM, "fused", rounds=4, evaluate_every=2, precision="bf16"))
    train(ADMM, "fused", rounds=2, evaluate_every=2, precision="bf16", folder=tmp_path / "run")
    run = cn.resume(tmp_path / "run", federation("labels"), rounds=4, test=federation("labels"))
    assert all(torch.equal(everything(run)[name], value) for name, value in whole.items())


# what is refused


def test_devices_that_are_not_there() -> None:
    for name in ("cuda:97", "nowhere", "cpu:x", "meta"):
        with pytest.raises(ConfigError, match=rf"device='{name}' is not on this machine, which has .*cpu; give one"):
            train(ADMM, "loop", device=name)
    with pytest.raises(ConfigError, match="2 devices for 4 parties"):
        train(ADMM, "loop", device=["cpu", "cpu"])
    with pytest.raises(ConfigError, match="unknown precision 'bf15'"):
        train(ADMM, "loop", precision="bf15")
    with pytest.raises(ColonnadeError, match="device"):
        train(ADMM, "loop", device=7)
    with pytest.raises(ConfigError, match="move_tables=1 is out of range"):
        train(ADMM, "loop", move_tables=1)


def test_a_network_that_is_not_built_on_the_host() -> None:
    def elsewhere(shape: tuple[int, ...], width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], 4), nn.Linear(4, width, device="meta"))

    with pytest.raises(ModelError, match="'party 1' is built on cpu and meta; build all of it on the host"):
        train(ADMM, "loop", model=elsewhere)


class Full(nn.Module):
    """A network that finds its device full in training."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(columns, width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has more to say.")
        return self.layer(rows)  # type: ignore[no-any-return]


def test_a_device_that_is_full_is_said_with_what_to_do() -> None:
    words = r"step 'embed' failed at owner.*its device is full \(CUDA out of memory\); take a smaller batch="
    with pytest.raises(TrainingError, match=words):
        cn.train(federation("first"), cn.SplitNN(), rounds=1, model=lambda s, w: Full(s[0], w), runtime="loop")


def test_only_cuda_is_asked_to_repeat_itself() -> None:
    with repeatable([HOST]):
        assert not torch.are_deterministic_algorithms_enabled()
    with repeatable([Device("cuda")]):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_drawing_on_the_host_changes_nothing_there() -> None:
    drawn = []
    for draw in (torch.rand, lambda n: nn.functional.dropout(torch.ones(n), 0.5), torch.randperm):
        torch.manual_seed(0)
        plain = draw(5)
        torch.manual_seed(0)
        with HostDraws():
            drawn.append(torch.equal(draw(5), plain))
    assert all(drawn)


def test_a_cluster_is_asked_for_its_gpus() -> None:
    assert Cluster(gpus=0.5).options(None, 0)["num_gpus"] == 0.5
    assert "num_gpus" not in Cluster().options(None, 0)
    with pytest.raises(ConfigError, match="gpus=-1"):
        Cluster(gpus=-1)


# CUDA itself


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_CUDA)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cuda_agrees(case: Case, runtime: str) -> None:
    found, expected = (everything(train(case, runtime, **SHORT, device=device)) for device in ("cuda", "cpu"))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **TOLERANCE, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_CUDA)
@pytest.mark.parametrize("runtime", ["loop", "fused"])
def test_a_run_on_cuda_goes_on_bit_for_bit(runtime: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {"evaluate_every": 2, "device": "cuda", "move_tables": True}
    whole = everything(train(ADMM, runtime, rounds=4, **how))
    train(ADMM, runtime, rounds=2, **how, folder=tmp_path / "run")
    run = cn.resume(tmp_path / "run", federation("labels"), rounds=4, test=federation("labels"))
    assert all(torch.equal(everything(run)[name], value) for name, value in whole.items())


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="torch finds fewer than two CUDA devices on this machine")
def test_two_cuda_devices_share_the_parties() -> None:
    each = ["cuda:0", "cuda:1", "cuda:1", "cuda:0"]
    found, expected = (everything(train(ADMM, "fused", **SHORT, device=device)) for device in (each, "cpu"))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **TOLERANCE)
