"""Shapley values of parties: exact, of the right parties, and for one prediction's bytes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.errors import ConfigError
from colonnade.study.shapley_values import shapley_values


def slow_shapley(worth: torch.Tensor) -> list[float]:
    """The mean of what a player adds, over all orders in which they may come."""
    players = worth.ndim
    values = [0.0] * players
    for order in itertools.permutations(range(players)):
        inside = [0] * players
        for player in order:
            before = float(worth[tuple(inside)])
            inside[player] = 1
            values[player] += (float(worth[tuple(inside)]) - before) / math.factorial(players)
    return values


@pytest.mark.parametrize("players", [1, 2, 3, 5])
def test_values_are_means_over_all_orders(players: int) -> None:
    worth = torch.rand((2,) * players, generator=torch.Generator().manual_seed(players), dtype=torch.float64)
    found = shapley_values(worth)
    torch.testing.assert_close(found, torch.tensor(slow_shapley(worth), dtype=torch.float64))
    whole, nobody = worth[(1,) * players], worth[(0,) * players]
    torch.testing.assert_close(found.sum(), whole - nobody)


def federation(owner: str, parties: int = 4) -> tuple[list[cn.Table], list[cn.Table]]:
    """Labels that follow from the first and the second party's column, the first one's three times as much."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, parties)).astype(np.float32)
    y = (3 * x[:, 0] + x[:, 1] > 0).astype(int)
    tables = cn.split(x, y, [[k] for k in range(parties)], owner=owner)
    return [t.take(range(400)) for t in tables], [t.take(range(400, 600)) for t in tables]


@pytest.mark.parametrize("runtime", ["loop", "apart"])
def test_who_knows_the_label_has_the_value(runtime: str) -> None:
    train, test = federation("labels")
    run = cn.train(train, cn.LASER(embedding=8), epochs=8, batch=50, runtime=runtime)
    before = run.ledger.payload
    found = cn.importance(run, test, by="shapley", repeats=3)
    assert run.ledger.payload - before == 4 * 4 * 8 * 200, "one message of each party"
    assert found.ranking[:2] == ["party 1", "party 2"] and found.each["party 1"] > 0.2 > abs(found.each["party 4"])
    nobody = max(float((test[0].labels == k).float().mean()) for k in (0, 1))
    assert sum(found.each.values()) == pytest.approx(found.base - nobody, abs=1e-6)
    assert found.base == pytest.approx(run.evaluate(test)["accuracy"], abs=1e-6)
    assert all(spread >= 0 for spread in found.spread.values()) and "importance by shapley" in str(found)


def test_the_owners_own_columns_are_in_every_set() -> None:
    train, test = federation("first")
    run = cn.train(train, cn.LASER(embedding=8), epochs=8, batch=50)
    found = cn.importance(run, test, by="shapley", repeats=2)
    others = [table.name for table in test[1:]]
    assert list(found.each) == others
    alone = run.evaluate(test, absent=others, missing="zero")["accuracy"]
    assert sum(found.each.values()) == pytest.approx(found.base - alone, abs=1e-6)


def test_values_are_of_the_rows_that_each_party_has() -> None:
    train, test = federation("first")
    run = cn.train(train, cn.LASER(embedding=8), epochs=4, batch=50)
    unknown = [test[0], *(cn.Table(t.ids, t.columns, name=t.name, known=np.zeros(200, bool)) for t in test[1:])]
    assert set(cn.importance(run, unknown, by="shapley", repeats=2).each.values()) == {0.0}


def test_other_methods_and_too_many_parties_are_refused() -> None:
    train, test = federation("labels")
    with pytest.raises(ConfigError, match="splitnn has no predictor for every set of parties; use laser"):
        cn.importance(cn.train(train, "splitnn", rounds=1, batch=50), test, by="shapley")
    many, tested = federation("labels", parties=9)
    with pytest.raises(ConfigError, match="9 parties beside the owner came for Shapley values"):
        cn.importance(cn.train(many, "laser", rounds=1, batch=50), tested, by="shapley")
