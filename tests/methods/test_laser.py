"""LASER on rows that not every party has: a slow reference, all runtimes, absent parties, and what may not matter."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_contract import TOLERANCE, check_same_apart, everything, federation, without_time
from torch import Tensor, nn

import colonnade as cn
from colonnade.errors import AwayError, ConfigError, ModelError
from colonnade.methods.laser import _mean, _members, _shares

METHOD = cn.LASER(embedding=4, hidden=6, lr=0.1, momentum=0.0, decay=0.0)


def partial(owner: str = "first", share: float = 0.6, seed: int = 5) -> list[cn.Table]:
    """The contract's tables, of whose rows every party but the owner has some, and a row that only the owner has."""
    first, *others = federation(owner)
    random = np.random.default_rng(seed)
    masks = [random.random(first.rows) < share for _ in others]
    for mask in masks:
        mask[1] = False
    return [first, *(replace(table, known=mask) for table, mask in zip(others, masks, strict=True))]


def train(tables: list[cn.Table], runtime: str = "loop", **more: Any) -> cn.Run:
    settings: dict[str, Any] = {"rounds": 8, "batch": 16, "seed": 3, "valid": 0.1, "test": partial(seed=6)}
    return cn.train(tables, METHOD, runtime=runtime, **{**settings, **more})


# the slow reference


def reference_loss(w: cn.Run, nets: list[nn.Module], top: nn.Module, turn: cn.Turn, tables: list[cn.Table]) -> Tensor:
    """Row by row and set by set, with the sets that the method drew."""
    known = w.owner.known(turn)
    members = _members(w.owner, known, turn)
    total, rows = torch.zeros(()), 0
    for place, row in enumerate(turn.rows.tolist()):
        have = [k for k in range(len(tables)) if bool(known[k, place])]
        sets = [each for size in range(1, len(have) + 1) for each in itertools.combinations(have, size)]
        sets = [each for each in sets if 0 in each]  # the owner has columns
        for size in {len(each) for each in sets}:
            chosen = [k for k in range(len(tables)) if bool(members[size - 1, k, place])]
            assert tuple(chosen) in sets and len(chosen) == size
            h = sum(nets[k](tables[k].columns[row : row + 1]) for k in chosen) / size
            share = len([each for each in sets if len(each) == size]) / len(sets)
            total = total + share * F.cross_entropy(top(h), tables[0].labels[row : row + 1])
        rows += bool(have)
    return total / rows


def test_a_golden_round_is_one_step_on_the_mean_over_sets() -> None:
    tables = partial()
    run = train(tables, rounds=1)
    start = _start(tables)
    groups = start.parties.backend.grouping.groups
    nets, top = [group.loop_nets["net"].module for group in groups], start.owner.top
    turn = cn.Turn(0, start.schedule.batch_of(0))
    loss = reference_loss(start, nets, top, turn, tables)
    parameters = [p for net in [*nets, top] for p in net.parameters()]
    for parameter, slope in zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
        with torch.no_grad():
            parameter -= 0.1 * (0 if slope is None else slope)
    weights = {
        key: value for key, value in everything(start).items() if "weights" in key or key.startswith("owner/top")
    }
    for key, value in weights.items():
        torch.testing.assert_close(everything(run)[key], value, rtol=1e-4, atol=1e-6, msg=key)


def _start(tables: list[cn.Table]) -> cn.Run:
    """The run before its first round."""
    from colonnade.core.settings import TrainOptions
    from colonnade.run.make_plan import make_plan, start

    options = replace(TrainOptions().filled(), rounds=1, batch=16, seed=3, valid=0.1)
    return start(make_plan(tables, METHOD, options), tables)


@pytest.mark.parametrize("owner", ["first", "labels"])
def test_shares_are_those_of_all_sets_and_sum_to_one(owner: str) -> None:
    run = train(partial(owner), rounds=1, test=None)
    known = run.owner.known(cn.Turn(0, torch.arange(60)))
    shares, fixed = _shares(run.owner, known, "rows"), int(owner == "first")
    for row in range(60):
        m = int(known[fixed:, row].sum())
        sizes = range(1, len(known) + 1)
        expected = [math.comb(m, size - fixed) for size in sizes]
        whole = sum(expected)
        torch.testing.assert_close(shares[:, row], torch.tensor([n / max(whole, 1) for n in expected]))


def test_every_set_of_every_row_may_count_alike() -> None:
    run = train(partial(), rounds=1, test=None)
    known = run.owner.known(cn.Turn(0, torch.arange(60)))
    sets = _shares(run.owner, known, "sets")
    torch.testing.assert_close(sets.sum(0), 60 * 2.0 ** known[1:].sum(0) / (2.0 ** known[1:].sum(0)).sum())
    torch.testing.assert_close(sets / sets.sum(0), _shares(run.owner, known, "rows"))
    with pytest.raises(ConfigError, match="what counts alike"):
        cn.LASER(counts="people")


