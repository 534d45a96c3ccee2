"""Cutting arrays into federations: who gets what, nothing copied, every mistake one sentence."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.table import Scale, Table, check_federation
from colonnade.data.split import split
from colonnade.errors import ConfigError, TableError

pd = pytest.importorskip("pandas")

ROWS = 6
Y = np.arange(ROWS) % 2


def table(columns: int) -> np.ndarray:
    return np.arange(ROWS * columns, dtype=np.float32).reshape(ROWS, columns)


def images(*shape: int) -> np.ndarray:
    return (np.arange(ROWS * np.prod(shape)) % 251).astype(np.uint8).reshape(ROWS, *shape)


def shapes(tables: list[Table]) -> list[tuple[int, ...]]:
    return [t.shape for t in tables[1:]]


def held(tables: list[Table]) -> list[list[float]]:
    """The first row of every party, flattened."""
    return [t.columns[0].flatten().tolist() for t in tables[1:]]


# Who gets what


def test_columns_are_cut_like_array_split() -> None:
    tables = split(table(10), Y, 4)
    assert held(tables) == [part.tolist() for part in np.array_split(np.arange(10.0), 4)]
    check_federation(tables)


def test_vims_mnist_is_fourteen_parties_of_two_rows() -> None:
    X = images(28, 28)
    tables = split(X, Y, 14)
    assert shapes(tables) == [(2, 28)] * 14
    assert np.array_equal(tables[4].columns, X[:, 6:8])


def test_rows_of_images_with_channels() -> None:
    X = images(3, 7, 5)
    tables = split(X, Y, 3)
    assert shapes(tables) == [(3, 3, 5), (3, 2, 5), (3, 2, 5)]
    assert np.array_equal(tables[2].columns, X[:, :, 3:5])


def test_columns_of_images_are_vertical_strips() -> None:
    assert shapes(split(images(28, 28), Y, 2, by="columns")) == [(28, 14), (28, 14)]


def test_vims_cifar_is_a_grid_cut_at_10_20_32() -> None:
    X = images(3, 32, 32)
    tables = split(X, Y, 9, by="patches")
    sides = (10, 10, 12)
    assert shapes(tables) == [(3, height, width) for height in sides for width in sides]
    assert np.array_equal(tables[6].columns, X[:, :, 10:20, 20:32])


@pytest.mark.parametrize("grid", [(2, 3), [2, 3]])
def test_patches_of_an_explicit_grid(grid: Any) -> None:
    assert shapes(split(images(4, 9), Y, grid, by="patches")) == [(2, 3)] * 6


def test_apfeds_bands_are_equal_and_drop_the_rest() -> None:
    X = images(28, 28)
    tables = split(X, Y, 3, by="bands")
    assert shapes(tables) == [(9, 28)] * 3
    assert np.array_equal(tables[3].columns, X[:, 18:27])


def test_vims_hundred_overlapping_windows() -> None:
    X = images(28, 28)
    tables = split(X, Y, 100, by="overlap", width=14)
    assert shapes(tables) == [(14,)] * 100
    flat = X.reshape(ROWS, -1)
    assert np.array_equal(tables[1].columns, flat[:, :14])
    assert np.array_equal(tables[100].columns, flat[:, -14:])
    assert tables[1].scale == Scale()


def test_windows_cover_all_columns_at_even_distances() -> None:
    starts = [first[0] for first in held(split(table(784), Y, 100, by="overlap", width=14))]
    assert {after - before for before, after in pairwise(starts)} == {7.0, 8.0}


def test_views_are_evenly_spaced_or_as_listed() -> None:
    X = images(12, 4, 4)
    evenly = split(X, Y, 4, by="views")
    assert [np.array_equal(t.columns, X[:, view]) for t, view in zip(evenly[1:], (0, 3, 6, 9), strict=True)] == [
        True
    ] * 4
    assert shapes(split(X, Y, [11, [0, 1, 2]], by="views")) == [(4, 4), (3, 4, 4)]


def test_column_lists_may_overlap_and_come_in_any_order() -> None:
    assert held(split(table(5), Y, [[0, 1], [4, 1], range(1, 5)])) == [[0, 1], [4, 1], [1, 2, 3, 4]]


def test_a_mapping_names_the_parties() -> None:
    tables = split(table(5), Y, {"bank": [0, 1], "shop": [2]})
    assert [t.name for t in tables] == ["owner", "bank", "shop"]


def test_columns_by_name() -> None:
    frame = pd.DataFrame(table(3), columns=["age", "income", "debt"])
    tables = split(frame, Y, {"bank": ["debt", "age"], "shop": "income"})
    assert held(tables) == [[2, 0], [1]]
    assert [t.column_names for t in tables] == [(), ("debt", "age"), ("income",)]


def test_column_names_follow_an_even_split() -> None:
    assert split(table(3), Y, 2, column_names=["a", "b", "c"])[1].column_names == ("a", "b")


# The owner


def test_the_owner_with_labels_only() -> None:
    owner, *others = split(table(4), Y, 2, classes=("no", "yes"))
    assert (owner.name, owner.columns, owner.labels.tolist(), owner.classes) == (
        "owner",
        None,
        Y.tolist(),
        ("no", "yes"),
    )
    assert [t.name for t in others] == ["party 1", "party 2"]
    assert [t.labels for t in others] == [None, None]


def test_the_owner_with_the_first_part() -> None:
    owner, *others = tables = split(table(4), Y, 2, owner="first")
    assert (owner.name, owner.shape, owner.labels.tolist()) == ("owner", (2,), Y.tolist())
    assert [t.name for t in others] == ["party 2"]
    check_federation(tables)


def test_the_owner_keeps_its_name_in_a_mapping() -> None:
    assert [t.name for t in split(table(4), Y, {"bank": [0], "shop": [1]}, owner="first")] == ["bank", "shop"]


# Nothing is copied


@pytest.mark.parametrize(
    ("X", "options"),
    [
        (table(784), {"parties": 14}),
        (table(9), {"parties": [[0, 1, 2], [1, 3, 5], [8]]}),
        (images(28, 28), {"parties": 14}),
        (images(3, 32, 32), {"parties": 9, "by": "patches"}),
        (images(28, 28), {"parties": 3, "by": "bands"}),
        (images(28, 28), {"parties": 100, "by": "overlap", "width": 14}),
        (images(12, 8, 8), {"parties": 4, "by": "views"}),
    ],
)
def test_parties_are_views_of_the_one_array(X: np.ndarray, options: dict[str, Any]) -> None:
    start = X.__array_interface__["data"][0]
    for party in split(X, Y, **options)[1:]:
        assert party.columns.untyped_storage().data_ptr() == start
        assert party.columns.dtype == (torch.uint8 if X.dtype == np.uint8 else torch.float32)


def test_other_numbers_are_converted_once_for_all() -> None:
    tables = split(table(4).astype(np.float64), Y, 2)
    assert tables[1].columns.dtype == torch.float32
    assert tables[1].columns.untyped_storage().data_ptr() == tables[2].columns.untyped_storage().data_ptr()


def test_a_tensor_is_shared_too() -> None:
    X = torch.zeros(ROWS, 4)
    assert split(X, Y, 2)[2].columns.data_ptr() == X[:, 2:].data_ptr()


def test_ids_are_row_numbers_and_shared() -> None:
    tables = split(table(4), Y, 2)
    assert tables[0].ids.tolist() == list(range(ROWS))
    assert all(t.ids is tables[0].ids for t in tables)


def test_given_ids_are_kept() -> None:
    assert split(table(4), Y, 2, ids=list("abcdef"))[2].ids.tolist() == list("abcdef")


# Scales


@pytest.mark.parametrize(("X", "scale"), [(images(4, 4), Scale()), (table(4), None), (table(4).astype(np.uint8), None)])
def test_only_uint8_images_are_scaled_by_default(X: np.ndarray, scale: Scale | None) -> None:
    assert split(X, Y, 2)[1].scale == scale


def test_a_scale_per_channel_reaches_every_patch() -> None:
    scale = Scale(255.0, (0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    X = images(3, 4, 4)
    drawn = split(X, Y, 4, by="patches", scale=scale)[4].draw(torch.tensor([1]))
    expected = (X[1:2, :, 2:, 2:] / 255 - np.array(scale.mean).reshape(3, 1, 1)) / np.array(scale.std).reshape(3, 1, 1)
    np.testing.assert_allclose(drawn, expected, atol=1e-5)


# Mistakes

MISTAKES = [
    (table(4), {"parties": 5}, "5 parties cannot share 4 columns; give at most 4."),
    (table(4), {"parties": 0}, "parties is 0; give at least 1."),
    (table(4), {"parties": -1}, "parties is -1; give at least 1."),
    (images(4, 9), {"parties": 5}, "5 parties cannot share 4 image rows; give at most 4."),
    (images(4, 9), {"parties": 5, "by": "bands"}, "5 parties cannot share 4 image rows; give at most 4."),
    (images(4, 9), {"parties": 5, "by": "views"}, "5 parties cannot share 4 views; give at most 4."),
    (images(4, 9), {"parties": 25, "by": "patches"}, "5 parties cannot share 4 pixels along one side"),
    (images(9, 9), {"parties": 10, "by": "patches"}, "10 patches form no square; .* a grid such as \\(2, 5\\)."),
    (images(9, 9), {"parties": 0, "by": "patches"}, "parties is 0; give at least 1."),
    (images(9, 9), {"parties": (0, 3), "by": "patches"}, "parties is 0; give at least 1."),
    (images(9, 9), {"parties": [[1], [2]], "by": "patches"}, "takes a square number or a grid"),
    (images(9, 9), {"parties": [[1], [2]], "by": "bands"}, "takes a number of parties"),
    (table(4), {"parties": 2, "by": "overlap"}, "width is the number of columns in a window"),
    (table(4), {"parties": 2, "width": 2}, "only there, but by is 'columns'"),
    (table(4), {"parties": 2, "by": "overlap", "width": 5}, "width is 5, but there are 4 columns"),
    (table(4), {"parties": 4, "by": "overlap", "width": 2}, "4 parties cannot share 3 windows of 2 columns"),
    (table(4), {"parties": 2, "by": "colums"}, "unknown way to split 'colums'; did you mean 'columns'?"),
    (table(4), {"parties": 2, "by": "rows"}, "needs an X of at least 3 dimensions"),
    (table(4)[:, 0], {"parties": 1}, "needs an X of at least 2 dimensions"),
    (table(4), {"parties": 2, "owner": "frist"}, "unknown owner 'frist'; did you mean 'first'?"),
    (table(4), {"parties": {"owner": [0], "b": [1]}}, "a party is named 'owner'"),
    (table(4), {"parties": [[0], [4]]}, "holds 4, but X has 4; count from 0 to 3."),
    (table(4), {"parties": [[0], [-1]]}, "holds -1, but X has 4"),
    (table(4), {"parties": [[0], []]}, "list of columns is empty"),
    (table(4), {"parties": []}, "parties is empty"),
    (table(4), {"parties": [[True, False, True, False]]}, "holds True; give numbers from 0"),
    (table(4), {"parties": [[0.5]]}, "holds 0.5; give numbers from 0"),
    (table(4), {"parties": "4"}, "takes a number, a list or a mapping, but parties is '4'"),
    (table(4), {"parties": 2.5}, "takes a number, a list or a mapping, but parties is 2.5"),
    (table(2), {"parties": [["ages"]], "column_names": ["age", "sex"]}, "unknown column 'ages'; did you mean 'age'?"),
    (table(4), {"parties": 2, "column_names": ["a"]}, "1 column_names came for an X of shape \\(6, 4\\)"),
    (images(3, 4, 4), {"parties": 2, "scale": Scale(255.0, (0.5, 0.5))}, "the scale is for 2 channels"),
    (images(3, 4, 4), {"parties": 2, "by": "views", "scale": Scale(255.0, (0.5,) * 3)}, "takes the channels apart"),
]


@pytest.mark.parametrize(("X", "options", "message"), MISTAKES)
def test_a_mistake_is_one_sentence(X: np.ndarray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split(X, Y, **options)


@pytest.mark.parametrize("y", [[0, 1], None])
def test_labels_that_do_not_match(y: Any) -> None:
    with pytest.raises(TableError, match=f"X has 6 rows but y has {len(y or [])} labels"):
        split(table(4), y, 2)


def test_text_names_its_column() -> None:
    frame = pd.DataFrame({"age": [1, 2], "job": ["cook", "nurse"]})
    with pytest.raises(TableError, match="column 'job' of table 'party 2' holds 'cook'"):
        split(frame, [0, 1], 2)


def test_text_labels_are_refused() -> None:
    with pytest.raises(TableError, match="labels"):
        split(table(4), list("ababab"), 2)
