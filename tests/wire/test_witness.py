"""What a witness at the halves keeps: what travelled, about a sample of rows, and as much as the ledger says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import colonnade as cn


def tables(rows: int = 60, owner: str = "labels") -> list[cn.Table]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 11)).astype(np.float32)
    y = (x @ rng.normal(size=(11, 3))).argmax(1)
    return cn.split(x, y, [list(range(a, b)) for a, b in itertools.pairwise((0, 3, 6, 9, 11))], owner=owner)


def train(method: Any = "vafl", **more: Any) -> cn.Run:
    return cn.train(tables(), method, **{"rounds": 8, "batch": 16, "runtime": "loop", **more})


def lines(run: cn.Run) -> dict[tuple[str, str, str, str], tuple[int, int]]:
    return {(row.purpose, row.step, row.sender, row.receiver): (row.messages, row.payload) for row in run.ledger.rows}


SEALS = {
    "none": None,
    "bits": cn.Bits(4),
    "feedback": cn.Bits(4, feedback=True),
    "topk": cn.TopK(0.5),
    "noise": cn.Noise(epsilon=1e6, delta=1e-5, clip=1.0),
}


@pytest.mark.parametrize("seal", SEALS.values(), ids=SEALS)
def test_recording_changes_nothing(seal: Any) -> None:
    plain, recorded = (train("vimadmm", seal=seal, test=tables(20), record=record) for record in (False, True))
    assert plain.ledger.rows == recorded.ledger.rows
    for side, state in plain.model.states().items():
        assert all(torch.equal(value, recorded.model.states()[side][name]) for name, value in state.items()), side
