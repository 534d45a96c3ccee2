"""What an owner who knows some rows in full rebuilds of the others from one message of main directions."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.rebuilding import classes_of, columns_of, last_read, r2, shuffled

import colonnade as cn


@pytest.fixture(scope="module")
def read_and_columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the owner read, all pixels, and the classes of digits that four parties sent four numbers of."""
    train, _ = cn.load("digits", parties=4)
    method = cn.OneShot(learn="pca", embedding=4, top="linear")
    rows, read = last_read(cn.train(train, method, seal=cn.Bits(4), seed=0, record=True).view)
    return read, columns_of(train, rows), classes_of(train, rows)


def test_a_line_rebuilds_most_of_the_pixels(read_and_columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    read, columns, classes = read_and_columns
    assert read.shape == (len(columns), 16)
    assert r2(read, columns) > r2(classes, columns) + 0.1 > 0.3


def test_other_rows_tell_nothing(read_and_columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    read, columns, _ = read_and_columns
    assert r2(shuffled(read), columns) < 0.05


def test_a_decoder_that_reads_the_columns_rebuilds_them(
    read_and_columns: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    _, columns, _ = read_and_columns
    assert r2(columns, columns) > 0.95
