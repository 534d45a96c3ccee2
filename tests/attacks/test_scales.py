"""Blind with Bits: a sum asked on many scales shows where single parties' values lie; so it has one scale, ever."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lying_owner import LyingOwner, trained

import colonnade as cn
from colonnade.errors import SealError
from colonnade.seal.seal_end import SealEnd
from colonnade.seal.sum_book import SumBook

SEAL = [cn.Blind(), cn.Bits(16)]


def asked(owner: LyingOwner, scale: float, turn: dict[str, object]) -> np.ndarray:
    """The opened sum of one turn on a scale."""
    owner.serial += 1
    told = {"o.bound": torch.tensor(scale)}
    replies = {name: owner.sum(name, "logits", turn, scale=told) for name in owner.names}
    ring = owner.end(owner.victim)._coded["o"].ring.bits
    levels = 2**16 - 1
    return owner.opened(replies, bits=ring).astype(np.float64) * 2 * scale / levels - len(owner.names) * scale


def split(scales: np.ndarray, sums: np.ndarray, parties: int) -> np.ndarray:
    """Where the slope of f(T) = sum of clip(x_k, T) changes most, which is where some |x_k| is; [rows, parties]."""
    bends = np.abs(np.diff(sums, 2, axis=0))
    places = np.sort(np.argsort(bends, axis=0)[-parties:], axis=0)
    return np.moveaxis(scales[1:-1][places], 0, -1)


def test_a_sum_on_many_scales_splits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the two rules, many sums fall apart into the parties' values."""
    owner = LyingOwner(trained(cn.FDML(), SEAL, parties=3))
    monkeypatch.setattr(SumBook, "lend", lambda *_: None)
    monkeypatch.setattr(SealEnd, "check_scales", lambda *_, **__: None)
    monkeypatch.setattr(SealEnd, "within", lambda self, bound, most, name, values, turn: values.clamp(-bound, bound))
    turn = owner.turn(7)
    asked(owner, 16.0, turn)
    values = np.stack([owner.value(name).astype(np.float64) * 32 / (2**16 - 1) - 16 for name in owner.names], -1)
    scales = np.linspace(0.02, float(np.abs(values).max()) * 1.05, 120)
    sums = np.stack([asked(owner, float(scale), turn) for scale in scales])
    found, true = split(scales, sums, 3), np.sort(np.abs(values), -1)
    fell_apart = (np.abs(found - true).max(-1) < 2 * (scales[1] - scales[0])).mean()
    assert fell_apart > 0.3, "of all sums, with all three values near"


def test_a_sum_has_one_scale() -> None:
    owner = LyingOwner(trained(cn.FDML(), SEAL, parties=3))
    turn, last = owner.turn(7), owner.run.model.half.ends["owner"].bounds["logits/o"]
    scale = float(last)
    asked(owner, scale, turn)
    for other in (scale * 0.9, scale * 1.1, scale * 3.9):
        with pytest.raises(SealError, match=r"asked twice for step 'logits' of round 7 .* another message, scale"):
            asked(owner, other, turn)
        end = owner.remote.transport.parties[owner.victim].half.end
        assert float(end.scales["logits/o"][0]) == pytest.approx(scale), "what was refused moves nothing"
    asked(owner, scale, turn)  # the same again, as after a broken link


@pytest.mark.parametrize("factor", [1 / 5, 5.0, 1e-6, 1e6])
def test_a_scale_moves_by_a_factor_of_four_at_most(factor: float) -> None:
    owner = LyingOwner(trained(cn.FDML(), SEAL, parties=3))
    kept = owner.remote.transport.parties[owner.victim].half.end.scales["logits/o"].clone()
    with pytest.raises(SealError, match=f"'{owner.victim}' was told another scale of 'o' .*factor of 4"):
        asked(owner, float(kept[0]) * factor, owner.turn(7))
    assert torch.equal(owner.remote.transport.parties[owner.victim].half.end.scales["logits/o"], kept)


def test_a_refusal_says_no_share() -> None:
    """How many values a clip cuts off is a number about one party's values; that it is too many is one bit."""
    with pytest.raises(SealError) as error:
        trained(cn.FDML(), cn.Blind(clip=0.001))
    assert "too many of party 1's values" in str(error.value) and str(error.value).count("%") == 1
    with pytest.raises(SealError, match=r"[0-9.]+% of party 1's values"):
        trained(cn.FDML(), cn.Bits(8, scale=0.001))
