"""What a second device must do, on torch's lazy backend, in a process of its own: `python tests/lazy_checks.py FOLDER`.

It prints a JSON line for every check: its name, and what was wrong, or nothing. FOLDER gets a run that was saved on
that device, for a process that does not have it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_contract import TOLERANCE, Case, everything, federation, train, with_dropout
from torch import nn

import colonnade as cn
import lazy_device
from colonnade.core.device import Device, moved
from colonnade.errors import ConfigError, ModelError

LAZY: dict[str, Any] = {"device": lazy_device.NAME}
SHORT: dict[str, Any] = {"rounds": 2, "evaluate_every": 2}
ADMM = Case(cn.VIMADMM(lr=0.02, local_steps=2))
SUMS = Case(cn.VIMADMMJ(lr=0.02, local_steps=2))


def agree(case: Case, runtime: str = "loop", host: dict[str, Any] | None = None, **more: Any) -> cn.Run:
    """Train on both devices and compare all states; ``host`` are options of the reference alone."""
    reference = train(case, runtime, **{**SHORT, **more, "device": "cpu", **(host or {})})
    run = train(case, runtime, **{**SHORT, **LAZY, **more})
    check_close(everything(run), everything(reference))
    return run


def check_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **TOLERANCE, msg=lambda m, n=name: f"{n}: {m}")


def refused(kind: type[Exception], words: str, work: Callable[[], Any]) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        work()


def check_parties_may_be_on_different_devices() -> None:
    each = ["cpu", "lazy", "lazy", "cpu"]
    run = agree(ADMM, "fused", device=each)
    groups = run.parties.backend.grouping.groups
    assert [(group.members, group.device.name) for group in groups] == [([0], "cpu"), ([1, 2], "lazy"), ([3], "cpu")]
    assert run.owner.device.name == "cpu", "the owner computes where the first party does"


def check_answers_are_on_the_host() -> None:
    run, reference = train(ADMM, "fused", **SHORT, **LAZY), train(ADMM, "fused", **SHORT)
    assert run.owner.heads.device.type == run.owner.dual.device.type == "lazy"
    tables = federation("labels")
    found, expected = run.predict(tables), reference.predict(tables)
    assert found.device.type == "cpu"
    torch.testing.assert_close(found, expected, **TOLERANCE)
    for name, number in reference.importance().items():
        assert abs(run.importance()[name] - number) < 1e-3


def check_whole_tables_may_move() -> None:
    for runtime in ("loop", "fused"):
        travelling, moved_once = (train(ADMM, runtime, **SHORT, **LAZY, move_tables=how) for how in (False, True))
        for name, value in everything(travelling).items():
            assert torch.equal(everything(moved_once)[name], value), name


def check_a_run_goes_on_on_another_device() -> None:
    whole = everything(train(ADMM, "loop", rounds=4, evaluate_every=2))
    for first, then in (("cpu", "lazy"), ("lazy", "cpu")):
        with tempfile.TemporaryDirectory() as place:
            train(ADMM, "loop", rounds=2, evaluate_every=2, device=first, folder=place)
            run = cn.resume(place, federation("labels"), rounds=4, test=federation("labels"), device=then)
            assert run.owner.device.name == then
            check_close(everything(run), whole)


def check_a_run_goes_on_where_it_was_bit_for_bit() -> None:
    whole = everything(train(ADMM, "fused", rounds=4, evaluate_every=2, **LAZY, optimizer=cn.Adam(0.01)))
    with tempfile.TemporaryDirectory() as place:
        train(ADMM, "fused", rounds=2, evaluate_every=2, folder=place, **LAZY, optimizer=cn.Adam(0.01))
        run = cn.resume(place, federation("labels"), rounds=4, test=federation("labels"))
        assert run.owner.device.name == "lazy"
        assert all(torch.equal(everything(run)[name], value) for name, value in whole.items())


def check_what_is_drawn_is_the_same_everywhere() -> None:
    agree(Case(cn.SplitNN()), model=with_dropout)
    agree(Case(cn.SplitNN()), model=cn.Bottleneck(hidden=(5,)))


def check_seals_agree() -> None:
    agree(SUMS, "bytes", seal=[cn.Blind(), cn.RandomLabels(epsilon=4.0)])
    run, reference = (train(ADMM, "loop", **SHORT, seal=cn.Bits(8), device=device) for device in ("lazy", "cpu"))
    assert run.ledger.to_json() == reference.ledger.to_json()


def check_parties_behind_requests_agree() -> None:
    run = train(ADMM, "apart", **SHORT, **LAZY)
    reference = train(ADMM, "loop", **SHORT)
    torch.testing.assert_close(run.predict(federation("labels")), reference.predict(federation("labels")), **TOLERANCE)
    parties = run.parties.backend.transport.parties
    assert {party.group.device.name for party in parties.values()} == {"lazy"}


def check_other_tasks_and_weights() -> None:
    agree(ADMM, weights=[1.0, 2.0, 3.0])
    agree(SUMS, weights="balanced")
    tables = federation("labels")
    for labels in (tables[1].columns[:, 0], (tables[1].columns > 0).long()):
        own = [cn.Table(ids=tables[0].ids, labels=labels, name="owner"), *tables[1:]]
        how: dict[str, Any] = {"rounds": 2, "runtime": "loop", "batch": 16}
        run, reference = cn.train(own, SUMS.method, **how, **LAZY), cn.train(own, SUMS.method, **how)
        check_close(everything(run), everything(reference))


def check_absent_parties_and_rows() -> None:
    tables = federation("labels")
    known = torch.arange(len(tables[0].ids)) % 3 > 0
    some = cn.Table(ids=tables[1].ids, columns=tables[1].columns, name=tables[1].name, known=known)
    own = [tables[0], some, *tables[2:]]
    for method in (cn.LASER(), cn.OneShot(learn="autoencoder", embedding=2, epochs=1, top="linear")):
        how: dict[str, Any] = {"rounds": 2, "runtime": "loop", "batch": 16}
        check_close(everything(cn.train(own, method, **how, **LAZY)), everything(cn.train(own, method, **how)))
    run, reference = train(ADMM, "fused", **SHORT, **LAZY), train(ADMM, "fused", **SHORT)
    # Not "refit": to assign to rows of a parameter ends in an internal assertion of this backend.
    for missing in ("zero", "mean"):
        asked: dict[str, Any] = {"absent": [tables[2].name], "missing": missing}
        torch.testing.assert_close(
            run.predict(tables, **asked), reference.predict(tables, **asked), rtol=1e-2, atol=1e-3
        )
    agree(ADMM, "fused", when_absent="without", missing="mean", absent=lambda r: [tables[2].name] if r == 1 else [])


class Forgotten(nn.Module):
    """A network one of whose tensors is no part of its state, so that it stays where it was."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.layer, self.shift = nn.Linear(columns, width), torch.ones(width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + self.shift


