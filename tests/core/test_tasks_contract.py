"""Every method and every task: it trains alike on all runtimes and resumes exactly, or says in a sentence why not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.core.method import Method
from colonnade.errors import ConfigError, SealError

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
ROWS, WIDTHS = 60, (3, 3, 3, 2)
TREES = "trees(iterations=6, rate=0.3, least_rows=5)"
METHODS: list[Method] = [
    cn.Local(lr=0.05),
    cn.Local(learner=TREES),
    cn.SplitNN(),
    cn.VAFL(lr=0.1),
    cn.VAFL(learn_weights=False),
    cn.FDML(lr=0.02),
    cn.AggVFL(lr=0.1),
    cn.CVFL(local_steps=1, lr=0.2),
    cn.CVFL(local_steps=3),
    cn.VFedMH(lr=0.1),
    cn.VFedMH(local_steps=2, lr=0.02),
    cn.FedBCD(local_steps=3, lr=0.02),
    cn.FedBCD(local_steps=3, combine="sum", lr=0.005),
    cn.VIMSGD(lr=0.05),
    cn.VIMADMM(lr=0.02, local_steps=4),
    cn.VIMADMMJ(lr=0.02, local_steps=4),
    cn.APFed(contribution_every=2, lr=0.05),
    cn.LASER(optimizer="sgd"),
    cn.TVFL(fill="none"),
    cn.OneShot(learner="linear", top=TREES, folds=2),
    cn.OneShot(learn="pca", embedding=2, top="linear"),
    cn.GAL(learner="linear"),
    cn.MultiVFL(every=2, lr=0.02),
    cn.FedOptimus(every=2, select_every=4, lr=0.02),
    cn.FedOptimus(every=2, select_every=4, lr=0.02, share=1.0),
]
TASKS: dict[str, dict[str, Any]] = {
    "classes": {},
    "weighted": {"weights": [1.0, 2.0, 0.5]},
    "values": {},
    "two values": {"task": "values"},
    "several": {},
    "weighted several": {"weights": "balanced"},
}
REFUSED = {
    ("fedoptimus", "values"): "share=1.0",
    ("fedoptimus", "two values"): "share=1.0",
    ("fedoptimus", "several"): "share=1.0",
    ("fedoptimus", "weighted several"): "share=1.0",
    ("cvfl", "weighted"): "local_steps=1",
    ("cvfl", "weighted several"): "local_steps=1",
    ("vfedmh", "weighted"): "local_steps=1",
    ("vfedmh", "weighted several"): "local_steps=1",
}
PAIRS = list(itertools.product(METHODS, [task for task in TASKS if task != "classes"]))  # test_contract.py has those


def ids(one: Any) -> str:
    return one if isinstance(one, str) else f"{one.name}-{getattr(one, 'local_steps', getattr(one, 'share', ''))}"


def labels_for(task: str, x: np.ndarray) -> np.ndarray:
    sums = x @ np.random.default_rng(5).normal(size=(x.shape[1], 3))
    return {
        "classes": sums.argmax(1),
        "weighted": sums.argmax(1),
        "values": 50 + 20 * sums[:, 0],
        "two values": np.round(10 * sums[:, :2]),
        "several": (sums > 0.5).astype(int),
        "weighted several": (sums > 0.5).astype(int),
    }[task]


def federation(method: Method, task: str) -> list[cn.Table]:
    x = np.random.default_rng(0).normal(size=(ROWS, sum(WIDTHS))).astype(np.float32)
    cuts = list(itertools.pairwise(np.cumsum((0, *WIDTHS)).tolist()))
    owner = "first" if method.needs_owner_columns else "labels"
    return cn.split(x, labels_for(task, x), [list(range(a, b)) for a, b in cuts], owner=owner)


def train(method: Method, task: str, runtime: str = "fused", **more: Any) -> cn.Run:
    tables = federation(method, task)
    return cn.train(tables, method, runtime=runtime, batch=16, seed=3, **{"rounds": 3, **TASKS[task], **more})


def everything(run: cn.Run) -> dict[str, Tensor]:
    return {f"{side}/{name}": value for side, state in run.model.states().items() for name, value in state.items()}


def refusal(method: Method, task: str) -> str:
    several = getattr(method, "local_steps", 1) > 1 or getattr(method, "share", 1.0) < 1
    return REFUSED.get((method.name, task), "") if several else ""


@pytest.mark.parametrize(("method", "task"), PAIRS, ids=ids)
def test_it_trains_alike_everywhere_or_says_why_not(method: Method, task: str) -> None:
    hint = refusal(method, task)
    if hint:
        with pytest.raises(
            ConfigError, match=rf"cannot learn task='(classes|values|several)'.*{hint}.*one of .*splitnn"
        ):
            train(method, task)
        return
    loop, fused, wired = (train(method, task, runtime, valid=0.1) for runtime in ("loop", "fused", "bytes"))
    assert loop.ledger.to_json() == fused.ledger.to_json() == wired.ledger.to_json()
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, **TOLERANCE, msg=lambda m, n=name: f"{n}: {m}")
        assert torch.equal(everything(wired)[name], value), f"real bytes changed {name}"


@pytest.mark.parametrize(("method", "task"), [pair for pair in PAIRS if not refusal(*pair)], ids=ids)
def test_it_learns_and_predicts(method: Method, task: str) -> None:
    tables = federation(method, task)
    run = train(method, task, rounds=40)
    assert run.settings.rounds == 1 or run.history[-1]["train_loss"] < run.history[0]["train_loss"]
    unlabelled = [cn.Table(tables[0].ids, tables[0].columns, name=tables[0].name), *tables[1:]]
    predicted, outputs = run.predict(unlabelled), 2 if task == "two values" else 3
    assert predicted.shape == ((ROWS,) if task == "values" else (ROWS, outputs))
    found = run.evaluate(tables)
    assert found[run.task.score] > (0.0 if "values" in task else 0.34)
    if task == "values":
        gap = predicted.double() - tables[0].labels
        assert found["rmse"] == pytest.approx(gap.square().mean().sqrt().item(), rel=1e-4)


@pytest.mark.parametrize(
    ("method", "task"), [pair for pair in PAIRS if not refusal(*pair) and " " not in pair[1]], ids=ids
)
def test_resuming_is_exact(method: Method, task: str, tmp_path: Path) -> None:
    def die(run: cn.Run) -> None:
        if run.round == min(3, run.settings.rounds):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(method, task, evaluate_every=2, rounds=4, folder=tmp_path / "run", on_round=die)
    resumed = cn.resume(tmp_path / "run", federation(method, task), rounds=4)
    assert resumed.task.name in task or task == "weighted"
    longer = train(method, task, evaluate_every=2, rounds=4)
    assert resumed.settings == longer.settings
    for name, value in everything(longer).items():
        assert torch.equal(everything(resumed)[name], value), name
    tables = federation(method, task)
    assert torch.equal(resumed.predict(tables), longer.predict(tables))


def test_every_registered_method_is_here() -> None:
    assert {method.name for method in METHODS} == set(cn.methods())


@pytest.mark.parametrize("method", METHODS, ids=ids)
def test_weights_of_one_are_no_weights(method: Method) -> None:
    if refusal(method, "weighted"):
        method = type(method)(local_steps=1)
    plain, ones = train(method, "classes"), train(method, "classes", weights=[1.0, 1.0, 1.0])
    for name, value in everything(plain).items():
        assert torch.equal(everything(ones)[name], value), name


@pytest.mark.parametrize("seal", [cn.RandomLabels(), cn.LaplaceLabels()], ids=lambda seal: seal.kind)
@pytest.mark.parametrize("task", ["values", "several", "weighted"])
def test_label_seals_protect_plain_classes_only(seal: Any, task: str) -> None:
    with pytest.raises(SealError, match=r"leave (it|one of them) out"):
        train(cn.FDML(), task, seal=seal)
