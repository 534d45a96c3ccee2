"""Tables and federations: what is kept, what is refused, and that every refusal says why."""

from __future__ import annotations

import datetime
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.core.table import Scale, Table, check_classes, check_federation, parties_of
from colonnade.errors import ColonnadeError, TableError

IDS = ["ann", "bob", "cid"]
COLUMNS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def federation() -> list[Table]:
    return [
        Table(IDS, labels=[0, 1, 0], name="owner"),
        Table(IDS, COLUMNS, name="bank"),
        Table(IDS, COLUMNS, name="shop"),
    ]


# What a table keeps


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int32, np.uint16, np.int64])
def test_numbers_become_float32(kind: type) -> None:
    table = Table(IDS, np.array(COLUMNS, dtype=kind))
    assert table.columns.dtype == torch.float32
    assert table.columns.tolist() == COLUMNS
    assert (table.rows, table.shape) == (3, (2,))


def test_pixels_stay_uint8_and_stay_a_view() -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    table = Table(IDS, pixels)
    assert table.columns.dtype == torch.uint8 and table.shape == (2, 2)
    pixels[0, 0, 0] = 200
    assert table.columns[0, 0, 0] == 200


def test_yes_and_no_become_uint8() -> None:
    assert Table(IDS, np.array([[True], [False], [True]])).columns.dtype == torch.uint8


def test_numbers_written_as_text_are_numbers() -> None:
    assert Table(IDS, [["1", "2.5"], ["3", "4"], ["5", "6e1"]]).columns[2].tolist() == [5.0, 60.0]


def test_labels_become_class_numbers() -> None:
    for labels in ([0, 2, 1], [0.0, 2.0, 1.0], torch.tensor([0, 2, 1], dtype=torch.uint8), np.array([0, 2, 1], "i2")):
        table = Table(IDS, labels=labels)
        assert table.labels.dtype == torch.int64
        assert table.labels.tolist() == [0, 2, 1]
    assert Table(IDS, labels=[True, False, True]).labels.tolist() == [1, 0, 1]


def test_a_table_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Table(IDS, COLUMNS).name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "columns",
    [
        np.array(COLUMNS)[:, ::-1],
        np.broadcast_to(np.float32(1), (3, 2)),
        np.array(COLUMNS, dtype=">f4"),
        np.array(COLUMNS, dtype=np.longdouble),
        np.asfortranarray(COLUMNS),
        np.array(COLUMNS, dtype=object),
        torch.tensor(COLUMNS, requires_grad=True),
    ],
    ids=["reversed", "read-only", "big-endian", "long double", "fortran", "objects", "gradient"],
)
def test_any_array_of_numbers_will_do(columns: Any) -> None:
    table = Table(IDS, columns)
    assert table.columns.dtype == torch.float32
    assert table.columns.tolist() == np.asarray(torch.as_tensor(table.columns).detach()).tolist()
    assert np.array_equal(table.columns.detach().numpy(), np.array(columns.tolist(), dtype=np.float32))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 2])[::-1],
        pytest.param(np.array([0, 1, 2], ">i4")),
        pytest.param(np.array([0, 1, 2], "g")),
        pytest.param(np.broadcast_to(np.arange(3), (2, 3))[0]),
    ],
    ids=["reversed", "big-endian", "long double", "read-only"],
)
def test_any_array_of_class_numbers_will_do(labels: Any) -> None:
    assert Table(IDS, labels=labels).labels.tolist() == labels.tolist()


# Drawing


def test_draw_gives_float32_rows_in_the_order_asked() -> None:
    drawn = Table(IDS, np.array([[1], [2], [3]], dtype=np.uint8)).draw(torch.tensor([2, 0]))
    assert drawn.dtype == torch.float32
    assert drawn.tolist() == [[3.0], [1.0]]


def test_draw_scales() -> None:
    table = Table(IDS, np.array([[0, 255], [51, 102], [1, 2]], dtype=np.uint8), scale=Scale(255.0, 0.5, 0.25))
    expected = torch.tensor([[-2.0, 2.0], [-1.2, -0.4]])
    assert torch.allclose(table.draw(torch.tensor([0, 1])), expected, atol=1e-6)
    assert table.columns[0].tolist() == [0, 255]  # the table itself is untouched


def test_draw_scales_every_channel_by_its_own() -> None:
    pixels = np.full((3, 2, 1, 1), 10, dtype=np.uint8)
    table = Table(IDS, pixels, scale=Scale(10.0, (0.0, 0.5), (1.0, 0.5)))
    assert table.draw(torch.tensor([1])).flatten().tolist() == [1.0, 1.0]
    table = Table(IDS, pixels, scale=Scale(5.0, (0.0, 1.0), (1.0, 0.5)))
    assert table.draw(torch.tensor([1])).flatten().tolist() == [2.0, 2.0]


