"""Under a seal on labels all that parties are told follows from the noisy labels, in every method.

Two trainings have the same noisy labels and different true ones. If a message to a party differs by a single bit, the
method has used the true labels, and the epsilon of the seal is not that of the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.core.method import Method
from colonnade.core.schedule import Turn
from colonnade.wire.party_half import PartyHalf
from quick_methods import quick

ROWS, CLASSES, ROUNDS = 60, 3, 6


class SameLabels:
    """Noisy labels that follow from nothing."""

    def protect(self, labels: Tensor, classes: int, key: bytes | None = None) -> Tensor:
        drawn = torch.rand(len(labels), classes, generator=torch.Generator().manual_seed(1))
        return drawn / drawn.sum(1, keepdim=True)


def tables(method: Method, seed: int) -> list[cn.Table]:
    """The same columns with labels that follow from ``seed``; each class has equally many rows."""
    x = np.random.default_rng(0).normal(size=(ROWS, 11)).astype(np.float32)
    y = np.random.default_rng(seed).permutation(np.arange(ROWS) % CLASSES)
    cuts = (0, 3, 6, 9, 11)
    owner = "first" if method.needs_owner_columns else "labels"
    return cn.split(x, y, [list(range(a, b)) for a, b in itertools.pairwise(cuts)], owner=owner)


@contextmanager
def recording(*, training_only: bool = True) -> Iterator[list[tuple[str, str, int, dict[str, Tensor]]]]:
    """All that parties hear, in training or ever."""
    heard: list[tuple[str, str, int, dict[str, Tensor]]] = []
    hear = PartyHalf.hear

    def noted(half: PartyHalf, wire: Any, kind: Any, form: Any, step: str, turn: Turn, check: Any = None) -> Any:
        if turn.training or not training_only:
            heard.append((half.name, step, turn.round, {name: value.clone() for name, value in wire.items()}))
        return hear(half, wire, kind, form, step, turn, check)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartyHalf, "hear", noted)
        yield heard


def told(method: Method, seed: int, seal: Any) -> list[tuple[str, str, int, dict[str, Tensor]]]:
    with recording() as heard:
        cn.train(tables(method, seed), method, seal=seal, runtime="bytes", rounds=ROUNDS, batch=16, seed=3)
    return heard


def differ(one: list[Any], other: list[Any]) -> set[str]:
    """The steps and fields that are not equal in two trainings."""
    assert [line[:3] for line in one] == [line[:3] for line in other], (
        "the course of a training follows from the labels"
    )
    pairs = [(left[1], left[3], right[3]) for left, right in zip(one, other, strict=True)]
    return {
        f"{step}/{name}"
        for step, fields, others in pairs
        for name in fields
        if not torch.equal(fields[name], others[name])
    }


@pytest.mark.parametrize("name", sorted(cn.methods()))
def test_parties_are_told_nothing_but_what_follows_from_noisy_labels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = quick(cn.methods()[name])
    monkeypatch.setattr(cn.RandomLabels, "protect", SameLabels.protect)
    one, other = (told(method, seed, cn.RandomLabels(1.0)) for seed in (1, 2))
    assert one or name == "local", "parties are told something, so there is something to compare"
    assert not differ(one, other)


@pytest.mark.parametrize("party_rounds", [0, 2, 4])
def test_true_labels_of_rounds_in_which_no_party_learns_stay_at_home(
    party_rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in what is asked to evaluate and to predict."""
    monkeypatch.setattr(cn.RandomLabels, "protect", SameLabels.protect)
    heard, tops = [], []
    for seed in (1, 2):
        method = cn.SplitNN(party_rounds=party_rounds)
        with recording(training_only=False) as messages:
            own = tables(method, seed)
            how = {"rounds": ROUNDS, "batch": 16, "seed": 3, "evaluate_every": 2, "test": own}
            run = cn.train(own, method, seal=cn.RandomLabels(1.0), runtime="bytes", **how)
            run.predict(own)
        heard.append(messages)
        tops.append(torch.cat([value.flatten() for value in run.model.states()["owner"].values()]).double())
    assert not differ(*heard)
    assert all(number < party_rounds for _, _, number, _ in heard[0])
    assert not torch.equal(*tops), "the top net learns from true labels"


@pytest.mark.parametrize("method", [cn.FDML(), cn.VAFL(), cn.APFed()], ids=lambda method: method.name)
def test_without_a_seal_they_are(method: Method) -> None:
    """The control: the same comparison finds labels that are used."""
    assert differ(told(method, 1, None), told(method, 2, None))
