"""APFed: alone without its parties, losses of one's own, contributions, and what it refuses."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import colonnade as cn
from colonnade.errors import ConfigError, ModelError, SealError, TrainingError
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import resume_job, train_job
from colonnade.methods import passive
from colonnade.methods.contribution import left_out, other_rows, pushed
from colonnade.methods.passive import contrastive, passive_loss

ROWS, CLASSES = 60, 3
PICTURES = cn.APFedCNN((4, 6), (3, 3), (1, 2))


def federation(rows: int = ROWS, widths: tuple[int, ...] = (3, 3, 3, 2)) -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, sum(widths))).astype(np.float32)
    y = (x @ rng.normal(size=(sum(widths), CLASSES))).argmax(1)
    cuts = np.cumsum((0, *widths)).tolist()
    return cn.split(x, y, [list(range(a, b)) for a, b in itertools.pairwise(cuts)], owner="first")


def pictures() -> list[cn.Table]:
    rng = np.random.default_rng(0)
    return cn.split(rng.random((30, 12, 7)).astype(np.float32), np.arange(30) % 3, 3, by="rows", owner="first")


def train(method: cn.Method, tables: list[cn.Table] | None = None, **more: Any) -> cn.Run:
    return cn.train(tables or federation(), method, **{"rounds": 6, "batch": 16, "seed": 3, **more})


def everything(run: cn.Run) -> dict[str, Tensor]:
    return {f"{side}/{name}": value for side, state in run.model.states().items() for name, value in state.items()}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passive, "_losses", dict(passive._losses))


# The owner alone


def with_noise(shape: tuple[int, ...], width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, width))


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize("options", [{}, {"hidden": 7, "dropout": 0.5}], ids=["plain", "dropout"])
@pytest.mark.parametrize("model", [None, with_noise], ids=["mlp", "noise"])
@pytest.mark.parametrize("loss", ["reconstruction", "contrastive"])
def test_without_weight_it_is_local_number_by_number(loss: str, model: Any, options: Any, runtime: str) -> None:
    more = {"model": model, "runtime": runtime, "valid": 0.1, "test": federation()}
    alone = train(cn.Local(**options), **more)
    helped = train(cn.APFed(loss=loss, weight=0.0, **options), **more)
    assert helped.ledger.total > 0 == alone.ledger.total
    was, now = alone.model.states()["party-000"], helped.model.states()["party-000"]
    for old, new in (("0.", "net/weights/"), ("1.", "task/weights/")):
        for name, value in was.items():
            if name.startswith(f"net/weights/{old}"):
                assert torch.equal(now[new + name.removeprefix(f"net/weights/{old}")], value), name
    for one, other in zip(alone.history, helped.history, strict=True):
        assert {k: v for k, v in one.items() if k not in ("seconds", "bytes")} == {
            k: v for k, v in other.items() if k not in ("seconds", "bytes")
        }
    assert torch.equal(alone.predict(federation()), helped.predict(federation()))


def test_with_weight_it_is_not_local() -> None:
    assert not torch.equal(train(cn.Local()).predict(federation()), train(cn.APFed()).predict(federation()))


@pytest.mark.parametrize("method", [cn.APFed(), cn.TVFL(), cn.TVFL(fill="mean"), cn.TVFL(fill="random")], ids=repr)
def test_a_prediction_asks_nobody(method: cn.Method) -> None:
    run = train(method)
    before = run.ledger.total
    expected = run.predict(federation())
    tables = federation()
    gone = [tables[0]] + [
        cn.Table(t.ids, torch.full_like(torch.as_tensor(t.columns), 9.0), name=t.name) for t in tables[1:]
    ]
    assert torch.equal(run.predict(gone), expected)
    assert run.ledger.total == before


# What the parties choose


def test_like_parties_of_one_loss_are_computed_together() -> None:
    losses = ("contrastive", "reconstruction", "contrastive", "reconstruction")
    method = cn.APFed(losses=losses, weights=(1.0, 2.0, 0.0, 0.5))
    tables = federation(widths=(2, 3, 3, 3, 3))
    loop, fused = (train(method, tables, runtime=runtime) for runtime in ("loop", "fused"))
    assert [site.members for site in fused.parties.backend.grouping.groups] == [[0], [1, 3], [2, 4]]
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("registry")
def test_a_plain_function_is_a_loss() -> None:
    @passive_loss("agreement")
    def agreement(mine: cn.Mine, turn: cn.Turn, h: Tensor, *, temperature: float) -> Tensor:
        return (h - mine.net(mine.inputs(turn))).square().mean((-1, -2)) / temperature

    method = cn.APFed(losses=("agreement", "contrastive", "agreement"), temperature=0.5)
    loop, fused = (train(method, federation(widths=(3, 3, 3, 3)), runtime=runtime) for runtime in ("loop", "fused"))
    assert [site.members for site in fused.parties.backend.grouping.groups] == [[0], [1, 3], [2]]
    for name, value in everything(loop).items():
        torch.testing.assert_close(everything(fused)[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda x: x.square().mean(-1), r"gave the shape \(.*16,?\) where \(.*\) was expected; reduce it"),
        (lambda x: x.square().mean((-1, -2)).unsqueeze(-1), r"gave the shape \(.*1,?\) where"),
        (lambda x: 0.5, "gave a float where"),
        (lambda x: x.mean((-1, -2)) * torch.inf, "is not finite; lower the learning rate"),
        (lambda x: x.mean((-1, -2)) * torch.nan, "is not finite"),
        (lambda x: x.mean((-1, -2)).detach(), "has no gradient"),
    ],
    ids=["rows", "axis", "number", "infinite", "nan", "detached"],
)
def test_a_loss_that_is_none(wrong: Any, sentence: str, runtime: str) -> None:
    passive_loss("wrong")(lambda mine, turn, h: wrong(h - mine.net(mine.inputs(turn))))
    with pytest.raises(TrainingError, match=f"failed at party 2.* in round 0 .*the passive loss 'wrong' {sentence}"):
        train(cn.APFed(loss="wrong"), runtime=runtime)


@pytest.mark.usefixtures("registry")
def test_a_loss_that_forgets_the_owner() -> None:
    passive_loss("deaf")(lambda mine, turn, h: mine.net(mine.inputs(turn)).square().mean((-1, -2)))
    with pytest.raises(TrainingError, match="does not depend on the owner's embedding"):
        train(cn.APFed(loss="deaf"))


@pytest.mark.usefixtures("registry")
def test_losses_that_cannot_be_used() -> None:
    with pytest.raises(ConfigError, match="unknown network of a passive party 'encoder'"):
        passive_loss("odd", nets=("encoder",))
    passive_loss("odd")(lambda mine, turn, h, *, sharpness: h)
    with pytest.raises(ConfigError, match="'odd' wants an option 'sharpness', which apfed does not have"):
        cn.APFed(loss="odd")


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("runtime", ["loop", "fused"])
def test_a_loss_without_networks(runtime: str) -> None:
    passive_loss("small", nets=())(lambda mine, turn, h: h.square().mean((-1, -2)))
    assert train(cn.APFed(loss="small"), runtime=runtime).round == 6


def test_one_row_cannot_be_contrasted() -> None:
    odd = "needs at least 2 rows in a batch and the smallest batch has 1; choose a batch size"
    with pytest.raises(ConfigError, match=odd):
        train(cn.APFed(loss="contrastive"), federation(33))
    with pytest.raises(ConfigError, match=odd):
        train(cn.APFed(losses=("reconstruction", "contrastive", "reconstruction")), batch=1)
    assert train(cn.APFed(), federation(33)).round == 6
    short = train(cn.APFed(loss="contrastive"), federation(33), rounds=2)  # never comes to the last batch
    with pytest.raises(ConfigError, match=odd):
        short.prolong(3)
    with pytest.raises(TrainingError, match="needs at least 2 rows in a batch and round 2 has 1"):
        short.method.round(short.owner, short.parties, cn.Turn(2, torch.arange(1)))


def test_rows_at_nought_have_no_direction_and_no_gradient() -> None:
    class Side:
        nets = {"net": None}  # noqa: RUF012

        @staticmethod
        def net(x: Tensor) -> Tensor:
            return x

        @staticmethod
        def inputs(turn: cn.Turn) -> Tensor:
            return torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]])

    h = torch.tensor([[1.0, 1.0], [0.0, 0.0], [2.0, 1.0]], requires_grad=True)
    loss = contrastive(Side(), cn.Turn(0, torch.arange(3)), h, temperature=1.0)  # type: ignore[arg-type]
    (slope,) = torch.autograd.grad(loss, h)
    assert torch.isfinite(slope).all() and slope.abs().max() < 10 and not slope[1].any()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": "reconstuction"}, "unknown passive loss 'reconstuction'; did you mean 'reconstruction'"),
        ({"losses": ("contrastive", 3)}, "unknown passive loss '3'"),
        ({"losses": "contrastive"}, "lists with one entry per passive party"),
        ({"weight": -1.0}, "weight -1.0 is out of range"),
        ({"weights": (1.0, float("nan"), 1.0)}, "weight nan is out of range"),
        ({"weights": (1.0, "2", 1.0)}, "weight '2' is out of range"),
        ({"temperature": 0.0}, "temperature=0.0 is out of range"),
        ({"projection": -1}, "projection=-1 is out of range"),
        ({"contribution_every": -1}, "contribution_every=-1 is out of range"),
        ({"contribution_every": 2.5}, "contribution_every=2.5 is not a whole number"),
        ({"dropout": 1.0}, "dropout from 0 to less than 1"),
        ({"losses": ("contrastive",)}, "losses has 1 entries for 3 parties beside the owner"),
        ({"losses": ("contrastive",) * 4}, "losses has 4 entries for 3 parties"),
        ({"weights": (1.0, 2.0)}, "weights has 2 entries for 3 parties"),
    ],
    ids=str,
)
def test_options_out_of_range(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        train(cn.APFed(**options))


def test_other_refusals() -> None:
    with pytest.raises(ConfigError, match="apfed needs a party beside the owner, and there is none; use local"):
        train(cn.APFed(), federation(widths=(3,)))
    with pytest.raises(ConfigError, match="unknown fill of tvfl 'zeros'; did you mean 'zero'"):
        cn.TVFL(fill="zeros")
    with pytest.raises(ConfigError, match="hidden=-1"):
        cn.Local(hidden=-1)


def test_lists_survive_a_resume(tmp_path: Path) -> None:
    method = cn.APFed(
        losses=("contrastive", "reconstruction", "contrastive"), weights=(1.0, 0.5, 2.0), optimizer="sgd", lr=0.1
    )
    whole = train(method, folder=tmp_path / "run")
    assert cn.resume(tmp_path / "run", federation()).method == method == whole.method


def test_lists_survive_a_job(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        '[data]\nload = "digits"\nparties = 3\nowner = "first"\n'
        '[train]\nmethod = "apfed"\nrounds = 2\n'
        '[method]\nlosses = ["contrastive", "reconstruction"]\nweights = [1, 0.5]\n'
    )
    job = read_job(tmp_path / "job.toml")
    train_job(job, tmp_path / "run")
    assert resume_job(job, tmp_path / "run").method == cn.APFed(
        losses=("contrastive", "reconstruction"), weights=(1, 0.5), optimizer="sgd", lr=0.1
    )


# Networks


@pytest.mark.parametrize("builder", [cn.APFedCNN(), cn.APFedCNN.cifar(), PICTURES, cn.MLP((7, 6))], ids=str)
@pytest.mark.parametrize("shape", [(14, 28), (3, 16, 32), (9, 11), (3, 11, 13)], ids=str)
def test_a_decoder_gives_every_number_of_a_row(builder: Any, shape: tuple[int, ...]) -> None:
    net, decoder = builder(shape, 5), builder.decoder(shape, 5)
    assert decoder(net(torch.rand(2, *shape))).shape == (2, int(np.prod(shape)))


def test_the_papers_networks() -> None:
    """Tables 3 and 4, with the feature maps of the authors' code: 64 x 10 x 24 and 64 x 5 x 13 for two views."""
    for builder, shape, features in [(cn.APFedCNN(), (14, 28), 64 * 10 * 24), (cn.APFedCNN.cifar(), (3, 16, 32), 4160)]:
        (linear,) = [layer for layer in builder(shape, 9) if isinstance(layer, nn.Linear)]
        assert linear.in_features == features
    with pytest.raises(ModelError, match="too small for APFedCNN"):
        cn.APFedCNN()((4, 8), 10)
    with pytest.raises(ConfigError, match="one of each per convolution"):
        cn.APFedCNN(channels=(4, 4, 4))