def check_networks_that_cannot_be_there() -> None:
    def half(shape: tuple[int, ...], width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], 4).to("lazy"), nn.Linear(4, width))

    def forgets(shape: tuple[int, ...], width: int) -> nn.Module:
        return Forgotten(shape[0], width)

    refused(
        ModelError, "is built on cpu and lazy:0; build all of it on the host", lambda: train(ADMM, "loop", model=half)
    )
    words = "computes on the host and not on device='lazy'"
    refused(ModelError, words, lambda: train(ADMM, "loop", model=forgets, **LAZY))


def check_bf16_is_refused_where_it_is_not_there() -> None:
    words = "precision='bf16' is not supported on device='lazy' here"
    refused(ConfigError, words, lambda: train(ADMM, "loop", precision="bf16", **LAZY))


def check_an_optimiser_follows_its_parameters() -> None:
    top = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(top.parameters(), lr=0.1, momentum=0.9)
    there = moved({"top": top, "optimizer": optimizer}, Device("lazy"))
    there["top"](torch.ones(1, 2).to("lazy")).sum().backward()
    before = there["top"].bias.detach().cpu().clone()
    there["optimizer"].step()
    assert not torch.equal(there["top"].bias.detach().cpu(), before)


def save_for_others(folder: Path) -> None:
    train(ADMM, "loop", rounds=2, evaluate_every=2, folder=folder, **LAZY)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lazy_device.begin()
    checks = {
        name: work for name, work in dict(globals()).items() if name.startswith("check_") and name != "check_close"
    }
    for name, work in {**checks, "saved": lambda: save_for_others(Path(sys.argv[1]))}.items():
        wrong = ""
        try:
            with lazy_device.Mended():
                work()
        except Exception as error:  # whatever it is, the next check is to run
            wrong = f"{type(error).__name__}: {error}"
        print(json.dumps({"check": name, "wrong": wrong}), flush=True)
