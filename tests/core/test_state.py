"""State in flat dictionaries: out and back in, bit for bit, and never of another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from colonnade.core.optim import SGD, Adagrad, Adam
from colonnade.core.state import pack, pack_optimizer, under, unpack, unpack_optimizer
from colonnade.errors import CheckpointError

Things = dict[str, Any]
OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    SGD(0.1, momentum=0.9, decay=0.01),
    SGD(0.1, momentum=0.0),
    Adam(0.01, decay=0.1),
    Adagrad(0.1),
    lambda parameters: torch.optim.Adam(parameters, amsgrad=True),
    lambda parameters: torch.optim.RMSprop(parameters, momentum=0.5, centered=True),
    lambda parameters: torch.optim.NAdam(parameters),
]
NAMES = ["momentum", "sgd", "adam", "adagrad", "amsgrad", "rmsprop", "nadam"]


def things(build: Callable[[Any], torch.optim.Optimizer], seed: int) -> Things:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    return {"net": net, "optimizer": build(net.parameters()), "dual": torch.randn(5, 2)}


def steps(own: Things, numbers: range) -> None:
    for number in numbers:
        rows = torch.randn(6, 3, generator=torch.Generator().manual_seed(number))
        loss = own["net"](rows).square().mean()
        own["optimizer"].zero_grad()
        loss.backward()
        own["optimizer"].step()
        own["dual"] += loss.detach()


def assert_same(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert value.dtype == two[name].dtype, name
        assert torch.equal(value, two[name]), name


@pytest.mark.parametrize("build", OPTIMIZERS, ids=NAMES)
def test_training_goes_on_as_if_nothing_had_happened(build: Callable[[Any], torch.optim.Optimizer]) -> None:
    undisturbed, before, after = things(build, 0), things(build, 0), things(build, 1)
    steps(undisturbed, range(5))
    steps(before, range(2))
    unpack(after, pack(before), "party 0")
    assert_same(pack(after), pack(before))
    steps(after, range(2, 5))
    assert_same(pack(after), pack(undisturbed))


def test_the_names_say_what_is_what() -> None:
    own = things(SGD(), 0)
    assert not [name for name in pack(own) if name.startswith("optimizer/")]  # nothing before the first step
    steps(own, range(1))
    packed = pack(own)
    assert {"dual/value", "net/0.weight", "net/1.running_mean", "optimizer/SGD/0/momentum_buffer"} <= packed.keys()
    assert packed["net/1.num_batches_tracked"].dtype == torch.int64
    assert under(packed, "optimizer").keys() == {f"SGD/{position}/momentum_buffer" for position in range(6)}


def test_under_takes_whole_names_only() -> None:
    packed = {"a/b": torch.ones(1), "ab/c": torch.ones(1), "a/b/c": torch.ones(1)}
    assert under(packed, "a").keys() == {"b", "b/c"}


def test_packed_tensors_are_copies_both_ways() -> None:
    own = things(SGD(), 0)
    steps(own, range(1))
    packed = pack(own)
    kept = {name: value.clone() for name, value in packed.items()}
    steps(own, range(1, 2))
    assert_same(packed, kept)  # later training does not reach into a saved state
    unpack(own, packed, "owner")
    steps(own, range(1, 2))
    assert_same(packed, kept)  # nor does training after a load
    assert not any(value.requires_grad for value in packed.values())


def test_parameters_stay_the_objects_that_the_optimiser_holds() -> None:
    own = things(SGD(), 0)
    held = [id(parameter) for parameter in own["net"].parameters()]
    unpack(own, pack(things(SGD(), 1)), "owner")
    assert [id(parameter) for parameter in own["net"].parameters()] == held
    assert all(parameter.requires_grad for parameter in own["net"].parameters())


def test_an_older_state_without_buffers_clears_them() -> None:
    own = things(SGD(), 0)
    fresh = pack(own)
    steps(own, range(2))
    unpack(own, fresh, "owner")
    assert pack_optimizer(own["optimizer"]) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda packed: packed.pop("net/0.bias"),
        lambda packed: packed.update({"net/9.bias": torch.zeros(1)}),
        lambda packed: packed.update({"net/0.bias": torch.zeros(5)}),
        lambda packed: packed.update({"dual/value": torch.zeros(2, 5)}),
        lambda packed: packed.pop("dual/value"),
    ],
    ids=["missing", "too many", "longer", "transposed", "no tensor"],
)
def test_a_state_of_another_shape_is_refused(change: Callable[[dict[str, Tensor]], Any]) -> None:
    own = things(SGD(), 0)
    packed = pack(own)
    change(packed)
    with pytest.raises(CheckpointError, match=r"^party 3: (net|dual) has tensors .* it is foreign"):
        unpack(own, packed, "party 3")


@pytest.mark.parametrize(
    "change", [lambda name, value: (name, value.new_zeros(99)), lambda name, value: ("9/x", value)]
)
def test_optimiser_buffers_of_another_shape_are_refused(change: Callable[[str, Tensor], tuple[str, Tensor]]) -> None:
    own = things(SGD(), 0)
    steps(own, range(1))
    packed = dict(change(name, value) for name, value in pack_optimizer(own["optimizer"]).items())
    with pytest.raises(CheckpointError):
        unpack_optimizer(own["optimizer"], packed)


def test_what_cannot_be_kept_is_said() -> None:
    with pytest.raises(TypeError, match="a list cannot be kept as state"):
        pack({"notes": []})


def test_a_dictionary_of_tensors_is_replaced_whole() -> None:
    packed = pack({"trees": {"value": torch.arange(3.0), "left": torch.arange(2)}})
    trees = {"value": torch.zeros(7), "other": torch.zeros(1)}
    unpack({"trees": trees}, packed, "owner")
    assert trees.keys() == {"value", "left"} and torch.equal(trees["value"], torch.arange(3.0))


def test_packed_tensors_are_contiguous() -> None:
    picture = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    assert all(value.is_contiguous() for value in pack({"net": picture, "dual": torch.zeros(2, 3).T}).values())
