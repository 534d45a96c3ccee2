"""Party networks and optimisers: shapes, defaults, and names that do not exist."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from colonnade import models, optim
from colonnade.errors import ConfigError
from colonnade.models import CNN, MLP, default_model, make_model
from colonnade.optim import SGD, Adagrad, Adam, make_optimizer


def kinds(net: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in net.children()]


# Networks


@pytest.mark.parametrize("shape", [(5,), (2, 28), (3, 4, 4)], ids=str)
@pytest.mark.parametrize("hidden", [(), (7,), (7, 6)], ids=str)
def test_mlp_gives_its_width(shape: tuple[int, ...], hidden: tuple[int, ...]) -> None:
    net = MLP(hidden)(shape, 9)
    output = net(torch.randn(4, *shape))
    assert output.shape == (4, 9)
    assert bool((output >= 0).all())  # it ends with ReLU
    assert kinds(net) == ["Flatten"] + ["Linear", "ReLU"] * (len(hidden) + 1)


def test_mlp_by_hand() -> None:
    net = MLP(())((2,), 1)
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[1.0, -2.0]]))
        net[1].bias.fill_(0.5)
    assert net(torch.tensor([[3.0, 1.0], [0.0, 1.0]])).tolist() == [[1.5], [0.0]]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 10, 11), (28, 28), (8, 9), (2, 2), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("upsample", [0, 16])
def test_cnn_takes_pictures_of_any_size(shape: tuple[int, ...], upsample: int) -> None:
    net = CNN(channels=(4, 4, 4, 8), upsample=upsample)(shape, 5)
    assert net(torch.randn(3, *shape)).shape == (3, 5)
    assert kinds(net)[-3:] == ["Linear", "BatchNorm1d", "ReLU"]


def test_cnn_pools_three_times_where_there_is_room() -> None:
    assert kinds(CNN()((3, 32, 32), 5)).count("AvgPool2d") == 3
    assert kinds(CNN()((3, 4, 4), 5)).count("AvgPool2d") == 2
    assert kinds(CNN()((3, 32, 32), 5)).count("Conv2d") == 4


@pytest.mark.parametrize(
    ("shape", "first"),
    [
        ((5,), "Flatten"),  # a table
        ((2, 28), "Flatten"),  # a strip of a picture
        ((3, 7, 7), "Flatten"),  # a patch too small to convolve
        ((3, 10, 10), "Conv2d"),  # a patch
        ((8, 8), "_AsPicture"),  # a grey picture
    ],
)
def test_defaults(shape: tuple[int, ...], first: str) -> None:
    net = default_model(shape, 6)
    assert kinds(net)[0] == first
    assert net(torch.randn(2, *shape)).shape == (2, 6)


def test_models_are_new_each_time_and_follow_the_seed() -> None:
    nets = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        nets.append(MLP()((3,), 2)[1].weight)
    assert torch.equal(nets[0], nets[1]) and not torch.equal(nets[0], nets[2])
    assert nets[0] is not nets[1]


# Names


def test_models_by_name() -> None:
    assert make_model("mlp", hidden=[3, 4]) == MLP((3, 4))
    assert make_model("cnn", channels=[4], upsample=8) == CNN((4,), 8)


@pytest.mark.parametrize(
    ("make", "kind", "options", "why"),
    [
        (make_model, "mpl", {}, "unknown model 'mpl'; did you mean 'mlp'"),
        (make_model, "transformer", {}, "unknown model 'transformer'; Known: cnn, mlp"),
        (make_model, "mlp", {"hiden": [3]}, "model mlp takes hidden, but hiden came"),
        (make_model, "cnn", {"hidden": [3]}, "model cnn takes channels, upsample, but hidden came"),
        (make_optimizer, "sdg", {}, "unknown optimizer 'sdg'; did you mean 'sgd'"),
        (make_optimizer, "lbfgs", {}, "unknown optimizer 'lbfgs'; .*Known: adagrad, adam, sgd"),
        (make_optimizer, "adam", {"momentum": 0.9}, "optimizer adam takes lr, decay, but momentum came"),
    ],
)
def test_names_that_do_not_exist(make: Any, kind: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make(kind, **options)


def test_optimisers_by_name() -> None:
    assert make_optimizer("sgd", lr=0.3, momentum=0.0, decay=0.1) == SGD(0.3, 0.0, 0.1)
    assert make_optimizer("adam") == Adam()
    assert make_optimizer("adagrad", lr=1.0) == Adagrad(1.0)


@pytest.mark.parametrize(
    ("builder", "kind", "settings"),
    [
        (SGD(0.3, 0.5, 0.1), torch.optim.SGD, {"lr": 0.3, "momentum": 0.5, "weight_decay": 0.1}),
        (Adam(0.3, 0.1), torch.optim.AdamW, {"lr": 0.3, "weight_decay": 0.1}),
        (Adagrad(0.3, 0.1), torch.optim.Adagrad, {"lr": 0.3, "weight_decay": 0.1}),
    ],
)
def test_what_optimiser_builders_build(builder: Any, kind: type, settings: dict[str, float]) -> None:
    optimizer = builder([torch.zeros(2, requires_grad=True)])
    assert type(optimizer) is kind
    assert settings.items() <= optimizer.param_groups[0].items()


@pytest.mark.parametrize("builder", [MLP((3,)), CNN((4, 4), 8)], ids=str)
def test_models_can_be_written_down(builder: Any) -> None:
    described = models.describe(builder)
    assert described is not None
    assert make_model(**described) == builder


@pytest.mark.parametrize("builder", [SGD(0.3), Adam(), Adagrad()], ids=str)
def test_optimisers_can_be_written_down(builder: Any) -> None:
    described = optim.describe(builder)
    assert described is not None
    assert make_optimizer(**described) == builder


def test_builders_of_ones_own_cannot() -> None:
    assert models.describe(default_model) == {"kind": "default"}
    assert models.describe(lambda shape, width: nn.Identity()) is None
    assert optim.describe(torch.optim.SGD) is None
