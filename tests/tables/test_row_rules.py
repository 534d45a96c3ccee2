"""Rows without an id and ids that occur more than once: refused, or left out as the options say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeWarning, ConfigError, TableError

pa = pytest.importorskip("pyarrow")

LINES = ["who,age,y", "Ann,30,0", ",40,1", "bob,50,1", "ann ,60,1", "eve,70,0", "BOB,80,0"]
KEPT = {"first": {"ann": 30, "bob": 50, "eve": 70}, "last": {"ann": 60, "eve": 70, "bob": 80}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    whole = tmp_path / "bank.csv"
    whole.write_text("\n".join(LINES) + "\n")
    return whole


@pytest.mark.parametrize("keep", KEPT)
def test_one_row_of_an_id_is_kept_in_the_files_order(path: Path, keep: str) -> None:
    with pytest.warns(ColonnadeWarning) as said:
        sheet = cn.read(path, id="who", label="y", duplicates=keep, no_id="drop")
    told = [str(one.message) for one in said]
    assert told[0].startswith("1 rows of 'bank' without an id") and told[1].startswith("2 rows of 'bank' have the id")
    assert not any(name in text.lower() for text in told for name in ("ann", "bob", "eve"))
    assert dict(zip(sheet.ids.tolist(), sheet.columns(["age"])["age"].tolist(), strict=True)) == KEPT[keep]
    assert len(sheet) == sheet.rows == 3 and sheet.ids.tolist() == [*KEPT[keep]]
    order = [2, 0]
    assert sheet.columns(["age"], order)["age"].tolist() == [[*KEPT[keep].values()][k] for k in order]
    own = [line.split(",") for line in LINES[1:]]
    assert sheet.own_ids_at(order).tolist() == [
        text for k in order for text, age, _ in own if int(age) == [*KEPT[keep].values()][k]
    ]


def test_rows_beside_them_are_those_of_their_labels(path: Path) -> None:
    with pytest.warns(ColonnadeWarning):
        sheet = cn.read(path, id="who", label="y", duplicates="last", no_id="drop")
    other = cn.Table(["ann", "bob", "eve"], np.eye(3), name="shop")
    rows = cn.align([sheet, other], mode="plain").rows["bank"]
    (bank,), _ = cn.prepare([sheet], {"bank": rows}, test=0)
    labels = dict(zip(bank.ids.tolist(), bank.labels.tolist(), strict=True))
    assert {name: bank.classes[label] for name, label in labels.items()} == {"ann": "1", "eve": "0", "bob": "0"}


def test_both_are_refused_by_default_with_what_to_write(path: Path) -> None:
    with pytest.raises(TableError, match=r"1 rows of 'bank' have no id .* no_id = 'drop'"):
        cn.read(path, id="who")
    with pytest.raises(TableError, match=r"2 ids of 'bank' .* duplicates = 'first' or 'last'"), pytest.warns():
        cn.read(path, id="who", no_id="drop")
    with pytest.raises(TableError, match="1 rows of 'bank' have no id"):
        cn.read(path, id="who", duplicates="first")


def test_other_rules_are_other_rows(path: Path) -> None:
    """What a side keeps about its rows by their numbers is not taken for rows that are numbered otherwise."""
    with pytest.warns(ColonnadeWarning):
        first, last = (cn.read(path, id="who", duplicates=keep, no_id="drop") for keep in KEPT)
    assert first.digest != last.digest
    first.check_unchanged()
    path.write_text("\n".join(LINES[:-1]) + "\n")
    with pytest.raises(TableError, match="have changed"):
        first.check_unchanged()


def test_a_file_in_order_is_the_same_sheet_under_any_rule(tmp_path: Path) -> None:
    frame = pa.table({"who": ["a", "b"], "age": [1, 2]})
    sheets: list[Any] = [cn.read(frame, id="who"), cn.read(frame, id="who", duplicates="last", no_id="drop")]
    assert sheets[0].ids.tolist() == sheets[1].ids.tolist() and sheets[1].kept is None


def test_wrong_words_are_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown way with duplicates 'merge'"):
        cn.read(path, id="who", duplicates="merge")
    with pytest.raises(ConfigError, match="unknown way with no_id 'keep'"):
        cn.read(path, id="who", no_id="keep")
    path.write_text("who,age\n ,1\n,2\n")
    with pytest.raises(TableError, match="no row of 'bank' has an id"):
        cn.read(path, id="who", no_id="drop")
