"""What a curious party makes of what the owner sends: for every method, the word that it declares about labels is true.

The job is that of docs/two_companies.md: a clinic with ten columns and the diagnoses, a laboratory with twenty columns.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.core.task import Classes
from colonnade.methods.label_codes import labels_received
from colonnade.wire.party_half import PartyHalf

BATCH, ROUNDS, SEED = 64, 24, 1


class Curious:
    """The laboratory: it keeps what comes in training, round by round, and knows no label."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: dict[str, dict[int, tuple[Tensor, Tensor]]] = {}  # by field and round: rows, values
        hear = PartyHalf.hear

        def spy(half: PartyHalf, wire: Any, kind: Any, form: Any, step: str, turn: cn.Turn, *more: Any) -> Any:
            heard = hear(half, wire, kind, form, step, turn, *more)
            for name, value in zip(heard._fields, heard, strict=True):
                if name == "y":  # packed
                    value = labels_received(heard, len(turn.rows), Classes(2)).float()[:, None]
                if half.name == "lab" and turn.purpose == "train" and value.ndim == 2 and len(value) == len(turn.rows):
                    self.kept.setdefault(name, {})[turn.round] = turn.rows, value.detach().clone()
            return heard

        monkeypatch.setattr(PartyHalf, "hear", spy)

    def area(self, labels: Tensor, rounds: range, draw: torch.Generator | None = None) -> float:
        """The AUC of the first principal component of what came, of the field that gives most; shuffled for control."""
        return max((_mean_area(of, labels, rounds, draw) for of in self.kept.values()), default=0.5)


def _mean_area(
    of: dict[int, tuple[Tensor, Tensor]], labels: Tensor, rounds: range, draw: torch.Generator | None
) -> float:
    areas = []
    for number in rounds:
        if number in of:
            rows, came = of[number]
            told = came - came.mean(0)
            score = told @ torch.linalg.svd(told, full_matrices=False).Vh[0]
            y = labels[rows]
            y = y if draw is None else y[torch.randperm(len(y), generator=draw)]
            areas.append(_area(score, y))
    return sum(areas) / max(1, len(areas))


def _area(score: Tensor, y: Tensor) -> float:
    """Which of the two sides is which class the attacker need not know: one diagnosis tells."""
    gaps = score[y == 1].unsqueeze(1) - score[y == 0]
    above = (gaps > 0).float().mean() + (gaps == 0).float().mean() / 2
    return float(max(above, 1 - above))


@pytest.fixture
def curious(monkeypatch: pytest.MonkeyPatch) -> Curious:
    return Curious(monkeypatch)


def companies() -> list[cn.Table]:
    biopsies = pytest.importorskip("sklearn.datasets").load_breast_cancer()
    x = (biopsies.data - biopsies.data.mean(0)) / biopsies.data.std(0)
    clinic, lab = cn.split(x, biopsies.target, [list(range(10)), list(range(10, 30))], owner="first")
    return [cn.Table(clinic.ids, clinic.columns, clinic.labels, "clinic"), cn.Table(lab.ids, lab.columns, name="lab")]


def train(method: cn.Method, **how: Any) -> Tensor:
    tables = companies()
    cn.train(tables, method, rounds=ROUNDS, batch=BATCH, seed=SEED, runtime="loop", **how)
    return torch.as_tensor(tables[0].labels)


def test_the_laboratory_of_the_page_reads_the_diagnoses(curious: Curious) -> None:
    labels = train(cn.SplitNN())
    assert curious.area(labels, range(ROUNDS)) > 0.99
    assert curious.area(labels, range(ROUNDS), torch.Generator().manual_seed(0)) < 0.65, "the control"


@pytest.mark.parametrize("method", cn.methods().values(), ids=cn.methods())
def test_the_word_of_every_method_is_true(method: type[cn.Method], curious: Curious) -> None:
    labels = train(method())
    # Duals are plain in the first rounds; an embedding must be trained before it tells labels.
    parts = range(8), range(ROUNDS - 8, ROUNDS)
    found = max(curious.area(labels, rounds) for rounds in parts)
    assert max(curious.area(labels, one, torch.Generator().manual_seed(0)) for one in parts) < 0.65, "the control"
    if method().tells_labels == "unsent":
        assert not curious.kept, "nothing came"
    else:
        assert found > 0.9


def test_the_seal_of_the_page_leaves_noisy_diagnoses(curious: Curious) -> None:
    """At epsilon 2 a label is true with probability 0.88, so that is what the laboratory can come to, and no more."""
    labels = train(cn.SplitNN(), seal=cn.RandomLabels(epsilon=2.0))
    assert 0.75 < curious.area(labels, range(ROUNDS)) < 0.92


def test_a_seal_on_the_labels_keeps_them(curious: Curious) -> None:
    labels = train(cn.SplitNN(), seal=cn.RandomLabels(epsilon=0.5))
    assert curious.area(labels, range(ROUNDS)) < 0.8
