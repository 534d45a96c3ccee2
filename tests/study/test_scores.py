"""Scores come back under the owner's own ids, so that they join the tables that they came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import colonnade as cn

pa = pytest.importorskip("pyarrow")

VALUES = torch.tensor([[0.25, 0.75], [0.5, 0.5]])


def scored(sheet: cn.Sheet, rows: list[int]) -> cn.Scores:
    return cn.Scores.of(sheet, np.array(rows), VALUES, names=("no", "yes"), task="classes")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_are_the_texts_of_the_owners_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bank.{suffix}"
    if suffix == "csv":
        path.write_text("age,Customer No\n30,CUST-6074363 \n40,Straße\n50,007\n")
    else:
        from pyarrow import parquet

        parquet.write_table(pa.table({"age": [30, 40, 50], "Customer No": ["CUST-6074363 ", "Straße", "007"]}), path)
    sheet = cn.read(path, id="Customer No")
    assert sheet.ids.tolist() == ["cust-6074363", "strasse", "007"], "by which the parties compare"
    scores = scored(sheet, [2, 0])
    assert [*scores.columns] == ["Customer No", "class", "p(no)", "p(yes)"]
    assert scores.columns["Customer No"].tolist() == ["007", "CUST-6074363 "]
    lines = scores.write(tmp_path / "scores.csv").read_text().splitlines()
    assert lines[:2] == ['"Customer No","class","p(no)","p(yes)"', '"007","yes",0.25,0.75']
    assert "0.75" not in repr(scores) and "CUST" not in repr(scores)


def test_ids_under_the_name_of_a_prediction_do_not_replace_it() -> None:
    sheet = cn.read(pa.table({"class": [7, 8], "age": [1, 2]}), id="class", name="bank")
    assert [*scored(sheet, [0, 1]).columns] == ["id", "class", "p(no)", "p(yes)"]
