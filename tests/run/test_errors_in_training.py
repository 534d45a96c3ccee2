"""Mistakes before and during training: one sentence that says what came, from whom, and what to do."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import colonnade as cn
from colonnade.core.method import party_step
from colonnade.errors import ColonnadeError, ConfigError, ModelError, TableError, TrainingError
from colonnade.methods import make_method
from colonnade.methods.steps import slope
from colonnade.store import checkpoint

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)).numpy()
Y = (X[:, 0] > 0).astype(int)
TABLES = cn.split(X, Y, {"bank": [0, 1], "shop": [2, 3], "ward": [4, 5]})
VAFL = cn.VAFL(embedding=4)


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


def train(tables: Any = None, method: Any = VAFL, **options: Any) -> cn.Run:
    return cn.train(tables or TABLES, method, **{"rounds": 2, "batch": 10, **options})


class Net(nn.Module):
    """A linear net with something special about it."""

    def __init__(self, width: int, special: str = "") -> None:
        super().__init__()
        self.linear = nn.Linear(2, width)
        self.special = special
        if special == "scalar":
            self.factor = nn.Parameter(torch.tensor(2.0))
        if special == "frozen":
            self.first = nn.Linear(2, 2).requires_grad_(False)
        if special == "unused":
            self.other = nn.Linear(2, 2)
        if special == "tied":
            self.again = self.linear
        if special == "buffer":
            self.register_buffer("ones", torch.ones(width), persistent=False)

    def forward(self, rows: Tensor) -> Any:
        output = self.linear(self.first(rows) if self.special == "frozen" else rows)
        match self.special:
            case "scalar":
                return output * self.factor
            case "buffer":
                return output * self.ones
            case "dropout":
                return F.dropout(output, 0.5, self.training)
            case "tuple":
                return output, output
            case "nothing":
                return None
        return output


def special(kind: str) -> Any:
    return lambda shape, width: Net(width, kind)


# Networks that do not fit


def test_a_wrong_width_names_the_party_and_both_widths() -> None:
    good, bad = cn.MLP(()), lambda shape, width: nn.Linear(2, 7)
    with pytest.raises(ModelError, match="network of 'shop' gives outputs of width 7, but 4 is expected"):
        train(model=[good, bad, good])


def test_outputs_that_are_no_rows_of_numbers() -> None:
    with pytest.raises(ModelError, match=r"network of 'bank' gives outputs of width \(2, 2\), but 4 is expected"):
        train(model=lambda shape, width: nn.Sequential(nn.Linear(2, 4), nn.Unflatten(1, (2, 2))))


def test_a_network_that_fails_on_its_rows() -> None:
    good, bad = cn.MLP(()), lambda shape, width: nn.Linear(3, width)
    with pytest.raises(ModelError, match=r"network of 'ward' fails on its rows of shape \(2,\): .*shapes cannot"):
        train(model=[good, good, bad])


def test_something_that_is_no_network() -> None:
    with pytest.raises(ModelError, match=r"model= gave a function for 'bank'; it must build a torch\.nn\.Module"):
        train(model=lambda shape, width: lambda rows: rows)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(nn.Linear(2, 4), id="a network instead of a builder"),
        pytest.param(nn.Linear, id="a class instead of a builder"),
        pytest.param(lambda shape: nn.Linear(2, 4), id="a builder of one argument"),
        pytest.param(lambda shape, width: nn.Linear(shape, width), id="a builder that fails"),
        pytest.param(special("tuple"), id="a network that gives two tensors"),
        pytest.param(special("nothing"), id="a network that gives nothing"),
        pytest.param(lambda shape, width: nn.ZeroPad1d((0, 2)), id="a network with nothing to train"),
    ],
)
def test_models_that_make_no_sense_name_the_party(model: Any) -> None:
    with pytest.raises(ModelError, match="'bank'"):
        train(model=model)


@pytest.mark.parametrize("optimizer", [lambda parameters: 5, lambda parameters: torch.optim.SGD(parameters, lr=-1)])
def test_optimisers_that_make_no_sense(optimizer: Any) -> None:
    with pytest.raises(ColonnadeError):
        train(optimizer=optimizer)


# Networks that are unusual and must work, on every runtime alike


OPTIMIZERS = {"sgd": None, "adam": cn.Adam(), "adagrad": cn.Adagrad()}
KINDS = ["scalar", "tied", "buffer", "dropout", "frozen", "unused"]


@pytest.mark.parametrize("runtime", ["loop", "fused"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_unusual_networks_train_and_resume(tmp_path: Path, runtime: str, kind: str, optimizer: Any) -> None:
    options = {"runtime": runtime, "model": special(kind), "optimizer": optimizer, "evaluate_every": 2}
    train(folder=tmp_path, **options)
    resumed, undisturbed = cn.resume(tmp_path, TABLES, model=special(kind), epochs=1), train(rounds=4, **options)
    assert resumed.round == 4
    for mine, yours in zip(resumed.parties.states(), undisturbed.parties.states(), strict=True):
        assert mine.keys() == yours.keys()
        assert all(torch.equal(value, yours[name]) for name, value in mine.items())


@pytest.mark.parametrize(
    "runtime",
    ["loop", "fused"],
)
def test_what_is_frozen_stays_as_it_was(runtime: str) -> None:
    before: list[Tensor] = []

    def build(shape: tuple[int, ...], width: int) -> nn.Module:
        net = Net(width, "frozen")
        before.append(net.first.weight.clone())
        return net

    for old, state in zip(before, train(model=build, runtime=runtime).parties.states(), strict=True):
        assert torch.equal(old, state["net/weights/first.weight"])


@pytest.mark.parametrize("runtime", ["loop", "fused"])
def test_batch_norm_and_a_last_batch_of_one(runtime: str) -> None:
    def normed(shape: tuple[int, ...], width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width))

    try:
        train(model=normed, batch=39, runtime=runtime)
    except ColonnadeError as error:
        assert "bank" in str(error) or "batch" in str(error)  # noqa: PT017 - either is good, a traceback is not


# Values that stop being numbers


@pytest.mark.parametrize(
    "method", [cls for cls in cn.methods().values() if not (cls.needs_owner_columns or cls().whole_rounds)]
)
@pytest.mark.parametrize("runtime", ["loop", "fused"])
def test_values_that_are_not_finite_stop_training(tmp_path: Path, method: Any, runtime: str) -> None:
    wild = method(lr=1e30)
    where = (
        r"^(bank|shop|ward|owner) sent values that are not finite in '\w+' of step '\w+' in round \d+|z-step|owner's"
    )
    with pytest.raises(TrainingError, match=where):
        train(method=wild, runtime=runtime, rounds=50, evaluate_every=50, folder=tmp_path)
    states, facts = checkpoint.read(checkpoint.newest(tmp_path / "checkpoints"))
    assert facts["round"] == 0
    assert all(bool(torch.isfinite(value).all()) for state in states.values() for value in state.values())
    with pytest.raises(TrainingError, match=where):
        cn.resume(tmp_path, TABLES)  # it loads, and comes to the same end


@pytest.mark.parametrize("method", [cn.VIMADMM, cn.VIMADMMJ, cn.VIMSGD, cn.FedBCD])
def test_no_checkpoint_holds_values_that_are_not_finite(tmp_path: Path, method: Any) -> None:
    with pytest.raises(TrainingError):
        train(method=method(lr=1e30), rounds=50, evaluate_every=1, folder=tmp_path)
    for place in (tmp_path / "checkpoints").iterdir():
        states, _ = checkpoint.read(place)
        for side, state in states.items():
            for name, value in state.items():
                assert bool(torch.isfinite(value).all()), f"{place.name}: {side} {name}"


def test_a_network_that_gives_nan_later_is_named(tmp_path: Path) -> None:
    class Breaks(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear, self.calls = nn.Linear(2, width), 0

        def forward(self, rows: Tensor) -> Tensor:
            self.calls += self.training
            return self.linear(rows) * (math.nan if self.calls > 4 else 1.0)

    good = cn.MLP(())
    with pytest.raises(TrainingError, match=r"^shop sent .* in 'h' of step 'embed' in round 4;"):
        train(model=[good, lambda shape, width: Breaks(width), good], rounds=9, evaluate_every=2, folder=tmp_path)
    assert checkpoint.newest(tmp_path / "checkpoints").name == "00000004"
    assert cn.resume(tmp_path, TABLES, model=[good, special(""), good]).round == 9  # the last good checkpoint serves


def test_a_state_that_is_not_finite_names_the_party(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"^after round 0, bank holds values that are not finite"):
        train(method=cn.VIMADMM(lr=1e30), evaluate_every=1, folder=tmp_path)


# Methods that ask some parties only


@dataclass(frozen=True, kw_only=True)
class Partial(cn.FDML):
    """All send logits; one party after the other follows the gradient."""

    def round(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        total = sum(reply.o for reply in parties.ask(self.logits, turn)).requires_grad_()  # type: ignore[union-attr]
        loss = F.cross_entropy(total, owner.labels(turn))
        parties.tell(self.follow, turn, all=slope(loss, total), to=[turn.round % 3])
        return loss.detach()


def test_asking_all_and_telling_some_is_the_same_on_every_runtime() -> None:
    one = train(method=Partial(embedding=4), runtime="loop", rounds=5)
    try:
        two = train(method=Partial(embedding=4), runtime="fused", rounds=5)
    except TrainingError as error:
        assert "use runtime='loop'" in str(error)  # noqa: PT017 - the next best thing to doing it
        return
    for mine, yours in zip(one.parties.states(), two.parties.states(), strict=True):
        assert all(torch.allclose(value, yours[name], atol=1e-5) for name, value in mine.items())


@dataclass(frozen=True, kw_only=True)
class Remembers(cn.FDML):
    """Keeps a transposed tensor from round to round."""

    @party_step
    def keep(self, mine: cn.Mine, turn: cn.Turn) -> None:
        mine.memory["z"] = mine.inputs(turn).mT

    def round(self, owner: cn.Owner, parties: cn.Parties, turn: cn.Turn) -> Tensor:
        parties.tell(self.keep, turn)
        return torch.zeros(())


@pytest.mark.parametrize("runtime", ["loop", "fused"])
def test_a_party_may_remember_any_tensor(tmp_path: Path, runtime: str) -> None:
    run = train(method=Remembers(embedding=4), runtime=runtime, folder=tmp_path)
    states, _ = checkpoint.read(checkpoint.newest(tmp_path / "checkpoints"))
    rows = run.schedule.batch_of(1)
    assert torch.equal(states["party-001"]["memory/z"], torch.from_numpy(X)[rows][:, 2:4].T)


# Options that make no sense


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 41}, "batch=41 does not fit a table with 40 training rows; give a number from 1 to 40"),
        ({"batch": 37, "valid": 0.1}, "batch=37 does not fit a table with 36 training rows"),
        ({"batch": 0}, "batch=0"),
        ({"method": "vimadm"}, "unknown method 'vimadm'; did you mean 'vimadmm'"),
        ({"method": None}, "a NoneType came as the method; give a name"),
        ({"method": cn.MLP}, "a type came as the method; give a name"),
        ({"runtime": "fuse"}, "unknown runtime 'fuse'; did you mean 'fused'"),
        ({"epochs": 1, "rounds": 2}, "epochs=1 and rounds=2 were both given"),
        ({"rounds": 0}, "from 1 to"),
        ({"rounds": -3}, "from 1 to"),
        ({"rounds": None, "epochs": 0}, "from 1 to"),
        ({"rounds": None, "epochs": 0.3}, "epochs=0.3 is not a whole number"),
        ({"rounds": 2.0}, "rounds=2.0 is not a whole number"),
        ({"stop_drop": 2.0}, "stop_drop needs validation rows"),
        ({"stop_drop": 2.0, "valid": 0.001}, "stop_drop needs validation rows"),
        ({"valid": 1.0}, "valid=1.0"),
        ({"shuffle": "never"}, "shuffle='never'"),
        ({"threads": 0}, "threads=0"),
        ({"model": [cn.MLP()] * 2}, "model= has 2 builders for 3 parties"),
        ({"model": 5}, "model= holds 5, which is not a function"),
        ({"model": "mpl"}, "unknown model 'mpl'"),
        ({"optimizer": [cn.SGD()] * 4}, "optimizer= has 4 builders for 3 parties"),
        ({"optimizer": "sdg"}, "unknown optimizer 'sdg'"),
        ({"model": []}, "model= has 0 builders"),
        ({"batch": 10.0}, "batch=10.0"),
        ({"evaluate_every": -1}, "evaluate_every=-1"),
        ({"evaluate_every": 0}, "evaluate_every=0"),
        ({"evaluate_every": 1.5}, "evaluate_every=1.5"),
        ({"stop_drop": -1.0, "valid": 0.2}, "stop_drop=-1.0"),
        ({"threads": True}, "threads=True"),
    ],
    ids=str,
)
def test_bad_options(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        train(**options)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rh": 1.0}, "unknown option of vimadmm 'rh'; did you mean 'rho'"),
        ({"rho": 0.0}, "vimadmm: rho=0.0 is out of range; it must be positive"),
        ({"rho": math.nan}, "vimadmm: rho=nan is not finite"),
        ({"lr": "fast"}, "vimadmm: lr='fast' is not a number"),
        ({"local_steps": 2.5}, "vimadmm: local_steps=2.5 is not a whole number"),
        ({"local_steps": True}, "vimadmm: local_steps=True is not a whole number"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"decay": -1.0}, "decay=-1.0"),
        ({"messages": "papr"}, "unknown messages of vimadmm 'papr'; did you mean 'paper'"),
        ({"decay": math.nan}, "decay=nan"),
        ({"lr": math.inf}, "lr=inf"),
    ],
    ids=str,
)
def test_bad_options_of_a_method(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make_method("vimadmm", **options)


def test_a_text_is_no_yes_or_no() -> None:
    with pytest.raises(ConfigError):
        cn.VAFL(learn_weights="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"stop_drop": "2", "valid": 0.2}, {"runtime": ["loop"]}, {"seed": "zero"}, {"seed": 1.5}], ids=str
)
def test_options_of_another_kind(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        train(**options, folder=tmp_path)


def test_numbers_from_numpy_are_numbers(tmp_path: Path) -> None:
    one = train(rounds=np.int64(2), batch=np.int64(10), seed=np.int32(3), valid=np.float64(0.25), folder=tmp_path)
    assert one.history[-1]["train_loss"] == train(seed=3, valid=0.25).history[-1]["train_loss"]
    assert cn.resume(tmp_path, TABLES).settings == one.settings


def test_a_method_that_needs_the_owners_columns() -> None:
    with pytest.raises(TableError, match="local trains on the owner's own columns and it has none; split with"):
        train(method="local")


def test_a_method_without_heads_has_no_importance() -> None:
    with pytest.raises(ConfigError, match="vafl has no head per party"):
        train().importance()


def test_nothing_is_left_behind_by_a_refused_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        train(folder=tmp_path / "run", batch=41)
    assert not (tmp_path / "run").exists()


def test_torchs_threads_are_as_before_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(TrainingError):
        train(method=cn.FDML(lr=1e30), rounds=50, threads=before + 1)
    assert torch.get_num_threads() == before


# Tables that do not fit the model


def test_training_on_one_class() -> None:
    with pytest.raises(TableError, match="one class only"):
        train(cn.split(X, np.zeros(40), 3))


def test_other_shapes_than_trained_on() -> None:
    run = train()
    other = cn.split(X, Y, {"bank": [0], "shop": [2, 3], "ward": [4, 5]})
    for ask in (run.predict, run.evaluate):
        with pytest.raises(
            TableError, match=r"shapes \[\(1,\), \(2,\), \(2,\)\], but .* on \[\(2,\), \(2,\), \(2,\)\]"
        ):
            ask(other)
    with pytest.raises(TableError, match="but the model was trained on"):
        run.predict(TABLES[:3])
    with pytest.raises(TableError, match="but the model was trained on"):
        train(test=other)


def test_evaluating_without_labels() -> None:
    with pytest.raises(TableError, match="has no labels"):
        train().evaluate(TABLES[1:])


def test_predicting_needs_no_labels() -> None:
    run = train()
    probabilities = run.predict(TABLES)
    assert probabilities.shape == (40, 2)
    assert torch.allclose(probabilities.sum(1), torch.ones(40))
    assert torch.equal(run.predict([cn.Table(np.arange(40), name="owner"), *TABLES[1:]]), probabilities)


def test_parties_in_another_order() -> None:
    with pytest.raises(TableError):
        train().predict([TABLES[0], TABLES[2], TABLES[1], TABLES[3]])


def test_labels_with_a_class_that_was_never_trained() -> None:
    with pytest.raises(TableError, match="class 2, but the model was trained on 2 classes"):
        train().evaluate(cn.split(X, Y + 1, {"bank": [0, 1], "shop": [2, 3], "ward": [4, 5]}))


def test_test_labels_are_checked_before_training() -> None:
    test = cn.split(X, Y + 1, {"bank": [0, 1], "shop": [2, 3], "ward": [4, 5]})
    with pytest.raises(TableError, match="class 2"):
        train(test=test, on_round=lambda run: pytest.fail("trained"), rounds=2, evaluate_every=2)


def test_an_error_while_evaluating_leaves_the_owner_in_training_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    run = train()
    monkeypatch.setattr(cn.VAFL, "predict", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.evaluate(TABLES)
    assert run.owner.top.training