@pytest.mark.parametrize("loss", ["reconstruction", "contrastive"])
def test_convolutions_fuse_too(loss: str) -> None:
    method = cn.APFed(embedding=5, loss=loss, lr=0.02)
    runs = [train(method, pictures(), model=PICTURES, runtime=runtime) for runtime in ("loop", "fused")]
    assert [site.members for site in runs[1].parties.backend.grouping.groups] == [[0], [1, 2]]
    for name, value in everything(runs[0]).items():
        torch.testing.assert_close(everything(runs[1])[name], value, rtol=1e-3, atol=1e-4)


def test_a_decoder_of_the_wrong_width() -> None:
    class Odd(cn.MLP):
        def decoder(self, shape: tuple[int, ...], embedding: int) -> nn.Module:
            return nn.Linear(embedding, 7)

    with pytest.raises(ModelError, match="network of 'party 2' gives outputs of width 7, but 3 is expected"):
        train(cn.APFed(), model=Odd())
    assert train(cn.APFed(loss="contrastive"), model=Odd()).round == 6

    class Broken(cn.MLP):
        def decoder(self, shape: tuple[int, ...], embedding: int) -> nn.Module:
            return nn.Linear(embedding + 1, 3)

    with pytest.raises(ModelError, match="fails on its rows of shape"):
        train(cn.APFed(), model=Broken())


