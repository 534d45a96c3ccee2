"""Raw columns: standardised at the party, by its own training rows, in every runtime; other tables are left alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.core.column_scale import ColumnScale, evened, raw_column
from colonnade.errors import TrainingError

RANDOM = np.random.default_rng(0)
EVEN = RANDOM.normal(size=(120, 6)).astype(np.float32)
Y = (EVEN.sum(1) > 0).astype(int)
UNITS = np.array([1.0, 1e6, 1.0, 1.0, 1e-6, 1.0], np.float32)
METHOD = cn.SplitNN(embedding=4, hidden=4)
HOW: dict[str, Any] = {"rounds": 5, "batch": 20}


def both(X: np.ndarray) -> tuple[list[cn.Table], list[cn.Table]]:
    return cn.split(X[:80], Y[:80], 3), cn.split(X[80:], Y[80:], 3)


RAW, RAW_TEST = both(EVEN * UNITS)


def test_raw_columns_train_as_well_as_standardised_ones() -> None:
    mean, deviation = EVEN[:80].mean(0), EVEN[:80].std(0)
    tables, test = both((EVEN - mean) / deviation)
    tables[2], test[2] = (cn.split(EVEN[part], Y[part], 3)[2] for part in (slice(80), slice(80, None)))
    raw, even = cn.train(RAW, METHOD, **HOW), cn.train(tables, METHOD, **HOW)
    torch.testing.assert_close(raw.predict(RAW_TEST), even.predict(test), rtol=1e-3, atol=1e-4)


def test_without_it_the_first_round_ends_in_no_number() -> None:
    """The control: the same columns in a table with a scale of its own are taken as they are."""
    as_it_is = [table if table.columns is None else replace(table, scale=cn.Scale(unit=1.0)) for table in RAW]
    with pytest.raises(TrainingError, match="not finite in 'h' of step 'embed' in round 1"):
        cn.train(as_it_is, cn.VIMADMM(optimizer="sgd"), **HOW)
    assert np.isfinite(cn.train(RAW, cn.VIMADMM(optimizer="sgd"), **HOW).history[-1]["train_loss"])


def test_the_column_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "colonnade"):
        evened(cn.Table([1, 2], [[20_000.0, 1.0], [80_000.0, 2.0]], name="bank", column_names=("income", "age")))
    assert "the columns of 'bank' are standardised at the party, since its column 'income' has values up" in caplog.text


def test_even_tables_prepared_ones_and_pictures_are_left_alone() -> None:
    tables = [
        *cn.split(EVEN, Y, 3)[1:],
        *cn.load("digits", parties=2)[0][1:],
        *cn.load("breast_cancer", parties=2)[0][1:],
        cn.Table([1, 2], [[1e6], [2e6]], preparation=object()),
        cn.Table([1, 2], [[1e6], [2e6]], scale=cn.Scale(unit=1e6)),
        cn.Table([1, 2, 3], [[0.0], [0.0], [1.0]]),
    ]
    for table in tables:
        assert raw_column(table) is None and evened(table) is table


def test_only_rows_that_the_party_has_count() -> None:
    table = evened(cn.Table([1, 2, 3], [[100.0], [300.0], [0.0]], known=[True, True, False]))
    assert isinstance(table.scale, ColumnScale) and table.scale.mean.tolist() == [200.0]


@pytest.mark.parametrize("runtime", ["fused", "loop", "bytes", "apart"])
def test_all_runtimes_agree_and_a_saved_run_predicts_the_same(tmp_path: Path, runtime: str) -> None:
    reference = cn.train(RAW, METHOD, runtime="loop", **HOW).predict(RAW_TEST)
    run = cn.train(RAW, METHOD, runtime=runtime, folder=tmp_path, **HOW)
    torch.testing.assert_close(run.predict(RAW_TEST), reference, rtol=1e-3, atol=1e-4)
    assert torch.equal(cn.resume(tmp_path, RAW, train=False).predict(RAW_TEST), run.predict(RAW_TEST))
    if runtime != "apart":
        opened = cn.resume(tmp_path, train=False)
        torch.testing.assert_close(opened.predict(RAW_TEST), run.predict(RAW_TEST))


def test_a_run_of_an_older_version_goes_on_without_it(tmp_path: Path) -> None:
    """Its state has no statistics, so its columns are drawn as they were."""
    run = cn.train(RAW, METHOD, **HOW)
    states = run.model.states()
    older = {
        side: {name: value for name, value in state.items() if not name.startswith("scale/")}
        for side, state in states.items()
    }
    assert sum(map(len, older.values())) == sum(map(len, states.values())) - 4, "two parties have raw columns"
    scaled = run.predict(RAW_TEST)
    run.model.restore(older)
    assert not torch.allclose(run.predict(RAW_TEST), scaled)
    run.model.restore(states)
    assert torch.equal(run.predict(RAW_TEST), scaled)
