"""What noise on gradients keeps from a curious party, and what it does not: the page on seals says both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

import colonnade as cn
from colonnade.wire.party_half import PartyHalf

ROWS, ROUND = 3000, 12


def people(classes: int = 2) -> list[cn.Table]:
    """A bank with labels only and two parties; nobody's columns tell much by themselves."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 12)).astype(np.float32)
    scores = x @ rng.normal(size=(12, classes)) + rng.normal(size=(ROWS, classes)) * 4
    return cn.split(x, scores.argmax(1), [range(6), range(6, 12)])


class Gradients:
    """The first party's gradients of the first epoch: it knows no label."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rows: list[Tensor] = []
        self.values: list[Tensor] = []
        hear = PartyHalf.hear

        def spy(half: PartyHalf, wire: Any, kind: Any, form: Any, step: str, turn: cn.Turn, *more: Any) -> Any:
            heard = hear(half, wire, kind, form, step, turn, *more)
            if half.name == "party 1" and turn.training:
                self.rows.append(turn.rows)
                self.values.append(heard.slope / heard.slope.norm())
            return heard

        patch.setattr(PartyHalf, "hear", spy)

    def area(self, labels: Tensor) -> float:
        """The best of norm and projection on the first direction, whichever way they point."""
        rows, values = torch.cat(self.rows), torch.cat(self.values)
        axis = torch.linalg.svd(values, full_matrices=False)[2][0]
        areas = [float(roc_auc_score(labels[rows], score)) for score in (values @ axis, values.norm(dim=1))]
        return max(max(area, 1 - area) for area in areas)


@pytest.fixture
def curious(monkeypatch: pytest.MonkeyPatch) -> Gradients:
    return Gradients(monkeypatch)


def once(curious: Gradients, method: cn.Method | None = None, **how: Any) -> float:
    """What the party reads if every row's gradient is sent once."""
    tables = people()
    cn.train(tables, method or cn.SplitNN(), batch=250, seed=1, runtime="loop", **{"epochs": 1, **how})
    labels = torch.as_tensor(tables[0].labels)
    return curious.area(labels) if curious.values else 0.5


def test_without_noise_it_reads_every_label(curious: Gradients) -> None:
    assert once(curious) > 0.99
    mixed = torch.as_tensor(people()[0].labels)[torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))]
    assert curious.area(mixed) < 0.56, "the control"


@pytest.mark.parametrize("seal", [cn.Marvell(4.0), cn.ClassNoise(4.0)], ids=lambda seal: seal.kind)
def test_gaussian_noise_hides_most_of_what_is_sent_once(seal: cn.Seal, curious: Gradients) -> None:
    assert once(curious, seal=seal) < 0.7


@pytest.mark.parametrize("seal", [cn.MaxNorm(), cn.Bits(4), cn.TopK(0.1)], ids=lambda seal: seal.kind)
def test_these_hide_nothing(seal: cn.Seal, curious: Gradients) -> None:
    assert once(curious, seal=seal) > 0.85


def test_noise_is_averaged_out_over_epochs(curious: Gradients) -> None:
    labels, rounds = torch.as_tensor(people()[0].labels), ROWS // 250
    once(curious, seal=cn.Marvell(4.0), epochs=10, shuffle="once")
    rows, values = curious.rows[:rounds], curious.values
    curious.rows, curious.values = rows, values[:rounds]
    at_first = curious.area(labels)
    curious.values = [torch.stack(values[k::rounds]).mean(0) for k in range(rounds)]
    assert at_first < 0.7 < 0.8 < curious.area(labels)


def test_parties_that_never_learn_are_sent_nothing(curious: Gradients) -> None:
    assert once(curious, cn.SplitNN(party_rounds=0)) == 0.5
    assert not curious.values


def test_once_the_parties_no_longer_learn_nothing_is_sent(curious: Gradients) -> None:
    once(curious, cn.SplitNN(party_rounds=ROUND), epochs=3)
    assert len(curious.values) == ROUND
