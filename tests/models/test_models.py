"""Party networks and optimisers: shapes, defaults, and names that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade import models
from colonnade.core import optim
from colonnade.core.method import Part
from colonnade.core.optim import SGD, Adagrad, Adam, make_optimizer
from colonnade.errors import ConfigError, ModelError
from colonnade.models import CNN, MLP, LeNet, ResNet, SmallCNN, default_model, make_model
from colonnade.runtime.fused import FusedNet
from colonnade.runtime.loop import LoopNet


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


PICTURES = [(7, 28), (14, 14), (2, 28), (1, 5), (3, 16, 16), (3, 8, 32), (1, 1, 1)]


def layers(net: nn.Module, *kinds: type[nn.Module]) -> int:
    return sum(isinstance(layer, kinds) for layer in net.modules())


@pytest.mark.parametrize("shape", PICTURES, ids=str)
@pytest.mark.parametrize("builder", [SmallCNN(), LeNet(), ResNet(18, 4), ResNet(50, 2)], ids=str)
def test_picture_networks_take_parts_of_any_size(builder: Any, shape: tuple[int, ...]) -> None:
    net = builder(shape, 9)
    output = net(torch.randn(4, *shape))
    assert output.shape == (4, 9)
    assert bool((output >= 0).all())  # they end with ReLU
    assert builder.decision(9, 3)(output).shape == (4, 3)


@pytest.mark.parametrize(
    ("builder", "convolutions", "poolings", "linear"), [(SmallCNN(), 2, 2, 2), (LeNet(), 3, 1, 3), (MLP(), 0, 0, 3)]
)
def test_the_networks_of_the_vfedmh_paper(builder: Any, convolutions: int, poolings: int, linear: int) -> None:
    """Embedding and decision net together have the layers that section VI names."""
    whole = nn.Sequential(builder((14, 14), 60), builder.decision(60, 10))
    assert layers(whole, nn.Conv2d) == convolutions
    assert layers(whole, nn.MaxPool2d) == poolings
    assert layers(whole, nn.Linear) == linear


@pytest.mark.parametrize(("depth", "weights"), [(18, 11), (50, 23), (101, 42)])
def test_resnets_have_the_size_of_the_originals(depth: int, weights: int) -> None:
    """Millions of weights at the original width, of which the last layer is ours."""
    with torch.device("meta"):
        net = ResNet(depth, width=64)((3, 32, 32), 60)
    assert sum(parameter.numel() for parameter in net.parameters()) // 10**6 == weights
    assert layers(net, nn.Conv2d) - layers(net, nn.AdaptiveAvgPool2d) * 4 + 1 == depth - (depth == 18)


@pytest.mark.parametrize("builder", [SmallCNN(), LeNet(), ResNet()], ids=str)
def test_picture_networks_refuse_tables(builder: Any) -> None:
    with pytest.raises(ModelError, match=r"rows of shape \(5,\) are no pictures.*use cn.MLP"):
        builder((5,), 9)


def test_resnets_come_in_three_depths() -> None:
    with pytest.raises(ConfigError, match="depth=34 is not known; choose from 18, 50, 101"):
        ResNet(34)


TO_FUSE = [SmallCNN((2, 3)), LeNet((2, 2, 3)), ResNet(18, 4), ResNet(50, 2)]


@pytest.fixture
def _doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_doubles")
@pytest.mark.parametrize("builder", TO_FUSE, ids=str)
def test_stacked_picture_networks_take_the_same_step(builder: Any) -> None:
    """In float64: batch norm over a few small pictures blows float32's rounding up to a hundredth in one step."""
    torch.manual_seed(0)
    singles = [LoopNet(Part(builder((7, 14), 6), SGD(0.01)), "a party") for _ in range(3)]
    fused = FusedNet(singles, SGD(0.01))
    inputs, slopes = torch.randn(3, 20, 7, 14), torch.randn(3, 20, 6)
    fused.descend(fused(inputs), slopes)
    for k, (net, state) in enumerate(zip(singles, fused.states(3), strict=True)):
        net.descend(net(inputs[k]), slopes[k])
        for name, value in net.module.state_dict().items():
            torch.testing.assert_close(state[f"weights/{name}"], value, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("builder", TO_FUSE, ids=str)
def test_picture_networks_are_fused_and_trained(builder: Any) -> None:
    pictures = torch.randn(20, 28, 28, generator=torch.Generator().manual_seed(0)).numpy()
    tables = cn.split(pictures, [row % 3 for row in range(20)], 4, by="patches", owner="first")
    run = cn.train(tables, cn.VFedMH(embedding=6), rounds=1, batch=20, model=builder)
    assert [site.members for site in run.parties.backend.grouping.groups] == [[0], [1, 2, 3]]


class OwnDecision:
    """A builder of one's own with a decision net of its own."""

    def __init__(self, width: int | None = None) -> None:
        self.width = width

    def __call__(self, shape: tuple[int, ...], width: int) -> nn.Module:
        return MLP(())(shape, width)

    def decision(self, embedding: int, classes: int) -> nn.Module:
        return nn.Sequential(nn.Tanh(), nn.Linear(embedding, self.width or classes))


def test_a_builder_may_bring_its_decision_net() -> None:
    train, _ = cn.load("digits", parties=4, owner="first", rows=40)
    mixed = [OwnDecision(), MLP(), lambda shape, width: MLP()(shape, width), LeNet((2, 2, 2))]
    run = cn.train(train, "vfedmh", rounds=1, batch=20, model=mixed, runtime="loop")
    decisions = [kinds(site.loop_nets["decision"].module) for site in run.parties.backend.grouping.groups]  # type: ignore[attr-defined]
    assert decisions == [["Tanh", "Linear"], [], ["Linear", "ReLU", "Linear"], ["Linear", "ReLU", "Linear"]]
    with pytest.raises(ModelError, match="network of 'owner' gives outputs of width 7, but 10 is expected"):
        cn.train(train, "vfedmh", rounds=1, batch=20, model=OwnDecision(7))


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
    assert make_model("small-cnn", channels=[4, 5]) == SmallCNN((4, 5))
    assert make_model("lenet", hidden=9) == LeNet(hidden=9)
    assert make_model("resnet", depth=50, width=8) == ResNet(50, 8)


@pytest.mark.parametrize(
    ("make", "kind", "options", "why"),
    [
        (make_model, "mpl", {}, "unknown model 'mpl'; did you mean 'mlp'"),
        (
            make_model,
            "transformer",
            {},
            "unknown model 'transformer'; known: apfed-cnn, bottleneck, cnn, lenet, mlp, pretrained, resnet, small-cnn",
        ),
        (make_model, "mlp", {"hiden": [3]}, "model mlp takes hidden, but hiden came"),
        (make_model, "cnn", {"hidden": [3]}, "model cnn takes channels, upsample, but hidden came"),
        (make_optimizer, "sdg", {}, "unknown optimizer 'sdg'; did you mean 'sgd'"),
        (make_optimizer, "lbfgs", {}, "unknown optimizer 'lbfgs'; known: adagrad, adam, sgd"),
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
    assert isinstance(optimizer, kind) and type(optimizer).__name__ == kind.__name__
    assert settings.items() <= optimizer.param_groups[0].items()


@pytest.mark.parametrize("builder", [MLP((3,)), CNN((4, 4), 8), SmallCNN(), LeNet(), ResNet(50)], ids=str)
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
