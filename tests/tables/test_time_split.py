"""A split by date, and that a random one is random in tables that are in order of date."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConfigError, TableError
from colonnade.tables.prepare.row_parts import random_parts

pytest.importorskip("pyarrow")
ROWS = 240
MONTHS = np.datetime64("2023-01", "M") + np.arange(ROWS) // 10  # in order of date: 2023-01 to 2024-12


def written(folder: Path, called: Any = MONTHS, more: str = "") -> list[cn.Sheet]:
    """A bank whose rows are in order of date, and a shop."""
    random = np.random.default_rng(0)
    age, spent = random.normal(size=ROWS), random.normal(size=ROWS)
    lines = [f"p{k:03d},{age[k]:.4f},{called[k]},{'yes' if age[k] + spent[k] > 0 else 'no'}" for k in range(ROWS)]
    (folder / "bank.csv").write_text("\n".join(["id,age,called,paid", *lines]) + "\n")
    head = f"id,spent{',' + more if more else ''}"
    lines = [f"p{k:03d},{spent[k]:.4f}{f',{MONTHS[k]}' if more else ''}" for k in range(ROWS)]
    (folder / "shop.csv").write_text("\n".join([head, *lines]) + "\n")
    return [cn.read(folder / "bank.csv", id="id", label="paid"), cn.read(folder / "shop.csv", id="id")]


@pytest.fixture
def sheets(tmp_path: Path) -> list[cn.Sheet]:
    return written(tmp_path)


@pytest.mark.parametrize(
    "split",
    [
        cn.TimeSplit("called", "2024-06"),
        {"column": "called", "after": "2024-06"},
        {"column": "called", "after": 202406},
        {"column": "called", "after": date(2024, 6, 1)},
        {"column": "called", "after": "2024-06-01 00:00"},
    ],
)
def test_rows_from_the_date_on_are_to_test_on(split: Any, sheets: list[cn.Sheet]) -> None:
    train, test = cn.prepare(sheets, split=split)
    assert [table.rows for table in (*train, *test)] == [170, 170, 70, 70]
    assert train[0].dates.max() == np.datetime64("2024-05") and test[0].dates.min() == np.datetime64("2024-06")
    assert train[0].ids.tolist() == train[1].ids.tolist() == [f"p{k:03d}" for k in range(170)]
    assert train[1].dates is None, "the parties' tables have no dates"


def test_a_year_splits_months(sheets: list[cn.Sheet]) -> None:
    train, _ = cn.prepare(sheets, split={"column": "called", "after": 2024})
    assert train[0].dates.max() == np.datetime64("2023-12")


def test_the_column_is_no_input_unless_asked_for(tmp_path: Path) -> None:
    sheets = written(tmp_path, [str(month).replace("-", "") for month in MONTHS])
    train, _ = cn.prepare(sheets, split={"column": "called", "after": 202406})
    assert train[0].column_names == ("age",) and train[0].preparation.notes == ()
    train, _ = cn.prepare(sheets, split={"column": "called", "after": 202406, "feature": True})
    assert train[0].column_names == ("age", "called")


def test_a_preparation_is_learnt_from_the_training_rows_alone(sheets: list[cn.Sheet]) -> None:
    train, test = cn.prepare(sheets, split=cn.TimeSplit("called", "2024-06"))
    for table in train:
        assert abs(float(table.columns.mean())) < 1e-6
    assert abs(float(test[1].columns.mean())) > 1e-6


def test_rows_without_a_date_are_left_out_if_one_says_so(tmp_path: Path) -> None:
    called = [*map(str, MONTHS)]
    called[3], called[200] = "", "soon"
    sheets = written(tmp_path, called)
    with pytest.raises(TableError, match="holds 'soon' in row 201, which is no date"):
        cn.prepare(sheets, split={"column": "called", "after": "2024-06"})
    train, test = cn.prepare(sheets, split={"column": "called", "after": "2024-06", "missing": "leave out"})
    assert (train[0].rows, test[0].rows) == (169, 69)
    assert not {"p003", "p200"} & {*train[0].ids, *test[1].ids}


@pytest.mark.parametrize(
    ("split", "sentence"),
    [
        ({"column": "cold", "after": "2024-06"}, "'bank' has no column 'cold' to split by; only the owner's dates"),
        ({"column": "spent", "after": "2024-06"}, "'spent' to split by; 'shop' has it, but only the owner's dates"),
        ({"column": "id", "after": "2024-06"}, "column 'id' of 'bank' is its id"),
        ({"column": "paid", "after": "2024-06"}, "column 'paid' of 'bank' is its label"),
        ({"column": "called", "after": "2030"}, "before 2030, the last at 2024-12; give an earlier date"),
        ({"column": "called", "after": "2023-01"}, "at 2023-01 or later, the first at 2023-01; give a later date"),
        (
            {"column": "called", "after": "2024-06-15"},
            "after = '2024-06-15' is a day and column 'called' of 'bank' hol",
        ),
        ({"column": "called", "after": "2024-06-01T00:00+02:00"}, "is a time of a zone; write 2024, 2024-06"),
        ({"column": "called", "after": "June"}, "after = 'June' in split is no date; write 2024, 2024-06"),
        ({"column": "called", "after": 2024.5}, "after = 2024.5 in split is no date"),
        ({"column": "called", "after": True}, "after = True in split is no date"),
        ({"column": "called"}, "does not say by what; write {column = 'month', after = '2024-06'}"),
        ("called", "split = 'called' does not say by what"),
        ({"column": 3, "after": "2024"}, "column = 3 in split is not a column's name"),
        ({"column": "called", "after": "2024", "feature": 1}, "feature = 1 in split is not true or false"),
        ({"column": "called", "after": "2024", "before": "2025"}, "key of split 'before'"),
        ({"column": "called", "after": "2024", "missing": "drop"}, "way with missing dates 'drop'"),
    ],
)
def test_what_cannot_be_split_by(split: Any, sentence: str, sheets: list[cn.Sheet]) -> None:
    with pytest.raises((ConfigError, TableError)) as caught:
        cn.prepare(sheets, split=split)
    assert sentence in str(caught.value)


def test_a_share_and_a_date_are_one_too_many(sheets: list[cn.Sheet]) -> None:
    with pytest.raises(ConfigError, match=r"test = 0\.3 and split came"):
        cn.prepare(sheets, test=0.3, split=cn.TimeSplit("called", "2024-06"))


def test_a_table_takes_its_dates_along(sheets: list[cn.Sheet]) -> None:
    train, _ = cn.prepare(sheets, split=cn.TimeSplit("called", "2024-06"))
    assert train[0].take([169, 0]).dates.astype(str).tolist() == ["2024-05", "2023-01"]
    for dates in (["soon"], [["2024"]], [1], np.array(["NaT"], "datetime64[D]")):
        with pytest.raises(TableError, match="the dates of table 't' are no dates, or some are missing"):
            cn.Table(["a"], [[1.0]], name="t", dates=dates)
    with pytest.raises(TableError, match="2 ids but 1 rows of dates"):
        cn.Table(["a", "b"], [[1.0], [2.0]], name="t", dates=["2024-06"])


# Rows in order of date


def longest_run(rows: np.ndarray) -> int:
    """How many of these rows follow one another without a gap."""
    ordered = np.sort(rows)
    ends = np.flatnonzero(np.diff(ordered) != 1)
    return int(np.diff([-1, *ends, len(ordered) - 1]).max())


@pytest.mark.parametrize("seed", range(5))
def test_the_random_split_of_rows_in_order_of_date_is_from_all_times(seed: int, sheets: list[cn.Sheet]) -> None:
    train, test = cn.prepare(sheets, seed=seed)
    when = np.array([int(text[1:]) for text in test[0].ids])
    assert len(when) == ROWS // 5 and longest_run(when) < 12
    by_quarter = np.bincount(when // (ROWS // 8), minlength=8)
    assert by_quarter.min() >= 1 and by_quarter.max() <= 14, "six are expected of each eighth of the time"
    assert len(train[0].ids) + len(when) == ROWS


def test_a_large_random_split_has_its_share_of_every_tenth() -> None:
    parts = random_parts(100_000, 0.2, seed=0)
    shares = np.bincount(parts.test // 10_000) / 10_000
    assert np.abs(shares - 0.2).max() < 0.02