def test_every_set_of_a_size_is_drawn_alike() -> None:
    run = train(partial("labels"), rounds=1, test=None)
    known = torch.ones(4, 6000, dtype=torch.bool)
    pairs = _members(run.owner, known, cn.Turn(0, torch.arange(6000)))[1]
    counts = {pair: int(pairs[list(pair)].all(0).sum()) for pair in itertools.combinations(range(4), 2)}
    assert sum(counts.values()) == 6000 and all(abs(count - 1000) < 120 for count in counts.values())


def test_the_mean_of_nobody_is_zero() -> None:
    h = torch.ones(2, 3, 4)
    members = torch.tensor([[True, False, True], [False, False, True]])
    assert _mean(h, members).tolist() == [[1.0] * 4, [0.0] * 4, [1.0] * 4]


# runtimes


@pytest.mark.parametrize("owner", ["first", "labels"])
def test_all_runtimes_agree_on_rows_that_not_everybody_has(owner: str) -> None:
    tables, test = partial(owner), partial(owner, seed=6)
    loop, fused, wired, apart = (train(tables, each, test=test) for each in ("loop", "fused", "bytes", "apart"))
    check_same_apart(apart, loop)
    assert fused.ledger.to_json() == loop.ledger.to_json() == wired.ledger.to_json()
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, **TOLERANCE)
        assert torch.equal(everything(wired)[name], value)


def test_a_resumed_run_draws_the_same_sets(tmp_path: Path) -> None:
    whole = train(partial(), evaluate_every=2)

    def die(run: cn.Run) -> None:
        if run.round == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(partial(), evaluate_every=2, folder=tmp_path / "run", on_round=die)
    resumed = cn.resume(tmp_path / "run", partial(), test=partial(seed=6))
    assert without_time(resumed.history) == without_time(whole.history)


# what must not matter


def test_the_columns_of_unknown_rows_change_nothing() -> None:
    plain, wild = partial(), partial()
    for table in wild[1:]:
        table.columns[~table.known] = 1e3  # a table sets them to zero, so this is behind its back
    one, other = train(plain, test=None), train(wild, test=None)
    for name, value in everything(one).items():
        assert torch.equal(everything(other)[name], value), name
    assert torch.equal(one.predict(plain), one.predict(wild))


def test_a_party_sends_zeros_and_hears_zeros_about_rows_that_it_lacks() -> None:
    run = train(partial(), rounds=1)
    turn = cn.Turn(9, torch.arange(60))
    h = [reply.h for reply in run.parties.ask(METHOD.embed, turn)]
    known = run.owner.known(turn)
    for k in range(4):
        assert bool((h[k][~known[k]] == 0).all()) and bool((h[k][known[k]] != 0).any())


def test_batch_norm_would_average_what_a_party_lacks_and_is_refused() -> None:
    def norm(shape: tuple[int, ...], width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], width), nn.BatchNorm1d(width))

    with pytest.raises(ModelError, match="party 1 has batch norm"):
        train(partial(), model=norm)
    train(federation("first"), model=norm, rounds=1)


# whoever is there


def test_an_absent_party_is_not_in_the_mean() -> None:
    run, test = train(partial()), federation("first")
    gone = [test[0], test[1], *(replace(table, known=np.zeros(60, bool)) for table in test[2:])]
    names = [table.name for table in test[2:]]
    for policy in ("zero", "mean"):
        assert torch.equal(run.predict(test, absent=names, missing=policy), run.predict(gone))
    assert run.predict(test[:2], missing="zero").equal(run.predict(gone))
    with pytest.raises(AwayError):
        run.predict(test, absent=names)


@pytest.mark.parametrize("runtime", ["loop", "fused", "apart"])
def test_the_owner_predicts_with_its_own_columns_if_all_others_are_absent(runtime: str) -> None:
    run, test = train(partial(), runtime), federation("first")
    names = [table.name for table in test[1:]]
    alone = [test[0], *(replace(table, known=np.zeros(60, bool)) for table in test[1:])]
    torch.testing.assert_close(run.predict(test, absent=names, missing="zero"), run.predict(alone))
    assert run.took_part


def test_a_round_goes_on_without_a_party_which_stays_as_it_was() -> None:
    tables = federation("first")
    name, settings = tables[2].name, {"rounds": 4, "batch": 16, "seed": 3, "when_absent": "without", "missing": "zero"}
    run = cn.train(tables, METHOD, absent=lambda number: [name], **settings)
    assert run.missed[name] == 4 and run.without == 4
    before, after = everything(_start(tables)), everything(run)
    for key in before:
        if key.startswith(("party-001/net/weights", "party-002/net/weights")):
            assert torch.equal(after[key], before[key]) == key.startswith("party-002"), key
