"""Run folders that the version before the two halves wrote: they open, predict and go on as they did there.

The folders and ``expected.json`` were written by commit d7240ff: three rounds on forty digits, then six with
``cn.resume``. A change of the checkpoint's format must still read them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import colonnade as cn

FOLDERS = Path(__file__).parent / "folders_before"
EXPECTED = json.loads((FOLDERS / "expected.json").read_text())


@pytest.fixture(params=EXPECTED)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    shutil.copytree(FOLDERS / request.param, tmp_path / "run")
    return request.param, tmp_path / "run"


def test_an_older_folder_opens_and_predicts(case: tuple[str, Path]) -> None:
    name, folder = case
    _, test = cn.load("digits", parties=2, rows=40)
    run = cn.resume(folder, train=False)
    assert run.round == 3
    assert all(line.summed is None for line in run.ledger.rows), "an older ledger did not say who was summed"
    if "noise" not in name:  # every prediction draws other noise
        assert run.evaluate(test) == EXPECTED[name]["metrics"]


def test_an_older_folder_goes_on_bit_for_bit(case: tuple[str, Path]) -> None:
    name, folder = case
    _, test = cn.load("digits", parties=2, rows=40)
    run = cn.resume(folder, rounds=6, test=test)
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in run.history]
    assert rows == EXPECTED[name]["history"]
    assert run.ledger.total == EXPECTED[name]["bytes"]
