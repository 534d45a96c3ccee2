"""The examples with real data: files are made, read as the job says, aligned, prepared, trained on, predicted for."""

from __future__ import annotations

import os
import runpy
import sys
import tomllib
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("credit", "bank", "adult")
ROWS, NEW = 600, 100
OWNERS = {"credit": "bank", "bank": "bank", "adult": "census"}


def make(*arguments: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["make_files.py", *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / "make_files.py"), run_name="__main__")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of all examples."""
    if not (Path(os.environ.get("COLONNADE_DATA", "")) / "credit_default.csv.gz").exists():
        pytest.skip("COLONNADE_DATA names no folder with credit_default.csv.gz")
    folder = tmp_path_factory.mktemp("examples")
    for name in NAMES:
        make(name, folder / name / "files", "--rows", ROWS)
    return folder


def job_of(name: str) -> dict[str, Any]:
    return tomllib.loads((EXAMPLES / name / "job.toml").read_text())


def sheets_of(name: str, folder: Path, new: bool = False) -> list[cn.Sheet]:
    job = job_of(name)
    return [_read(folder / name, new, job["align"]["normalise"], **party) for party in job["party"]]


def _read(folder: Path, new: bool, rule: list[str], files: str | list[str], **how: Any) -> cn.Sheet:
    each = [files] if isinstance(files, str) else files
    if new:
        each = [one.replace("files/", "files/new-").replace("-*", "") for one in each]
        how["label"] = None
    return cn.read([folder / one for one in each], normalise=rule, **how)


def aligned(sheets: Sequence[cn.Sheet]) -> dict[str, np.ndarray]:
    common = reduce(np.intersect1d, [sheet.ids for sheet in sheets])
    where = [{text: row for row, text in enumerate(sheet.ids)} for sheet in sheets]
    return {sheet.name: np.array([rows[text] for text in common]) for sheet, rows in zip(sheets, where, strict=True)}


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str, files: Path) -> None:
    job, sheets = job_of(name), sheets_of(name, files)
    rows = aligned(sheets)
    share = len(rows[OWNERS[name]]) / (ROWS - NEW)
    assert 0.9 ** len(sheets) - 0.06 < share < 0.9 ** len(sheets) + 0.06, "each knows nine in ten"
    train, test = cn.prepare(sheets, rows, **job["prepare"])
    assert train[0].name == OWNERS[name] and all(table.columns is not None for table in train)
    method = cn.methods()[job["train"]["method"]](**job.get("method", {}))
    run = cn.train(train, method, epochs=1, batch=64)
    assert 0 < run.evaluate(test)["auc"] < 1 and run.ledger.total > 0

    new = sheets_of(name, files, new=True)
    tables = [table.preparation.table(sheet, aligned(new)[sheet.name]) for table, sheet in zip(train, new, strict=True)]
    assert new[0].rows == NEW and all(sheet.rows < NEW for sheet in new[1:])
    assert run.predict(tables).shape == (tables[0].rows, 2)


def test_calls_of_2008_tell_of_later_ones(files: Path) -> None:
    job = tomllib.loads((EXAMPLES / "bank" / "by_date.toml").read_text())
    assert {**job, "prepare": 0, "train": 0, "party": 0} == {**job_of("bank"), "prepare": 0, "train": 0, "party": 0}
    sheets = sheets_of("bank", files)
    train, test = cn.prepare(sheets, aligned(sheets), **job["prepare"])
    assert train[0].dates.min() >= np.datetime64("2008-05") and train[0].dates.max() <= np.datetime64("2008-12")
    assert test[0].dates.min() >= np.datetime64("2009-03") and test[0].dates.max() <= np.datetime64("2010-11")
    assert test[0].labels.float().mean() > 2 * train[0].labels.float().mean(), "in 2009 far more people signed"
    assert "called" not in train[0].source_names


@pytest.mark.parametrize("name", NAMES)
def test_ids_need_the_rule_and_nobody_is_in_two_places(name: str, files: Path) -> None:
    sheets, new = sheets_of(name, files), sheets_of(name, files, new=True)
    for known, unknown in zip(sheets, new, strict=True):
        assert not set(known.ids) & set(unknown.ids), "people to predict for are not trained on"
    labels = pd.read_csv(files / name / "files" / "new-labels.csv", dtype={"id": str})
    assert set(labels["id"]) == set(new[0].ids)
    exact = [
        cn.read([source.path for source in sheet.sources], **_as_read(name, k), normalise=())
        for k, sheet in enumerate(sheets)
    ]
    assert len(aligned(exact)[sheets[0].name]) < len(aligned(sheets)[sheets[0].name])


def _as_read(name: str, place: int) -> dict[str, Any]:
    party = dict(job_of(name)["party"][place])
    party.pop("files")
    return party


def test_the_seed_decides_the_files(files: Path, tmp_path: Path) -> None:
    for folder, seed in (("same", "0"), ("other", "1")):
        make("adult", tmp_path / folder, "--rows", ROWS, "--seed", seed)
    made = (files / "adult" / "files" / "census.csv").read_bytes()
    assert (tmp_path / "same" / "census.csv").read_bytes() == made
    assert (tmp_path / "other" / "census.csv").read_bytes() != made


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bonk", "x"], "invalid choice: 'bonk'"),
        (["adult", "x", "--overlap", "2"], "--overlap 2.0 is out of range"),
        (["adult", "x", "--seed", "-1"], "--seed -1 is out of range"),
        (["adult", "x"], "adult.csv.gz is not here; set COLONNADE_DATA"),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="2"):
        make(*arguments)
    printed = capsys.readouterr().err
    assert sentence in printed and printed.count("\n") == 1


def test_too_many_rows_are_refused(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        make("credit", tmp_path, "--rows", 30_001)
    assert "--rows 30001 is out of range; give 60 to 30000" in capsys.readouterr().err
