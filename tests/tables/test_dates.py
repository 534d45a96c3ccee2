"""Columns of dates: every way to write them that is read, and one sentence for every other."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import TableError
from colonnade.tables.prepare.dates import date_of, dates_of

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402 - after the check that it is there

JUNE = date(2024, 6, 30)


def csv_of(folder: Path, *dates: str) -> cn.Sheet:
    (folder / "bank.csv").write_text("id,called\n" + "".join(f"p{k},{text}\n" for k, text in enumerate(dates)))
    return cn.read(folder / "bank.csv", id="id")


def parquet_of(folder: Path, dates: Any) -> cn.Sheet:
    table = pa.table({"id": [f"p{k}" for k in range(len(dates))], "called": dates})
    pyarrow.parquet.write_table(table, folder / "bank.parquet")
    return cn.read(folder / "bank.parquet", id="id")


@pytest.mark.parametrize(
    ("texts", "unit", "first"),
    [
        (["2024", "2023"], "Y", "2024"),
        (["2024-06", "2023-12"], "M", "2024-06"),
        (["2024/06", "2023/12"], "M", "2024-06"),
        (["202406", "202312"], "M", "2024-06"),
        (["202406.0", "202312.0"], "M", "2024-06"),  # as pandas writes a column with missing values
        (["2024-06-30", "2024-01-01"], "D", "2024-06-30"),
        (["20240630", "20240101"], "D", "2024-06-30"),
        ([" 2024-06-30 ", "2024-01-01"], "D", "2024-06-30"),
        (["2024-06-30 17:45", "2024-01-01 00:00"], "s", "2024-06-30T17:45:00"),
        (["2024-06-30T17:45:09.123", "2024-01-01T00:00:00"], "s", "2024-06-30T17:45:09"),
        (["2024-06-30T17:45:00Z", "2024-01-01T00:00:00+00:00"], "s", "2024-06-30T17:45:00"),
    ],
)
def test_texts_and_numbers_are_dates(texts: list[str], unit: str, first: str, tmp_path: Path) -> None:
    found = dates_of(csv_of(tmp_path, *texts), "called")
    assert np.datetime_data(found.dtype) == (unit, 1) and str(found[0]) == first and found[0] > found[1]


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (lambda: pa.array([JUNE], pa.date32()), "D"),
        (lambda: pa.array([JUNE], pa.date64()), "D"),
        (lambda: pa.array([datetime(2024, 6, 30)], pa.timestamp("us")), "s"),
        (lambda: pa.array([datetime(2024, 6, 30)], pa.timestamp("ns", tz="UTC")), "s"),
        (lambda: pa.array([20240630], pa.int32()), "D"),
        (lambda: pa.array([202406.0], pa.float64()), "M"),
        (lambda: pa.array(["2024-06"], pa.string()), "M"),
        (lambda: pa.array(["2024-06"], pa.string()).dictionary_encode(), "M"),
    ],
)
def test_parquet_has_dates_of_its_own(values: Any, unit: str, tmp_path: Path) -> None:
    found = dates_of(parquet_of(tmp_path, values()), "called")
    assert np.datetime_data(found.dtype) == (unit, 1) and str(found[0]).startswith("2024-06")


def test_rows_are_read_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    sheet = csv_of(tmp_path, *(f"20{k:02d}" for k in range(50)))
    assert dates_of(sheet, "called", [49, 0, 7]).astype(str).tolist() == ["2049", "2000", "2007"]


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["2024-06", "June"], "column 'called' of 'bank' holds 'June' in row 2, which is no date; write 2024, 2024-06"),
        (["2024-06", "2024-13"], "holds '2024-13' in row 2, which is no date"),
        (["2024-02-30", "2024-02-01"], "holds '2024-02-30' in row 1, which is no date"),
        (["06/30/2024", "01/31/2024"], "holds '06/30/2024' in row 1, which is no date"),
        (["17", "18"], "holds '17' in row 1, which is no date"),
        (["2024-06", "", "2024-07", ""], "has no date in 2 rows, the first is row 2; fill them in, or leave such rows"),
        (["2024-06", "2024-06-30"], "'2024-06' in row 1 is a month, and '2024-06-30' in row 2 is a day; write all"),
        (["2024", "202406"], "mixes kinds of dates: '2024' in row 1 is a year, and '202406' in row 2 is a month"),
        (
            ["2024-06-30 17:45", "2024-06-30T17:45Z"],
            "in row 1 is a time, and '2024-06-30T17:45Z' in row 2 is a time in",
        ),
        (["2024-06-30T17:45+02:00", "x"], "holds '2024-06-30T17:45+02:00' in row 1, a time of a zone"),
    ],
)
def test_what_is_no_date(texts: list[str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"^column 'called' of 'bank' .*[.]$") as caught:
        dates_of(csv_of(tmp_path, *texts), "called")
    assert sentence in str(caught.value) and str(caught.value).count(". ") == 0


def test_times_of_a_zone_in_parquet_are_refused(tmp_path: Path) -> None:
    sheet = parquet_of(tmp_path, pa.array([datetime(2024, 6, 30)], pa.timestamp("us", tz="+02:00")))
    with pytest.raises(TableError, match="a time of a zone, which may lie on two days"):
        dates_of(sheet, "called")


def test_rows_without_a_date_can_be_left_out_but_kinds_cannot_be_mixed(tmp_path: Path) -> None:
    found = dates_of(csv_of(tmp_path, "2024-06", "June", "?"), "called", leave_out=True)
    assert np.isnat(found).tolist() == [False, True, True] and str(found[0]) == "2024-06"
    with pytest.raises(TableError, match="mixes kinds of dates"):
        dates_of(csv_of(tmp_path, "2024-06", "2024"), "called", leave_out=True)
    with pytest.raises(TableError, match="holds no date at all"):
        dates_of(csv_of(tmp_path, "June", "?"), "called", leave_out=True)


@pytest.mark.parametrize("text", ["", "2024-6", "2024-06-30 25:00", "202406-30", "24-06-30", "2024-06-30 17", "۲۰۲۴"])
def test_near_misses_are_no_dates(text: str) -> None:
    assert date_of(text) is None
