"""gal: the mix and the step, noisy labels, absent parties and rows, and what a party refuses to show."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.core.task import Classes, Values
from colonnade.errors import ConfigError, ManifestError
from colonnade.federation.network_rules import check_network, sketch
from colonnade.federation.side_sections import AllowSection
from colonnade.methods import gal
from colonnade.methods.assistance import on_simplex, step_along, weights_of

LINEAR = cn.GAL(learner="linear")
WIDTHS = (2, 3, 3)


@pytest.fixture(scope="module")
def tables() -> list[cn.Table]:
    x = np.random.default_rng(0).normal(size=(300, sum(WIDTHS))).astype(np.float32)
    y = (x @ np.linspace(-1, 2, sum(WIDTHS)) > 0).astype(np.int64)
    cuts = itertools.pairwise(np.cumsum((0, *WIDTHS)).tolist())
    return cn.split(x, y, [list(range(a, b)) for a, b in cuts], owner="first")


@pytest.fixture(scope="module")
def run(tables: list[cn.Table]) -> cn.Run:
    return cn.train(tables, LINEAR)


def test_ten_rounds_come_to_the_line_through_all_columns(run: cn.Run, tables: list[cn.Table]) -> None:
    assert run.round == 10 and run.settings.batch == 300
    losses = [row["train_loss"] for row in run.history]
    assert losses == sorted(losses, reverse=True), "a step that the line search finds never harms"
    assert run.evaluate(tables)["accuracy"] > 0.95


def test_a_prediction_is_the_sum_that_training_came_to(run: cn.Run, tables: list[cn.Table]) -> None:
    expected = torch.softmax(run.owner.total, 1)
    torch.testing.assert_close(run.predict(tables), expected, atol=1e-4, rtol=1e-3)


def test_who_is_absent_adds_nothing(run: cn.Run, tables: list[cn.Table]) -> None:
    names = run.parties.names
    here, without = run.predict(tables), run.predict(tables, absent=[names[2]], missing="zero")
    assert not torch.allclose(here, without)
    part = run.parties.ask(LINEAR.add_up, cn.Turn(0, torch.arange(300)), to=[2])[0].o
    torch.testing.assert_close(without, torch.softmax(run.owner.total - part, 1), atol=1e-4, rtol=1e-3)


def test_rows_that_a_party_lacks_get_nothing_from_it(tables: list[cn.Table]) -> None:
    known = torch.arange(300) % 3 > 0
    some = cn.train([*tables[:2], replace(tables[2], known=known)], LINEAR, rounds=3)
    part = some.parties.ask(LINEAR.add_up, cn.Turn(0, torch.arange(300)), to=[2])[0].o
    assert bool((part[~known] == 0).all()) and bool((part[known] != 0).any())
    assert some.evaluate(tables[:2] + [replace(tables[2], known=known)])["accuracy"] > 0.8


def test_residuals_are_those_of_noisy_labels(tables: list[cn.Table], monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(gal, "weights_of", lambda fits, residual: sent.append(residual) or weights_of(fits, residual))  # type: ignore[func-returns-value]
    run = cn.train(tables, LINEAR, seal=cn.RandomLabels(1.0), rounds=1, runtime="loop")
    rows = run.schedule.batch_of(0)
    agree = float((sent[0].argmax(1) == tables[0].labels[rows]).float().mean())
    assert agree == pytest.approx(1 / (1 + np.exp(-1.0)), abs=0.08), "randomised response at epsilon 1"
    torch.testing.assert_close(sent[0], run.owner.soft[rows] - 0.5)


def test_a_party_refuses_linear_fits_and_takes_trees(tables: list[cn.Table]) -> None:
    own, allow = tables[1], AllowSection()
    made = sketch(LINEAR, cn.MLP(), cn.SGD(0.1), own, 1, 2)
    with pytest.raises(ManifestError, match="linear in its 3 columns"):
        check_network(made, {"schema": {}}, own, allow)
    check_network(sketch(cn.GAL(), cn.MLP(), cn.SGD(0.1), own, 1, 2), {"schema": {}}, own, allow)


def test_weights_and_steps_at_their_edges() -> None:
    assert on_simplex(np.array([0.2, 0.3, 0.5])).tolist() == pytest.approx([0.2, 0.3, 0.5])
    same = torch.ones(2, 4, 1)
    assert float(weights_of(same, torch.ones(4, 1)).sum()) == pytest.approx(1)
    assert float(weights_of(torch.zeros(3, 4, 1), torch.ones(4, 1)).sum()) == pytest.approx(1)
    o, y = torch.zeros(4, 1), torch.ones(4, 1)
    assert float(step_along(o, torch.full((4, 1), 0.25), y, Values(1))) == pytest.approx(4)
    assert float(step_along(o, -torch.ones(4, 1), y, Values(1))) == pytest.approx(0, abs=1e-6), "uphill: no step"
    sure = step_along(torch.zeros(2, 2), torch.eye(2), torch.arange(2), Classes(2))
    assert 0 < float(sure) <= 64, "labels that can be told apart would want an endless step"


def test_a_learner_that_does_not_exist_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="unknown learner 'orchard'"):
        cn.GAL(learner="orchard")
