"""APFed over all of the owner's rows: each passive loss runs over the rows that its party has, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_apfed import everything, federation, registry, train  # noqa: F401 - a fixture
from test_contract import TOLERANCE, check_same_apart
from torch import Tensor

import colonnade as cn
from colonnade.errors import SealError
from colonnade.methods.passive import passive_loss
from colonnade.run import make_plan

LOSSES = ["reconstruction", "contrastive"]


def partial(share: float = 0.5) -> list[cn.Table]:
    first, *others = federation()
    random = np.random.default_rng(7)
    return [first, *(replace(table, known=random.random(table.rows) < share) for table in others)]


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_common_rows_alone(loss: str) -> None:
    """In a batch of which a party has some rows it sends what it would send if the batch were only these."""
    tables, method = partial(), cn.APFed(loss=loss)
    some, whole = train(method, tables, rounds=1), train(method, rounds=1)
    turn = cn.Turn(1, torch.arange(20))
    h = torch.randn(20, 60, generator=torch.Generator().manual_seed(0))
    known = tables[1].known[:20]
    some.parties.load({1: whole.parties.states()[1]})
    (masked,) = some.parties.ask(method.assist, turn, all=method_message(h), to=[1])
    few = cn.Turn(1, turn.rows[known])
    (plain,) = whole.parties.ask(method.assist, few, all=method_message(h[known]), to=[1])
    torch.testing.assert_close(masked.slope[known], plain.slope)
    assert bool((masked.slope[~known] == 0).all()) and bool((masked.slope[known] != 0).any())


def method_message(h: Tensor) -> object:
    from colonnade.methods.steps import Embedding

    return Embedding(h)


@pytest.mark.parametrize("loss", LOSSES)
def test_all_runtimes_agree_on_rows_that_not_everybody_has(loss: str) -> None:
    loop, fused, wired, apart = (
        train(cn.APFed(loss=loss), partial(), runtime=each) for each in ("loop", "fused", "bytes", "apart")
    )
    check_same_apart(apart, loop)
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, **TOLERANCE)
        assert torch.equal(everything(wired)[name], value)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_batch_without_a_common_row_changes_nothing_at_a_party(loss: str) -> None:
    first, *others = federation()
    none = np.zeros(60, bool)
    none[0] = True
    tables = [first, *(replace(table, known=none) for table in others)]
    run = train(cn.APFed(loss=loss), tables, rounds=1, batch=16)
    turn = cn.Turn(5, torch.arange(1, 17))
    before = run.parties.states()[2]
    (reply,) = run.parties.ask(cn.APFed(loss=loss).assist, turn, all=method_message(torch.ones(16, 60)), to=[2])
    assert not bool(reply.slope.any())
    assert all(torch.equal(run.parties.states()[2][name], value) for name, value in before.items())


def test_a_loss_of_ones_own_needs_no_mask(registry: None) -> None:  # noqa: F811
    seen: list[int] = []

    @passive_loss("agreement")
    def agreement(mine: cn.Mine, turn: cn.Turn, h: Tensor) -> Tensor:
        seen.append(len(turn.rows))
        assert bool(mine.known(turn).all())
        return (h - mine.net(mine.inputs(turn))).square().mean((-1, -2))

    run = train(cn.APFed(loss="agreement"), partial(), rounds=2)
    batches = [run.schedule.batch_of(number) for number in range(2)]
    assert seen == [int(table.known[rows].sum()) for rows in batches for table in partial()[1:]]


def test_a_blinded_sum_over_a_row_of_one_party_would_be_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner knows who has which rows. The control is without the rule: it reads a single party's gradients."""
    tables = partial()
    with pytest.raises(SealError, match="a row that only one party has is that party's own value; take the common"):
        train(cn.APFed(), tables, rounds=1, seal=cn.Blind())
    monkeypatch.setattr(make_plan, "check_known_sums", lambda *_: None)
    open_run, blind = (train(cn.APFed(), tables, rounds=1, seal=seal) for seal in (None, cn.Blind()))
    turn, sent = cn.Turn(1, torch.arange(20)), method_message(torch.randn(20, 60))
    total = blind.parties.sum(cn.APFed().assist, turn, all=sent, to=range(1, len(tables))).slope
    (own,) = open_run.parties.ask(cn.APFed().assist, turn, all=sent, to=[1])
    known = torch.stack([table.known[:20] for table in tables[1:]])
    alone = known[0] & (known.sum(0) == 1)
    assert bool(alone.any())
    torch.testing.assert_close(total[alone], own.slope[alone], rtol=0, atol=1e-3)