def test_scaling_numbers_leaves_them_as_they_were() -> None:
    table = Table(IDS, COLUMNS, scale=Scale(2.0))
    assert table.draw(torch.tensor([0])).tolist() == [[0.5, 1.0]]
    assert table.columns.tolist() == COLUMNS


def test_scale_takes_numpy_numbers() -> None:
    assert Scale(1.0, np.float32(0.5), 1.0)(torch.ones(2, 3)).shape == (2, 3)


# Taking


def test_take_is_a_copy_of_some_rows_in_order() -> None:
    whole = Table(IDS, COLUMNS, labels=[0, 1, 2], name="bank", scale=Scale(2.0), origin={"load": "digits"})
    part = whole.take([2, 0])
    assert part.ids.tolist() == ["cid", "ann"]
    assert part.columns.tolist() == [[5.0, 6.0], [1.0, 2.0]]
    assert part.labels.tolist() == [2, 0]
    assert (part.name, part.scale, part.origin) == ("bank", Scale(2.0), None)  # it is no longer what load gave
    part.columns.zero_()
    assert whole.columns.tolist() == COLUMNS


def test_take_with_a_mask_or_a_tensor() -> None:
    table = Table(IDS, labels=[0, 1, 2])
    assert table.take([True, False, True]).ids.tolist() == ["ann", "cid"]
    assert table.take(torch.tensor([1])).labels.tolist() == [1]
    assert table.take(np.array([1])).columns is None


@pytest.mark.parametrize(
    "rows",
    [
        [0, 0],
        [False, False, False],
        [],
        [3],
    ],
    ids=["twice", "none by mask", "none", "out of range"],
)
def test_rows_that_cannot_be_taken(rows: list[Any]) -> None:
    with pytest.raises(TableError):
        Table(IDS, COLUMNS).take(rows)


@pytest.mark.parametrize("rows", [[True], [0.5], "all"], ids=str)
def test_rows_that_make_no_sense(rows: Any) -> None:
    with pytest.raises(TableError):
        Table(IDS, COLUMNS).take(rows)


def test_take_in_reverse() -> None:
    assert Table(IDS, COLUMNS).take(np.arange(3)[::-1]).ids.tolist() == IDS[::-1]


def test_ragged_labels() -> None:
    with pytest.raises(TableError):
        Table(IDS, labels=[[0], [0, 1], [1]])


# Tables that are refused


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ids": []}, "table 'bank' is empty"),
        ({"ids": [[1, 2]]}, "ids of table 'bank' have 2 dimensions"),
        ({"ids": 3}, "ids of table 'bank' have 0 dimensions"),
        ({"ids": ["ann", "bob", "ann"]}, "has the id 'ann' twice"),
        ({"ids": [7, 5, 5]}, "has the id '5' twice"),
        ({"ids": ["ann", None, "cid"]}, "id"),
        ({"columns": COLUMNS[:2]}, "3 ids but 2 rows of columns"),
        ({"columns": [1.0, 2.0, 3.0]}, "columns of table 'bank' have 1 dimensions"),
        ({"columns": np.zeros((3, 0))}, r"no columns in its rows \(shape \(3, 0\)\)"),
        ({"columns": [["a"], ["b"], ["c"]]}, "column 0 of table 'bank' holds 'a', which"),
        ({"columns": [["a"], ["b"], ["c"]]}, "column 0 of table 'bank' holds .*a.*, which is not a number"),
        ({"columns": [["1", "x"], ["2", "y"], ["3", "4"]]}, "column 1 of table 'bank' holds .*x"),
        ({"columns": [[1, None], [2, 3], [4, 5]]}, "column 1 of table 'bank' holds NaN"),
        ({"columns": [[1, datetime.date(2024, 1, 1)]] * 3}, "column 1 of table 'bank' holds datetime.date"),
        ({"columns": np.array([["2024-01-01"]] * 3, dtype="M8[D]")}, "column 0"),
        ({"columns": np.array(["a", "b", "c"])}, "are not numbers"),
        ({"columns": [[1.0, np.nan], [1.0, 2.0], [1.0, 2.0]]}, "column 1 of table 'bank' holds NaN or infinite"),
        ({"columns": [[1.0, 2.0], [1.0, 2.0], [-np.inf, 2.0]]}, "column 0 of table 'bank' holds NaN or infinite"),
        ({"columns": [[1e39], [0.0], [0.0]]}, "column 0 of table 'bank' holds NaN or infinite"),
        ({"columns": [[1.0, 2.0], [3.0], [4.0]]}, "rows"),
        ({"columns": np.array([[10**400]] * 3, dtype=object)}, "column 0"),
        ({"columns": np.array([[1j]] * 3)}, "column 0"),
        ({"labels": [0, 1]}, "3 ids but 2 rows of labels"),
        ({"labels": ["yes", "no", "yes"]}, "labels of table 'bank' hold .*'yes'"),
        ({"labels": [None, 1, 0]}, "labels of table 'bank' hold None"),
        ({"labels": [[0], [1], [0]]}, "labels of table 'bank' have 2 dimensions"),
        ({"labels": np.zeros((3, 2, 2))}, "labels of table 'bank' have 3 dimensions"),
        ({"labels": [np.nan, 1, 0]}, "labels of table 'bank' hold NaN"),
        ({"labels": [np.inf, 1.5, 0]}, "labels of table 'bank' hold NaN or infinite"),
        ({"labels": []}, "0 rows of labels"),
    ],
)
def test_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(TableError, match=why):
        Table(**{"ids": IDS, "name": "bank", **given})


