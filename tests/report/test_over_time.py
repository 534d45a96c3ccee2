"""The report's section by month: a table, three pictures with their numbers, and folders that are damaged."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from test_report import read

from colonnade.errors import CheckpointError
from colonnade.report.over_time import period_pictures
from colonnade.report.run_pages import write_report
from colonnade.report.summary import RunView, read_summary
from synthetic_runs import synthetic, write_folder


def line(period: str, part: str = "test", **more: Any) -> dict[str, Any]:
    plain = {"rows": 1200, "observed": 0.11, "predicted": 0.125, "score": 0.8123, "psi": 0.31, "chance": 0.015}
    return {"period": period, "part": part, **plain, **more}


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def over_time(*lines: dict[str, Any], unit: str = "month", against: str = "valid", **more: Any) -> dict[str, Any]:
    summary = synthetic("run", binary=True, **more)
    summary["findings"]["periods"] = {"unit": unit, "score": "auc", "against": against, "lines": list(lines)}
    return summary


@pytest.fixture
def summary() -> dict[str, Any]:
    return over_time(
        line("2024-05", "valid"), line("2024-06"), line("2024-07", score=None, psi=0.02), names=["no", "yes"]
    )


def test_a_page_has_scores_by_month(summary: dict[str, Any], tmp_path: Path) -> None:
    _, text = read(write_report([summary], tmp_path / "page.html", pictures=True))
    assert "By month" in text and "held out of training" in text and "Share of yes by month" in text
    for written in ("2024-06", "1,200", "0.8123", "0.310", "0.015", "Stability index by month", "AUC by month"):
        assert written in text
    assert "with those of the rows held out of training" in text
    for name in ("auc-by-month", "share-of-yes-by-month", "stability-index-by-month"):
        assert ET.parse(tmp_path / "page-files" / f"{name}.svg").getroot().tag.endswith("svg")
        rows = rows_of(tmp_path / "page-files" / f"{name}.csv")
        assert {row["period"] for row in rows} <= {"2024-05", "2024-06", "2024-07"} and rows
    auc = rows_of(tmp_path / "page-files" / "auc-by-month.csv")
    assert [(row["line"], row["period"], row["AUC"]) for row in auc] == [
        ("held out of training", "2024-05", "0.8123"),
        ("test", "2024-06", "0.8123"),
    ], "a month of one class has no AUC"


def test_the_first_period_is_named_if_the_others_are_compared_with_it(tmp_path: Path) -> None:
    lines = line("2024 Q1", psi=None, chance=None), line("2024 Q2")
    _, text = read(write_report([over_time(*lines, unit="quarter", against="")], tmp_path / "page.html"))
    assert "By quarter" in text and "with those of the first quarter, 2024 Q1" in text


def test_several_runs_share_the_section(summary: dict[str, Any], tmp_path: Path) -> None:
    years = over_time(line("2023"), line("2024"), unit="year") | {"name": "other"}
    _, text = read(write_report([summary, years, synthetic("third", binary=True)], tmp_path / "page.html"))
    assert "Over time" in text and "AUC by month" in text and "AUC by year" in text
    _, text = read(write_report([summary, summary | {"name": "other"}], tmp_path / "page.html"))
    assert text.count("AUC by month") >= 2 and "By month" in text


@pytest.mark.parametrize("where", ["files", "federation"])
def test_what_the_split_told_the_parties_is_said(where: str, tmp_path: Path) -> None:
    split = {"column": "called <b>", "after": "2024-06", "missing": "leave out", "feature": False}
    files = {"parties": [{"name": "bank", "id": "id"}], "align": {}, "prepare": {"split": split}, "digests": {}}
    data = {"files": files} if where == "files" else {"federation": {"split": split}}
    _, text = read(write_report([synthetic("run", binary=True, data=data)], tmp_path / "page.html"))
    assert "whether its date (column called <b>) is 2024-06 or later or is missing, so that" in text
    _, text = read(write_report([synthetic("run", data={"federation": {"split": None}})], tmp_path / "page.html"))
    assert "whether its date" not in text


def test_runs_without_dates_have_no_such_section(tmp_path: Path) -> None:
    _, text = read(write_report([synthetic("run", binary=True)], tmp_path / "page.html"))
    assert "By month" not in text and "Over time" not in text


@pytest.mark.parametrize("count", [1, 5, 6, 21, 24])
def test_names_below_the_axis_have_room(count: int) -> None:
    lines = [line(f"2024-{k // 28 + 1:02d}-{k % 28 + 1:02d}") for k in range(count)]
    picture = period_pictures(RunView(over_time(*lines, unit="day")))[0]
    places = [
        float(text.get("x", ""))
        for text in ET.fromstring(picture.svg()).iter("{http://www.w3.org/2000/svg}text")
        if (text.text or "").startswith("2024-")
    ]
    gaps = [after - before for before, after in pairwise(places)]
    assert 1 <= len(places) <= 5 and all(gap >= 70 for gap in gaps) and places[-1] + 35 <= picture.width


@pytest.mark.parametrize(
    "periods",
    [
        {"unit": "month"},
        {"unit": "month", "score": "auc", "against": "", "lines": []},
        {"unit": "month", "score": "auc", "against": "", "lines": [{"period": "2024"}]},
        {"unit": "month", "score": "auc", "against": "", "lines": [line("2024-01", psi=float("nan"))]},
        {"unit": "month", "score": "auc", "against": "", "lines": [line("2024-01", rows="many")]},
        {"unit": "m" * 100, "score": "auc", "against": "", "lines": [line("2024-01")]},
        {"unit": "month", "score": "auc", "against": "", "lines": [line("\x00")]},
        [1],
    ],
)
def test_damaged_periods_are_refused(periods: Any, tmp_path: Path) -> None:
    summary = synthetic("run", binary=True)
    summary["findings"]["periods"] = periods
    with pytest.raises(CheckpointError, match="does not describe a run"):
        read_summary(write_folder(summary, tmp_path))