# Seals


@pytest.mark.parametrize("runtime", ["loop", "fused", "bytes"])
def test_the_sum_can_be_blinded(runtime: str) -> None:
    plain, blind = (train(cn.APFed(), runtime=runtime, seal=seal) for seal in (None, cn.Blind(ring=64)))
    for name, value in everything(plain).items():
        torch.testing.assert_close(everything(blind)[name], value, rtol=1e-3, atol=1e-4)


def test_single_gradients_cannot_be_blinded() -> None:
    with pytest.raises(SealError, match="apfed as set here reads every party's own message"):
        train(cn.APFed(contribution_every=2), seal=cn.Blind())


def test_a_blinded_sum_is_over_all_who_agreed() -> None:
    run = train(cn.FDML(), federation(), seal=cn.Blind())
    with pytest.raises(
        SealError, match="asks party 2, party 3 for a blinded sum that party 2, party 3, party 4 agreed"
    ):
        run.parties.sum(cn.FDML.logits, cn.Turn(9, torch.arange(5)), to=[1, 2])


def test_a_sum_over_some() -> None:
    run = train(cn.FDML())
    turn = cn.Turn(9, torch.arange(5), purpose="evaluate")
    each = [reply.o for reply in run.parties.ask(cn.FDML.logits, turn)]
    for to in ([0], [1, 3], [0, 2], [1, 2, 3]):
        found = run.parties.sum(cn.FDML.logits, cn.Turn(9, torch.arange(5), purpose="evaluate"), to=to).o
        torch.testing.assert_close(found, torch.stack([each[k] for k in to]).sum(0))


