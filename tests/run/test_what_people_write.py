"""Names that people bring from other libraries, and what notebooks show: never a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError, ConfigError

SECRET = 7731.5


@pytest.fixture(scope="module")
def tables() -> list[cn.Table]:
    columns = np.full((32, 4), SECRET, np.float32)
    columns[::2] = 1
    ids = [f"ann-{row}" for row in range(32)]
    return cn.split(columns, np.arange(32) % 2, 2, ids=ids, column_names=["age", "job=smith", "job=cook", "sum"])


@pytest.mark.parametrize("method", ["SplitNN", "splitnn", cn.SplitNN, cn.SplitNN()])
def test_a_method_by_any_of_its_names(tables: list[cn.Table], method: Any) -> None:
    run = cn.train(tables, method, rounds=1, optimizer="Adam", model="mlp")
    assert isinstance(run.method, cn.SplitNN) and run.description["optimizer"][0]["kind"] == "adam"


def test_every_class_is_a_name_of_its_method() -> None:
    from colonnade.core.method import make_method

    for name, kind in cn.methods().items():
        assert make_method(kind.__name__).name == make_method(kind).name == name


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"lr": 0.01}, r"train has no option 'lr'; write optimizer=colonnade\.Adam\(lr=0\.01\)"),
        ({"batch_size": 64}, "write batch=64"),
        ({"random_state": 3}, "write seed=3"),
    ],
)
def test_options_of_other_libraries_are_translated(tables: list[cn.Table], option: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        cn.train(tables, "fdml", **option)


def test_an_unknown_name_is_one_sentence(tables: list[cn.Table]) -> None:
    with pytest.raises(ColonnadeError, match="unknown optimizer 'adamm'"):
        cn.train(tables, "fdml", rounds=1, optimizer="adamm")


def test_what_is_shown_has_shapes_and_names_and_no_value(tables: list[cn.Table]) -> None:
    run = cn.train(tables, "fdml", rounds=2)
    for one in (*tables, run, run.ledger):
        for text in (repr(one), one._repr_html_()):
            assert "7731" not in text and "ann-" not in text and "smith" not in text and len(text) < 3000
    assert repr(tables[1]) == "Table(name: party 1, rows: 32, columns: 2 (age, job))"
    assert repr(tables[0]) == "Table(name: owner, rows: 32, labels: one a row)"
    assert "rounds: 2 of 2" in repr(run) and "bytes" in repr(run.ledger) and "<td>fdml</td>" in run._repr_html_()


def test_names_are_escaped() -> None:
    assert "<b>" not in cn.Table(["a"], [[1.0]], name="<b>", column_names=("<b>",))._repr_html_()