def test_a_bad_column_is_called_by_its_name() -> None:
    with pytest.raises(TableError, match=r"column 'age' of table 'bank' holds .*old"):
        Table(IDS, [[1, "old"]] * 3, name="bank", column_names=("id", "age"))
    with pytest.raises(TableError, match="column 'age' of table 'bank' holds NaN"):
        Table(IDS, [[1, np.nan]] * 3, name="bank", column_names=("id", "age"))


def test_errors_can_be_caught_at_the_edge() -> None:
    with pytest.raises(ColonnadeError):
        Table([])
    with pytest.raises(ValueError, match="empty"):
        Table([])


# Federations


def test_a_good_federation_and_its_parties() -> None:
    tables = federation()
    check_federation(tables)
    assert [table.name for table in parties_of(tables)] == ["bank", "shop"]
    tables[0] = replace(tables[0], columns=COLUMNS)
    check_federation(tables)
    assert [table.name for table in parties_of(tables)] == ["owner", "bank", "shop"]


def test_rows_to_predict_need_no_labels() -> None:
    tables = federation()
    check_federation([Table(IDS, name="owner"), *tables[1:]], labelled=False)
    check_federation(tables[1:], labelled=False)


def changed(position: int, **changes: Any) -> list[Table]:
    tables = federation()
    return [*tables[:position], replace(tables[position], **changes), *tables[position + 1 :]]


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ([], "no federation came"),
        ([1, 2], "holds a int"),
        ([*federation(), "shop"], "holds a str"),
        (changed(0, labels=None), "owner's table 'owner' has no labels"),
        (federation()[::-1], "owner's table 'shop' has no labels; put the table with labels first"),
        (changed(1, labels=[0, 1, 1]), "table 'bank' has labels too; only the owner's, 'owner', may"),
        (changed(1, columns=None), "table 'bank' has no columns"),
        (changed(2, ids=IDS[:2], columns=COLUMNS[:2]), "table 'shop' has 2 rows, the owner's has 3"),
        (changed(2, ids=["ann", "bob", "dan"]), "ids of table 'shop' differ"),
        (changed(2, ids=["bob", "ann", "cid"]), "ids of table 'shop' differ"),
        (changed(2, ids=[1, 2, 3]), "ids of table 'shop' differ"),
        (changed(1, name="Käserei"), "table name 'Käserei' cannot travel"),
        (changed(1, name=""), "table name '' cannot travel"),
        (changed(1, name="a\nb"), "cannot travel"),
        (changed(1, name="x" * 65), "cannot travel"),
        (changed(1, name="shop"), "two tables have the same name"),
        (federation()[:1], "no table has columns"),
        (changed(1, name=5), "cannot travel"),
        (federation()[0], "list of"),
        (changed(0, name="me")[:1] + changed(1, name="owner")[1:], "owner"),
    ],
)
def test_federations_that_are_refused(tables: Any, why: str) -> None:
    with pytest.raises(TableError, match=why):
        check_federation(tables)


def test_classes() -> None:
    assert check_classes(torch.tensor([0, 1, 1]), "owner") == 2
    assert check_classes(torch.tensor([0, 4]), "owner") == 5
    with pytest.raises(TableError, match=r"labels of table 'owner' hold one class only \(\[1\]\)"):
        check_classes(torch.tensor([1, 1]), "owner")


def test_numbers_that_are_no_class_numbers() -> None:
    with pytest.raises(TableError):
        check_classes(torch.tensor([0, 10_000_000]), "owner")
    with pytest.raises(TableError, match=r"hold -1; class numbers start at 0, other numbers .* task='values'"):
        check_classes(torch.tensor([0, -1, 1]), "owner")
    with pytest.raises(TableError, match="are not class numbers"):
        check_classes(torch.tensor([0.5, 1.0]), "owner")


def test_labels_may_be_values_or_several() -> None:
    values = Table(IDS, labels=[0.5, -1.0, 2.0]).labels
    assert values.dtype == torch.float64 and values.tolist() == [0.5, -1.0, 2.0]
    several = Table(IDS, labels=[[0, 1], [1.0, 1], [0, 0]])
    assert several.labels.dtype == torch.int64 and several.take([2, 1]).labels.tolist() == [[0, 0], [1, 1]]
    assert Table(IDS, labels=[-3, 0, 7]).labels.tolist() == [-3, 0, 7]  # whether they are classes is asked in training
    assert Table(IDS, labels=[1e300, 1.0, 2.0]).labels.dtype == torch.float64
