"""Who matters: importance on held-out rows, noise on trial, training once more with half of the parties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.core.method import Method
from colonnade.errors import ConfigError, SealError, TableError
from colonnade.study.importance_of_parties import WAYS
from colonnade.study.noisy_tables import noisy, shuffled
from quick_methods import quick

ROWS = 200
VIM = cn.VIMADMM(local_steps=5, optimizer="sgd")
ALONE = {"local", "apfed", "tvfl"}
METHODS: list[Method] = [quick(cls) for cls in cn.methods().values() if cls.__module__.startswith("colonnade.")]


def federation(seed: int = 0, owner: str = "labels", parties: int = 3) -> list[cn.Table]:
    """The second party tells the label, the last one is noise, the others tell a little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, ROWS)
    strength = [0.3, 3.0, *[0.3] * (parties - 3), 0.0]
    x = np.concatenate([s * np.eye(3)[y] + rng.normal(0, 0.5, (ROWS, 3)) for s in strength], axis=1)
    return cn.split(x.astype(np.float32), y, parties, owner=owner)


def train(method: Method | str = VIM, **more: Any) -> cn.Run:
    owner = "first" if getattr(method, "needs_owner_columns", False) else "labels"
    options = {"rounds": 30, "batch": 64, "model": cn.MLP((8,)), "seed": 1} | more
    return cn.train(options.pop("tables", None) or federation(owner=owner), method, **options)


@pytest.fixture(scope="module")
def run() -> cn.Run:
    return train()


@pytest.mark.parametrize("by", [way for way in WAYS if way != "shapley"])  # test_shapley.py has that
def test_the_party_that_knows_is_first_and_noise_is_nothing(run: cn.Run, by: str) -> None:
    found = cn.importance(run, federation(1), by=by, repeats=5, scale=5.0)
    assert found.ranking[0] == "party 2" and found.each["party 2"] > 0.2 > 10 * abs(found.each["party 3"])
    assert found.base == run.evaluate(federation(1))["accuracy"] > 0.9
    assert all(0 <= value < 0.1 for value in found.spread.values()) and found.spread["party 2"] > 0
    assert (found.by, found.score) == (by, "accuracy")


def test_the_same_seed_gives_the_same_and_another_does_not(run: cn.Run) -> None:
    once, again, other = (cn.importance(run, federation(1), repeats=2, seed=seed) for seed in (0, 0, 1))
    assert once == again != other


def test_it_prints_as_bars(run: cn.Run) -> None:
    lines = str(cn.importance(run, federation(1), repeats=2)).splitlines()
    assert lines[0].startswith("importance by permutation, accuracy ")
    assert [line.split("  ")[0] for line in lines[1:]] == ["party 1", "party 2", "party 3"]
    assert lines[2].endswith("#" * 24)


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_can_be_asked(method: Method, runtime: str) -> None:
    run = train(method, runtime=runtime, rounds=4)
    owner = "first" if method.needs_owner_columns else "labels"
    test = federation(1, owner)
    before, states = run.predict(test), run.model.states()
    for by in [way for way in WAYS if way != "shapley" or method.name == "laser"]:
        found = cn.importance(run, test, by=by, repeats=2)
        others = [name for name in found.each if name != "owner"]
        assert others == [table.name for table in test[1:]]
        assert ("owner" in found.each) == (owner == "first" and by != "absent")
        if method.name in ALONE:
            assert {found.each[name] for name in others} == {0.0}, "the owner predicts alone"
    assert torch.equal(run.predict(test), before) and states.keys() == run.model.states().keys()


def test_noise_is_that_of_the_paper() -> None:
    table = cn.Table(range(5000), torch.full((5000, 2), 51, dtype=torch.uint8), name="p", scale=cn.Scale())
    values = noisy(table, 10.0, 0).draw(torch.arange(5000))
    assert abs(float(values.mean()) - 0.2) < 0.5 and abs(float(values.std()) - 10) < 0.3
    assert torch.equal(noisy(table, 0.0, 0).draw(torch.arange(9)), table.draw(torch.arange(9)))


def test_shuffling_moves_whole_rows() -> None:
    table = replace(federation(owner="first")[0], name="p")
    moved = shuffled(table, 0)
    assert torch.equal(moved.labels, table.labels) and not torch.equal(moved.columns, table.columns)
    assert sorted(map(tuple, moved.columns.tolist())) == sorted(map(tuple, table.columns.tolist()))


def test_it_costs_what_predictions_cost(run: cn.Run) -> None:
    before = run.ledger.bytes_for("predict")
    run.predict(federation(1))
    once = run.ledger.bytes_for("predict") - before
    cn.importance(run, federation(1), repeats=2)
    assert run.ledger.bytes_for("predict") - before - once == (1 + 3 * 2) * once