# Contributions


def test_measuring_changes_nothing_and_costs_no_byte() -> None:
    plain, measured = (train(cn.APFed(contribution_every=every), runtime="loop") for every in (0, 2))
    assert [(*row.values(),)[:-1] for row in measured.ledger.to_json()] == [
        (*row.values(),)[:-1] for row in plain.ledger.to_json()
    ]
    assert [line.summed for line in plain.ledger.rows if line.receiver == "owner"] == [True] * 3
    assert [line.summed for line in measured.ledger.rows if line.receiver == "owner"] == [False] * 3
    for name, value in everything(plain).items():
        assert torch.equal(everything(measured)[name], value), name
    assert measured.owner.measured == 3
    assert measured.importance()["owner"] == 0 and all(np.isfinite(list(measured.importance().values())))
    with pytest.raises(ConfigError, match="measured no contributions; train with contribution_every=5"):
        plain.importance()


def test_rows_to_measure_on_are_needed() -> None:
    with pytest.raises(ConfigError, match="rows outside the batch and there are none"):
        train(cn.APFed(contribution_every=1), batch=ROWS)


@pytest.mark.parametrize("valid", [0.0, 0.25])
def test_a_contribution_is_what_leaving_out_does_to_a_real_step(valid: float) -> None:
    """Against real steps with and without the party, from one state: equal to first order in a small lr."""
    more: dict[str, Any] = {"rounds": 1, "valid": valid, "runtime": "loop", "batch": 20}
    options: dict[str, Any] = {"lr": 1e-3, "decay": 0.0, "momentum": 0.0, "embedding": 6}
    run = train(cn.APFed(contribution_every=1, **options), **more)
    used, held_out = run.schedule.batch_of(0), run.schedule.valid_rows
    rows = other_rows(run.owner, cn.Turn(0, used)).rows
    assert not set(rows.tolist()) & set(used.tolist())
    assert len(rows) == 20 if not valid else set(rows.tolist()) == set(held_out.tolist())

    def loss(weights: tuple[float, ...]) -> float:
        one, turn = train(cn.APFed(weights=weights, **options), **more), cn.Turn(1, rows, purpose="evaluate")
        return float(F.cross_entropy(one.method.predict(one.owner, one.parties, turn).double(), one.owner.labels(turn)))

    whole = loss((1.0, 1.0, 1.0))
    for weights, found in zip([(0, 1, 1), (1, 0, 1), (1, 1, 0)], list(run.importance().values())[1:], strict=True):
        assert loss(weights) - whole == pytest.approx(found, rel=0.2, abs=2e-8)


def test_pushing_forward_is_a_derivative() -> None:
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double(), torch.randn(4, 3).double()
    parameters = list(net.parameters())
    along = torch.randn(sum(p.numel() for p in parameters)).double()
    moved = pushed(net(x), parameters, along)
    step, before = 1e-6, net(x).detach()
    with torch.no_grad():
        for p, part in zip(parameters, along.split([p.numel() for p in parameters]), strict=True):
            p += step * part.view_as(p)
        torch.testing.assert_close(moved, (net(x) - before) / step, rtol=1e-4, atol=1e-5)
    assert left_out(moved, [moved, -moved], 0.1).tolist() == pytest.approx(
        [0.1 * float(moved.square().sum()), -0.1 * float(moved.square().sum())]
    )
