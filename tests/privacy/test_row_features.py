"""From streams to numbers of a row, and which guess is taken."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.attack_materials import split

from colonnade.privacy.attacks.candidates import blind_guess, choose, quality
from colonnade.privacy.attacks.row_features import (
    backward,
    forward,
    presence,
    received,
    standardised,
    unit,
    windows_of,
)
from colonnade.privacy.material import Material, Stream

NAN = np.nan


def test_windows_are_those_of_each_rows_own_appearances() -> None:
    values = np.array([[1, NAN, NAN], [2, 10, NAN], [3, NAN, NAN], [4, 20, NAN], [NAN, 30, NAN]])[..., None]
    found = {name: window[:, 0].tolist() for name, window in windows_of(values).items()}
    first, last, mean = [1.0, 10.0], [4.0, 30.0], [2.5, 20.0]
    assert {name: window[:2] for name, window in found.items()} == {
        "first": first,
        "early": first,
        "all": mean,
        "late": last,
        "last": last,
    }
    assert all(np.isnan(window[2]) for window in found.values())


def test_early_and_late_are_quarters() -> None:
    found = windows_of(np.arange(8.0)[:, None, None])
    assert found["early"][0, 0] == 0.5 and found["late"][0, 0] == 6.5


def test_a_row_with_one_missing_number_is_missing() -> None:
    assert presence(np.array([[[1.0, NAN], [1.0, 2.0], [np.inf, 1.0]]])).tolist() == [[False, True, False]]


def test_missing_rows_and_constant_columns_are_zero() -> None:
    x = np.array([[1.0, 5.0], [3.0, 5.0], [NAN, NAN]])
    assert standardised(x).tolist() == [[-1, 0], [1, 0], [0, 0]]
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0], [NAN, 1.0]])).tolist() == [[0.6, 0.8], [0, 0], [0, 0]]


def material(classes: int, truth: np.ndarray) -> Material:
    streams = tuple(
        Stream(sender, "lab", "step", field, np.zeros(1, dtype=np.int64), np.full((1, len(truth), 1), value))
        for sender, field, value in [("owner", "h", 1), ("owner", "slope", 1), ("lab", "h", 1), ("owner", "o", NAN)]
    )
    return split(Material("lab", "owner", "labels", truth, classes, streams), known=0)


def test_what_the_adversary_sent_and_what_is_empty_was_not_received() -> None:
    made = material(2, np.arange(30) % 2)
    assert [stream.field for stream in received(made)] == ["h", "slope"]
    assert [stream.field for stream in forward(made)] == ["h"]
    assert [stream.field for stream in backward(made)] == ["slope"]


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_best_guess_on_the_rows_to_choose_on_is_taken(classes: int) -> None:
    truth = np.arange(60) % (classes or 7)
    made = material(classes, truth if classes else truth[:, None].astype(np.float64))
    right, wrong = np.array(made.truth, dtype=np.float64), blind_guess(made)
    assert quality(made, right) == 1.0 and quality(made, wrong) < 0.7
    right[made.scored] = 5.0
    assert (choose(made, [wrong, right]) == 5.0).all(), "whatever it says of the rows that are judged"
