"""Networks that a party trains alone before the first round: on its own rows only, alike in every runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.errors import ColonnadeError
from colonnade.jobs.job_file import read_job
from colonnade.models.pretrained import own_rows


def federation() -> list[cn.Table]:
    """Rows of two hidden factors, so that a few numbers say most of a row."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2)) @ random.normal(size=(2, 12))
    first, second = cn.split(x.astype(np.float32), (x[:, 0] > 0).astype(int), 2, owner="first")
    known = np.arange(200) < 120
    return [first, replace(second, known=known, unaligned=second.columns[~known])]


def error(model: cn.Pretrained | cn.MLP, table: cn.Table) -> float:
    """How well a linear decoder, fitted afterwards, rebuilds the rows from what the network made of them."""
    torch.manual_seed(0)
    net = model(table.shape, 3)
    if isinstance(model, cn.Pretrained):
        model.pretrain(net, table, 3)
    rows = own_rows(table)
    with torch.no_grad():
        h = torch.cat([net(rows), torch.ones(len(rows), 1)], dim=1)
        return float((h @ torch.linalg.lstsq(h, rows).solution - rows).square().mean())


@pytest.mark.parametrize("by", ["autoencoder", "masked"])
def test_a_pretrained_network_says_more_of_a_row(by: str) -> None:
    table = federation()[1]
    assert error(cn.Pretrained((20,), epochs=400, by=by), table) < 0.7 * error(cn.MLP((20,)), table)


def test_the_rows_are_all_that_the_party_has_and_no_others() -> None:
    table = federation()[1]
    whole = torch.cat([table.columns[:120], table.unaligned])
    assert torch.equal(own_rows(table), whole)
    table.columns[120:] = 1e6  # rows that it does not have, behind the table's back
    assert torch.equal(own_rows(table), whole)


def test_every_runtime_and_a_resumed_run_begin_alike(tmp_path: Path) -> None:
    model, tables = cn.Pretrained((8,), epochs=2, by="masked"), federation()
    runs = [
        cn.train(tables, "laser", rounds=2, batch=50, model=model, runtime=each, folder=tmp_path / each)
        for each in ("loop", "fused", "bytes", "apart")
    ]
    outputs = [run.predict(tables) for run in runs]
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0])
    again = cn.resume(tmp_path / "loop", tables)
    assert torch.equal(again.predict(tables), outputs[0])
    plain = cn.train(tables, "laser", rounds=2, batch=50, model=cn.MLP((8,)))
    assert runs[0].ledger.bytes_for("train") == plain.ledger.bytes_for("train"), "nothing more travels"
    assert not torch.allclose(plain.predict(tables), outputs[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [({"epochs": 0}, "give 1 to 1000"), ({"epochs": 1001}, "give 1 to 1000"), ({"by": "guess"}, "way to pretrain")],
)
def test_wrong_options_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ColonnadeError, match=words):
        cn.Pretrained(**options)  # type: ignore[arg-type]


def test_a_job_names_it(tmp_path: Path) -> None:
    lines = [
        "[data]",
        'load = "digits"',
        "parties = 2",
        "[train]",
        'method = "laser"',
        "[model]",
        'kind = "pretrained"',
    ]
    (tmp_path / "job.toml").write_text("\n".join([*lines, 'by = "masked"', "epochs = 3", "hidden = [9]"]))
    assert read_job(tmp_path / "job.toml").model == cn.Pretrained((9,), epochs=3, by="masked")
