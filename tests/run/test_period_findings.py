"""Scores and stability by period: against scikit-learn month by month, kept with the run, and without a message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score, roc_auc_score

import colonnade as cn
from colonnade.core.task import Classes, Several, Task, Values
from colonnade.report.summary import read_summary
from colonnade.run.period_findings import Judged, by_period

ROWS = 600
MONTHS = np.datetime64("2024-01", "M") + np.arange(ROWS) // 150


def found_in(task: Task, outputs: torch.Tensor, labels: torch.Tensor) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = by_period(task, [Judged("test", outputs, labels, MONTHS)])["periods"]["lines"]
    assert [line["period"] for line in lines] == ["2024-01", "2024-02", "2024-03", "2024-04"]
    assert [line["rows"] for line in lines] == [150] * 4
    assert lines[0]["psi"] is lines[0]["chance"] is None, "the others are compared with it"
    return lines


def test_two_classes_have_auc_shares_and_mean_probability() -> None:
    torch.manual_seed(0)
    labels, outputs = torch.randint(2, (ROWS,)), torch.randn(ROWS, 2)
    outputs[450:, 1] += 2  # the scores of the last month are others
    for number, line in enumerate(found_in(Classes(2), outputs, labels)):
        rows = slice(150 * number, 150 * (number + 1))
        chances = torch.softmax(outputs[rows], 1)[:, 1]
        assert line["score"] == pytest.approx(roc_auc_score(labels[rows], outputs[rows, 1] - outputs[rows, 0]))
        assert line["observed"] == pytest.approx(float(labels[rows].double().mean()))
        assert line["predicted"] == pytest.approx(float(chances.mean()), abs=1e-6)
        if number:
            assert (line["psi"] > 0.5) is (number == 3) and line["chance"] == pytest.approx(9 * 2 / 150)


def test_a_month_of_one_class_has_no_auc() -> None:
    labels = torch.randint(2, (ROWS,))
    labels[:150] = 0
    lines = found_in(Classes(2), torch.randn(ROWS, 2), labels)
    assert lines[0]["score"] is None and lines[1]["score"] is not None and lines[0]["observed"] == 0.0


def test_many_classes_have_accuracy_and_the_stability_of_what_is_said() -> None:
    labels, outputs = torch.randint(3, (ROWS,)), torch.randn(ROWS, 3)
    outputs[450:, 2] += 9
    lines = found_in(Classes(3), outputs, labels)
    assert lines[0]["observed"] is lines[0]["predicted"] is None
    assert lines[1]["score"] == pytest.approx(float((outputs.argmax(1) == labels)[150:300].double().mean()))
    assert lines[1]["psi"] < 0.3 < 3 < lines[3]["psi"]


def test_values_have_r2_and_means() -> None:
    labels = torch.randn(ROWS).double()
    outputs = (labels + 0.1 * torch.randn(ROWS)).float().unsqueeze(1)
    line = found_in(Values(1), outputs, labels)[2]
    assert line["score"] == pytest.approx(r2_score(labels[300:450], outputs[300:450, 0]), abs=1e-6)
    assert line["observed"] == pytest.approx(float(labels[300:450].mean()))


def test_several_labels_have_accuracy() -> None:
    labels, outputs = torch.randint(2, (ROWS, 3)), torch.randn(ROWS, 3)
    line = found_in(Several(3), outputs, labels)[0]
    assert line["score"] == pytest.approx(float(((outputs > 0) == (labels == 1))[:150].double().mean()))


def test_nothing_without_dates_or_with_outputs_that_are_no_numbers() -> None:
    labels = torch.zeros(ROWS, dtype=torch.long)
    assert by_period(Classes(2), [Judged("test", torch.randn(ROWS, 2), labels)]) == {}
    assert by_period(Classes(2), [Judged("test", torch.full((ROWS, 2), torch.nan), labels, MONTHS)]) == {}
    assert by_period(Classes(2), []) == {}


@pytest.fixture(scope="module")
def dated() -> tuple[list[cn.Table], list[cn.Table]]:
    """Breast cancer, as if its rows had come day by day."""
    train, test = cn.load("breast_cancer", parties=2)
    day = np.datetime64("2024-01-01") + np.arange(train[0].rows + test[0].rows)
    cut = train[0].rows
    return [replace(train[0], dates=day[:cut]), *train[1:]], [replace(test[0], dates=day[cut:]), *test[1:]]


def test_a_run_keeps_its_periods(dated: tuple[list[cn.Table], list[cn.Table]], tmp_path: Path) -> None:
    train, test = dated
    run = cn.train(train, "fdml", epochs=2, batch=64, valid=0.2, test=test, folder=tmp_path / "run")
    periods = run.findings["periods"]
    assert periods["unit"] == "month" and periods["score"] == "auc" and periods["against"] == "valid"
    rows = {part: sum(line["rows"] for line in periods["lines"] if line["part"] == part) for part in ("valid", "test")}
    assert rows == {"valid": len(run.schedule.valid_rows), "test": test[0].rows}
    last = max(line["period"] for line in periods["lines"] if line["part"] == "valid")
    assert last <= min(line["period"] for line in periods["lines"] if line["part"] == "test")
    assert read_summary(tmp_path / "run")["findings"]["periods"] == periods
    assert cn.resume(tmp_path / "run").findings["periods"] == periods


def test_periods_cost_no_message(dated: tuple[list[cn.Table], list[cn.Table]]) -> None:
    train, test = dated
    plain = cn.train([replace(train[0], dates=None), *train[1:]], "fdml", rounds=3, valid=0.2, test=test)
    run = cn.train(train, "fdml", rounds=3, valid=0.2, test=test)
    assert run.ledger.to_json() == plain.ledger.to_json()
    assert run.history[-1]["test_loss"] == plain.history[-1]["test_loss"]
    assert plain.findings["periods"]["against"] == "" != run.findings["periods"]["against"]
