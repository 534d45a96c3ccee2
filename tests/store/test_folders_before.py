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
        assert run.evaluate(test) == pytest.approx(EXPECTED[name]["metrics"], rel=1e-6)


def test_an_older_folder_goes_on(case: tuple[str, Path]) -> None:
    """As it did there, up to the rounding of the processor, from which all the noise of a message follows."""
    name, folder = case
    history, total = gone_on(folder, 6)
    expected, near = EXPECTED[name]["history"], 0.5 if "noise" in name else 1e-4
    assert history[:3] == expected[:3]
    assert len(history) == len(expected) and total == EXPECTED[name]["bytes"]
    for row, there in zip(history, expected, strict=True):
        assert row.keys() == there.keys()
        scores = {key: value for key, value in there.items() if "accuracy" not in key}
        assert {key: row[key] for key in scores} == pytest.approx(scores, rel=near)


def test_an_older_folder_that_is_opened_twice_goes_on_bit_for_bit(case: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = case
    shutil.copytree(folder, tmp_path / "twice")
    gone_on(tmp_path / "twice", 4)
    assert gone_on(tmp_path / "twice", 6) == gone_on(folder, 6)


def gone_on(folder: Path, rounds: int) -> tuple[list[dict[str, float]], int]:
    """History and bytes of a run that goes on to this round."""
    _, test = cn.load("digits", parties=2, rows=40)
    run = cn.resume(folder, rounds=rounds, test=test)
    return [{key: value for key, value in row.items() if key != "seconds"} for row in run.history], run.ledger.total
