"""Solo models: a federation distilled into a model of the owner's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.errors import ConfigError, SealError, TableError

TRAIN, TEST = cn.load("digits", parties=4, owner="first")


@pytest.fixture(scope="module")
def teacher() -> cn.Run:
    return cn.train(TRAIN, "vafl", epochs=4, batch=128)


def distil(teacher: cn.Run, **more: Any) -> cn.Run:
    return cn.distil(teacher, TRAIN, **{"epochs": 12, "batch": 64, "seed": 1, **more})


def weights(run: cn.Run) -> dict[str, Tensor]:
    return {f"{side}/{name}": value for side, own in run.model.states().items() for name, value in own.items()}


def test_the_owner_has_a_model_of_its_own(teacher: cn.Run) -> None:
    solo = distil(teacher, test=TEST)
    assert solo.history[-1]["train_loss"] < solo.history[0]["train_loss"]
    assert solo.evaluate(TEST[:1])["accuracy"] > 0.4
    assert solo.history[-1]["test_accuracy"] == solo.evaluate(TEST[:1])["accuracy"]
    assert solo.predict(TEST[:1]).shape == (TEST[0].rows, 10)
    assert solo.took_part == [TEST[0].name]
    assert not solo.ledger.rows, "a solo model sends nothing"


def test_it_learns_from_the_teacher_and_not_from_the_labels_alone(teacher: cn.Run) -> None:
    labels_only = distil(teacher, share=0.0)
    local = cn.train(TRAIN[:1], "local", epochs=12, batch=64, seed=1)
    torch.testing.assert_close(labels_only.predict(TEST[:1]), local.predict(TEST[:1]), rtol=1e-3, atol=1e-4)
    taught, softer = distil(teacher, share=1.0), distil(teacher, share=1.0, temperature=4.0)
    assert not torch.allclose(taught.predict(TEST[:1]), local.predict(TEST[:1]), atol=1e-2)
    assert softer.predict(TEST[:1]).max(1).values.mean() < taught.predict(TEST[:1]).max(1).values.mean()


def test_the_parties_may_help_the_taught_model_too(teacher: cn.Run) -> None:
    helped = distil(teacher, method=cn.APFed(weight=1.0), share=0.5, test=TEST)
    assert helped.ledger.bytes_for("train") > 0 == helped.ledger.bytes_for("predict")
    assert helped.predict(TEST[:1]).shape == (TEST[0].rows, 10)
    unaided = distil(teacher, method=cn.APFed(weight=0.0), share=0.5)
    torch.testing.assert_close(unaided.predict(TEST), distil(teacher).predict(TEST[:1]), rtol=1e-3, atol=1e-4)


def test_resuming_and_saving_are_exact(teacher: cn.Run, tmp_path: Path) -> None:
    whole = distil(teacher, share=0.7)

    def die(run: cn.Run) -> None:
        if run.round == 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distil(teacher, share=0.7, folder=tmp_path / "run", on_round=die)
    resumed = cn.resume(tmp_path / "run", TRAIN[:1])
    saved = cn.resume(whole.save(tmp_path / "saved"), TRAIN[:1], train=False)
    for other in (resumed, saved):
        assert weights(other).keys() == weights(whole).keys()
        assert all(torch.equal(value, weights(other)[name]) for name, value in weights(whole).items())


def test_odd_requests_are_refused_in_one_sentence(teacher: cn.Run) -> None:
    apart, _ = cn.load("digits", parties=4)
    with pytest.raises(TableError, match="cannot predict alone; split with owner='first'"):
        cn.distil(cn.train(apart, "fdml", rounds=1), apart, rounds=1)
    for odd in ({"share": 1.5}, {"share": "half"}, {"temperature": 0.0}, {"temperature": float("nan")}):
        with pytest.raises(ConfigError, match=r"is out of range|is not a number"):
            distil(teacher, **odd)
    with pytest.raises(ConfigError, match="vafl is not; use one of apfed, local"):
        distil(teacher, method="vafl")
    few = [table.take(torch.nonzero(TRAIN[0].labels < 5)[:, 0].numpy()) for table in TRAIN]
    few[0] = replace(few[0], classes=())  # named ones would all count
    with pytest.raises(TableError, match="5 classes"):
        cn.distil(teacher, few, rounds=1)
    with pytest.raises(TableError, match="soft targets of shape"):
        teacher.teach(torch.zeros(3, 10))


def test_targets_that_are_no_distributions_are_refused() -> None:
    right = torch.nn.functional.one_hot(TRAIN[0].labels, 10).double()
    assert cn.train(TRAIN, "vimsgd", rounds=1, targets=right).owner.soft.dtype == torch.float32
    nothing, negative = right.clone(), right.clone()
    nothing[3], negative[0, :2] = float("nan"), torch.tensor([-1.0, 1.0], dtype=torch.float64)
    for wrong in (nothing, negative, 2 * right):
        with pytest.raises(TableError, match="are no distributions"):
            cn.train(TRAIN, "splitnn", rounds=1, targets=wrong)
    for wrong in (right.numpy(), right.tolist()):
        with pytest.raises(TableError, match=r"soft targets as a (ndarray|list) came"):
            cn.train(TRAIN, "splitnn", rounds=1, targets=wrong)


def test_targets_do_not_carry_labels_past_their_protection(teacher: cn.Run) -> None:
    with pytest.raises(SealError, match=r"protected by random-labels.*leave one of the two out"):
        distil(teacher, method="apfed", seal=cn.RandomLabels(epsilon=0.1))


@pytest.mark.parametrize("temperature", [0.01, 100.0])
def test_extreme_temperatures_stay_finite(teacher: cn.Run, temperature: float) -> None:
    assert distil(teacher, temperature=temperature, epochs=1).history[-1]["train_loss"] < 10