def test_seals_that_many_answers_would_undo() -> None:
    blind = train(cn.VIMADMMJ(local_steps=5), seal=cn.Blind(), rounds=2)
    quiet = train(cn.VAFL(lr=1e-4), seal=cn.Noise(sigma=50.0), rounds=2)
    for run, told in ((blind, "Blind, and two sums"), (quiet, "Noise, and every one")):
        sent = run.ledger.total
        with pytest.raises(SealError, match=told):
            cn.importance(run, federation(1))
        with pytest.raises(SealError, match=told):
            cn.embedding_map(run, federation(1))
        assert run.ledger.total == sent
    few_bits = train(cn.VIMADMMJ(local_steps=5), seal=cn.Bits(4))
    assert cn.importance(few_bits, federation(1), repeats=2).ranking[0] == "party 2"
    alone = train(cn.APFed(), seal=cn.Blind(), rounds=2)
    assert cn.importance(alone, federation(1, "first"), repeats=2).each["party 2"] == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"by": "noises"}, "unknown way to measure importance 'noises'; did you mean 'noise'"),
        ({"repeats": 1}, "repeats=1 is out of range; give at least 2"),
        ({"repeats": 2.5}, "repeats=2.5 is not a whole number"),
        ({"scale": -1}, "scale=-1 is out of range"),
        ({"scale": float("nan")}, "scale=nan is out of range"),
        ({"seed": "x"}, "seed='x' is not a whole number"),
    ],
)
def test_bad_options_are_told(run: cn.Run, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        cn.importance(run, federation(1), **options)


def test_bad_input_is_told(run: cn.Run) -> None:
    with pytest.raises(ConfigError, match="a str came where the trained run was expected"):
        cn.importance("run", federation())  # type: ignore[arg-type]
    with pytest.raises(TableError, match="has no labels"):
        cn.importance(run, [replace(federation()[0], labels=None), *federation()[1:]])
    with pytest.raises(ConfigError, match=r"unknown party 'party 9'; .*Known: party 1, party 2, party 3"):
        cn.with_noise(federation(), "party 9")
    with pytest.raises(ConfigError, match=r"unknown party 'owner'"):
        cn.with_noise(federation(), "owner")


# training once more


@pytest.mark.parametrize("method", [cn.VIMSGD(), VIM, cn.VIMADMMJ(local_steps=5)], ids=lambda method: method.name)
def test_the_half_that_matters_is_kept(method: Method) -> None:
    tables, test = federation(parties=4), federation(1, parties=4)
    run = train(method, tables=tables)
    norms = run.importance()
    ranked = sorted(norms, key=lambda name: -norms[name])
    for most, expected in ((True, ranked[:2]), (False, ranked[2:])):
        half = run.summarise(tables, 0.5, most=most, test=test)
        assert half.parties.names == sorted(expected)
        assert half.settings == run.settings and half.method == run.method and "test_accuracy" in half.history[-1]
        same = cn.train(cn.keep(tables, expected), method, rounds=30, batch=64, model=cn.MLP((8,)), seed=1)
        assert torch.equal(half.predict(cn.keep(test, expected)), same.predict(cn.keep(test, expected)))


def test_measured_importance_says_who_is_kept() -> None:
    run = train("fdml")
    measured = cn.importance(run, federation(1), repeats=2)
    one = cn.summarise(run, federation(), 0.3, by=measured)
    assert one.parties.names == ["party 2"]
    assert one.evaluate(cn.keep(federation(1), ["party 2"]))["accuracy"] > 0.9
    assert cn.summarise(run, federation(), 0.3, by={"party 1": 3, "party 2": 2, "party 3": 1}).parties.names == [
        "party 1"
    ]
    with pytest.raises(ConfigError, match="fdml has no head per party"):
        run.summarise(federation())
    with pytest.raises(ConfigError, match="by= says nothing of party 2, party 3"):
        run.summarise(federation(), by={"party 1": 1.0})


def test_everything_else_is_as_it_was() -> None:
    tables = federation()
    nets = [cn.MLP((8,)), lambda shape, width: torch.nn.Linear(shape[0], width), cn.MLP((4,))]
    optimizers = [cn.SGD(0.1), cn.Adam(0.01), cn.SGD(0.2)]
    seal = [cn.Bits(8), cn.RandomLabels(epsilon=5.0)]
    run = train(cn.VIMADMMJ(local_steps=5), model=nets, optimizer=optimizers, seal=seal, valid=0.1, rounds=4)
    half = run.summarise(tables, 0.67, by={"party 1": 1, "party 2": 3, "party 3": 2})
    plan = half.model.plan
    assert list(plan.models) == nets[1:] and list(plan.optimizers) == optimizers[1:]
    assert half.seals == run.seals and half.settings == run.settings
    longer = half.summarise(cn.keep(tables, half.parties.names), 1.0, epochs=3)
    assert longer.round == 3 * longer.schedule.rounds_per_epoch and longer.parties.names == half.parties.names


def test_the_owners_columns_always_stay() -> None:
    tables = federation(owner="first")
    run = train(tables=tables)
    assert run.summarise(tables, 0.5, by={"party 2": 1, "party 3": 2}).parties.names == ["owner", "party 3"]


def test_summaries_that_make_no_sense() -> None:
    run = train(rounds=2)
    with pytest.raises(ConfigError, match="selects nobody"):
        run.summarise(federation(), 0.0)
    with pytest.raises(TableError, match="the run was trained with"):
        run.summarise(federation()[:3])
    with pytest.raises(ConfigError, match="by=3 came"):
        run.summarise(federation(), by=3)


def test_a_noisy_party_loses_weight() -> None:
    rows, _ = cn.load("digits", parties=4)
    norms = [
        cn.train(tables, cn.VIMADMM(decay=0.01), epochs=5, seed=0).importance()
        for tables in (rows, cn.with_noise(rows, "party 3", 5.0))
    ]
    share = [one["party 3"] / sum(one.values()) for one in norms]
    assert max(norms[0], key=norms[0].get) == "party 3" and min(norms[1], key=norms[1].get) == "party 3"
    assert share[1] < 0.95 * share[0]


def test_noisy_tables_are_not_loaded_clean_again() -> None:
    rows, _ = cn.load("digits", parties=4)
    assert cn.with_noise(rows, "party 1")[0].origin is None
    assert train(tables=cn.with_noise(rows, "party 1"), rounds=1).description["data"] is None
