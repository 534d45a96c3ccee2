"""Extending a run of one round: the others are not asked again, and the result is that of training with everybody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.errors import ConfigError, TableError

SMALL = {"learner": "linear", "top": "linear", "folds": 2}
WAYS = {
    "labels": (cn.OneShot(**SMALL), ()),
    "noisy labels": (cn.OneShot(**SMALL), (cn.RandomLabels(2.0), cn.Bits(8, ways="up"))),
    "pca": (cn.OneShot(**SMALL, learn="pca", embedding=2), (cn.Bits(4),)),
    "autoencoder": (cn.OneShot(**SMALL, learn="autoencoder", embedding=2, epochs=2), ()),
}


def federation() -> list[cn.Table]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(80, 12)).astype(np.float32)
    y = (x.sum(1) > 0).astype(int)
    return cn.split(x, y, [list(range(k, k + 3)) for k in range(0, 12, 3)], owner="first")


def asked(run: cn.Run, purpose: str = "train") -> set[str]:
    return {line.sender for line in run.ledger.rows if line.purpose == purpose} - {"owner"}


@pytest.mark.parametrize("runtime", ["loop", "fused", "bytes"])
@pytest.mark.parametrize("way", WAYS)
def test_a_party_more_costs_its_own_message(way: str, runtime: str) -> None:
    (method, seal), tables = WAYS[way], federation()
    few = cn.train(tables[:-1], method, seal=seal, runtime=runtime)
    whole = cn.train(tables, method, seal=seal, runtime=runtime)
    more = cn.extend(few, tables)
    assert asked(more) == {tables[-1].name}
    assert torch.equal(more.predict(tables), whole.predict(tables))
    states = more.model.states()
    for side, state in whole.model.states().items():
        assert state.keys() == states[side].keys()
        assert all(torch.equal(value, states[side][name]) for name, value in state.items()), side


def test_a_party_less_costs_nothing() -> None:
    tables = federation()
    whole = cn.train(tables, WAYS["labels"][0])
    fewer = cn.extend(whole, tables[:-1])
    assert asked(fewer) == set()
    assert torch.equal(fewer.predict(tables[:-1]), cn.train(tables[:-1], WAYS["labels"][0]).predict(tables[:-1]))


def test_one_party_learns_anew_from_other_columns() -> None:
    tables = federation()
    run = cn.train(tables, WAYS["labels"][0])
    newer = cn.Table(tables[2].ids, tables[2].columns.flip(1) * 2, name=tables[2].name)
    changed = [*tables[:2], newer, tables[3]]
    again = cn.extend(run, changed, anew=[newer.name])
    assert asked(again) == {newer.name}
    assert torch.equal(again.predict(changed), cn.train(changed, WAYS["labels"][0]).predict(changed))


@pytest.mark.parametrize("what", ["known", "shape"])
def test_a_party_that_stays_has_what_it_had(what: str) -> None:
    """Its reply has zeros for rows that it did not know, and its model reads columns of the old shape."""
    tables = federation()
    half = replace(tables[1], known=np.arange(80) < 40)
    run = cn.train([tables[0], half, tables[2]], WAYS["labels"][0])
    wide = replace(half, columns=np.ones((80, 5)), column_names=())
    changed = {"known": tables[1], "shape": wide}[what]
    with pytest.raises(TableError, match=r"'party 2' has other columns, or knows others .*anew=\['party 2'\]"):
        cn.extend(run, [tables[0], changed, *tables[2:]])
    assert asked(cn.extend(run, [tables[0], half, *tables[2:]])) == {tables[3].name}
    assert asked(cn.extend(run, [tables[0], changed, tables[2]], anew=["party 2"])) == {"party 2"}


def test_a_party_that_was_absent_is_asked_later() -> None:
    tables = federation()
    late = tables[3].name
    run = cn.train(tables, WAYS["labels"][0], when_absent="without", absent=lambda _: [late])
    later = cn.extend(run, tables)
    assert asked(later) == {late}
    assert torch.equal(later.predict(tables), cn.train(tables, WAYS["labels"][0]).predict(tables))


def test_a_run_is_extended_after_it_was_resumed_from_its_folder(tmp_path: Path) -> None:
    tables = federation()
    cn.train(tables[:-1], WAYS["labels"][0], folder=tmp_path / "few")
    run = cn.resume(tmp_path / "few", tables[:-1])
    more = cn.extend(run, tables, folder=tmp_path / "more")
    assert asked(more) == {tables[-1].name}
    assert torch.equal(more.predict(tables), cn.train(tables, WAYS["labels"][0]).predict(tables))
    assert (tmp_path / "more" / "checkpoints").is_dir()


def test_what_cannot_be_extended_is_refused() -> None:
    tables = federation()
    run = cn.train(tables[:-1], WAYS["labels"][0])
    with pytest.raises(ConfigError, match="a list came where the trained run was expected"):
        cn.extend(tables, tables)
    with pytest.raises(TableError, match="are not those that the run was trained on, in their order"):
        cn.extend(run, [table.take(np.arange(79, -1, -1)) for table in tables])
    with pytest.raises(ConfigError, match="unknown party 'nobody'"):
        cn.extend(run, tables, anew=["nobody"])
    for method in ("splitnn", cn.OneShot(**SMALL, learn="gradients", embedding=2)):
        with pytest.raises(ConfigError, match="keeps no replies to go on from"):
            cn.extend(cn.train(tables, method, rounds=1, batch=40), tables)
