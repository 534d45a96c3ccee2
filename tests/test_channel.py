"""The channel: the same tensors and the same ledger, whether bytes are really made or only counted."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from colonnade.wire.channel import Channel
from torch import Tensor

from colonnade.core.schedule import Turn
from colonnade.errors import ColonnadeError, TrainingError
from colonnade.wire.ledger import OWNER, Ledger, Line
from colonnade.wire.message import Envelope, encode


class Pair(NamedTuple):
    h: Tensor
    w: Tensor


def pair() -> Pair:
    return Pair(torch.arange(6.0).reshape(2, 3).T, torch.tensor([1, 2, 3], dtype=torch.int8))


def both(channel: Channel, message: Any) -> tuple[Any, Any]:
    up = channel.to_owner(message, party="bank", step="embed", turn=Turn(3, torch.arange(3), purpose="train"))
    down = channel.to_party(message, party="bank", step="follow", turn=Turn(3, torch.arange(3), purpose="evaluate"))
    return up, down


def test_wire_or_not_the_ledger_and_the_tensors_are_the_same() -> None:
    counted, real = Channel(wire=False), Channel(wire=True)
    for plain, travelled in zip(both(counted, pair()), both(real, pair()), strict=True):
        assert type(plain) is type(travelled) is Pair
        for a, b, sent in zip(plain, travelled, pair(), strict=True):
            assert a.dtype == b.dtype == sent.dtype
            assert torch.equal(a, b) and torch.equal(a, sent)
    assert counted.ledger.rows == real.ledger.rows


@pytest.mark.parametrize("wire", [False, True])
def test_the_ledger_has_the_bytes_of_the_frame(wire: bool) -> None:
    channel = Channel(wire=wire)
    both(channel, pair())
    up = len(encode(pair(), Envelope("embed", "bank", 3)))
    down = len(encode(pair(), Envelope("follow", OWNER, 3)))
    assert channel.ledger.rows == [
        Line("train", "embed", "bank", OWNER, messages=1, payload=27, overhead=up - 27, summed=False),
        Line("evaluate", "follow", OWNER, "bank", messages=1, payload=27, overhead=down - 27, summed=False),
    ]


def test_the_given_ledger_is_used_even_when_it_is_empty() -> None:
    ledger = Ledger()
    both(Channel(ledger), pair())
    assert len(ledger.rows) == 2


@pytest.mark.parametrize("wire", [False, True])
def test_no_gradient_crosses(wire: bool) -> None:
    weight = torch.ones(2, requires_grad=True)
    came = Channel(wire=wire).to_owner(
        Pair(weight * 3, weight), party="bank", step="embed", turn=Turn(0, torch.arange(3), purpose="train")
    )
    assert [tensor.requires_grad for tensor in came] == [False, False]
    came.h.requires_grad_().sum().backward()
    assert weight.grad is None


@pytest.mark.parametrize("wire", [False, True])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_name_who_when_and_where(wire: bool, value: float) -> None:
    channel = Channel(wire=wire)
    message = Pair(torch.zeros(2), torch.tensor([0.0, value]))
    with pytest.raises(TrainingError, match=r"^bank sent .* in 'w' of step 'embed' in round 12;"):
        channel.to_owner(message, party="bank", step="embed", turn=Turn(12, torch.arange(3), purpose="train"))
    with pytest.raises(TrainingError, match=r"^owner sent .* in 'w' of step 'follow' in round 13;"):
        channel.to_party(message, party="bank", step="follow", turn=Turn(13, torch.arange(3), purpose="train"))
    assert channel.ledger.rows == []  # what was not sent is not counted


@pytest.mark.parametrize("wire", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_large_values_whose_sum_overflows_are_accepted(wire: bool, dtype: torch.dtype) -> None:
    large = torch.full((3,), torch.finfo(dtype).max, dtype=dtype)
    assert not torch.isfinite(large.sum())
    up, _ = both(Channel(wire=wire), Pair(large, -large))
    assert torch.equal(up.h, large) and torch.equal(up.w, -large)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, dtype=torch.bool),
        torch.zeros(2, dtype=torch.bfloat16),
        torch.zeros((1,) * 9),
    ],
    ids=["bool", "bfloat16", "nine dimensions"],
)
@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(False),
        True,
    ],
)
def test_what_has_no_wire_form_is_refused_in_simulation_too(wire: bool, tensor: Tensor) -> None:
    with pytest.raises(ColonnadeError):
        Channel(wire=wire).to_owner(
            Pair(tensor, tensor), party="bank", step="embed", turn=Turn(0, torch.arange(3), purpose="train")
        )
