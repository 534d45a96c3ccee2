"""Rows that not every party has: what a table keeps of them, what is refused, and who is asked about them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade.core.method import Turn
from colonnade.core.schedule import Schedule
from colonnade.core.table import Table, check_federation, common_rows, is_partial
from colonnade.errors import ConfigError, TableError
from colonnade.study.noisy_tables import shuffled

IDS = ["ann", "bob", "cid", "dan"]
COLUMNS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]
KNOWN = [True, False, True, True]


def shop(**more: object) -> Table:
    return Table(IDS, COLUMNS, name="shop", **{"known": KNOWN, **more})


def owner() -> Table:
    return Table(IDS, [[0.5]] * 4, labels=[0, 1, 0, 1], name="owner")


def test_the_columns_of_unknown_rows_are_zeros_and_the_given_array_is_left_alone() -> None:
    columns = torch.tensor(COLUMNS)
    table = Table(IDS, columns, known=KNOWN)
    assert table.columns.tolist() == [[1, 2], [0, 0], [5, 6], [7, 8]] and columns.tolist() == COLUMNS


def test_a_mask_that_knows_all_is_no_mask() -> None:
    table = Table(IDS, COLUMNS, known=np.ones(4, bool))
    assert table.known is None and table.known_rows.all() and not is_partial([table])


def test_taking_rows_filters_what_is_known_and_keeps_rows_of_its_own() -> None:
    table = shop(unaligned=[[9.0, 9.0]])
    assert table.take([3, 1]).known.tolist() == [True, False]
    assert table.take([0, 2]).known is None
    assert table.take([1]).unaligned.tolist() == [[9.0, 9.0]]


def test_unaligned_rows_have_the_scale_of_the_columns() -> None:
    pixels = np.full((4, 2), 255, np.uint8)
    table = Table(IDS, pixels, scale=cn.Scale(unit=255.0), unaligned=pixels[:1])
    assert table.draw_unaligned().tolist() == [[1.0, 1.0]]  # type: ignore[union-attr]
    assert Table(IDS, COLUMNS, unaligned=np.empty((0, 2))).draw_unaligned() is None


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"known": [True, False]}, "4 ids but known says something of 2 rows"),
        ({"known": [1, 0, 1, 1]}, "give one bool per row"),
        ({"known": KNOWN, "columns": None}, "no columns, so known says nothing"),
        ({"unaligned": [[1.0]]}, "prepare both alike"),
        ({"unaligned": np.zeros((1, 2), np.uint8)}, "prepare both alike"),
        ({"unaligned": [[1.0, float("nan")]]}, "NaN or infinite"),
        ({"unaligned": [[1.0, 2.0]], "columns": None}, "give both, or neither"),
    ],
)
def test_a_wrong_mask_or_wrong_rows_are_refused(table: dict[str, object], words: str) -> None:
    with pytest.raises(TableError, match=words):
        Table(IDS, **{"columns": COLUMNS, "name": "shop", **table})


def test_the_owner_knows_all_of_its_rows() -> None:
    check_federation([owner(), shop()])
    with pytest.raises(TableError, match="the owner's table 'owner' does not know 1 of its rows"):
        check_federation([replace(owner(), known=torch.tensor(KNOWN)), shop()])


def test_common_rows_are_those_that_everybody_knows() -> None:
    other = Table(IDS, COLUMNS, name="bank", known=[True, True, False, True])
    few = common_rows([owner(), shop(), other])
    assert [table.ids.tolist() for table in few] == [["ann", "dan"]] * 3 and not is_partial(few)
    with pytest.raises(TableError, match="no row is known to all of shop, bank"):
        common_rows(
            [
                owner(),
                shop(known=[True, False, False, False]),
                replace(other, known=~torch.tensor([1, 0, 0, 0], dtype=torch.bool)),
            ]
        )


def test_a_shuffled_table_mixes_only_rows_that_the_party_has() -> None:
    mixed = shuffled(shop(), 0)
    assert mixed.columns[1].tolist() == [0, 0]
    assert sorted(mixed.columns.tolist()) == sorted(shop().columns.tolist())


# methods


def test_a_method_that_needs_every_row_refuses_and_names_those_that_do_not() -> None:
    with pytest.raises(TableError, match=r"'shop' does not know 1 of its 4 rows.*cn\.common_rows.*local"):
        cn.train([owner(), shop()], "splitnn", batch=2, rounds=1)


def test_a_party_that_knows_no_row_is_refused() -> None:
    with pytest.raises(TableError, match="'shop' knows none of the 4 rows"):
        cn.train([owner(), shop(known=[False] * 4)], "local", batch=2, rounds=1)


@pytest.mark.parametrize("method", ["gal", "laser"])
def test_a_party_whose_rows_are_all_held_out_is_refused(method: str) -> None:
    held_out = Schedule(4, 1, seed=0, valid=0.5).valid_rows
    known = [k in held_out.tolist() for k in range(4)]
    with pytest.raises(TableError, match=r"'shop' knows none of the 2 rows to train on; .* hold out fewer rows"):
        cn.train([owner(), shop(known=known)], method, rounds=1, valid=0.5)


def test_a_party_with_fewer_rows_than_folds_is_named() -> None:
    with pytest.raises(ConfigError, match="'shop' knows 3 of 4 rows to train on; oneshot: 3 rows are too few"):
        cn.train([owner(), shop()], cn.OneShot(folds=2))


def test_a_trained_model_refuses_rows_that_its_method_would_need() -> None:
    run = cn.train([owner(), shop(known=None)], "splitnn", batch=2, rounds=1)
    with pytest.raises(TableError, match="does not know 1 of its 4 rows"):
        run.evaluate([owner(), shop()])


def test_select_refuses_rows_that_not_everybody_has() -> None:
    with pytest.raises(TableError, match="select on the common ones"):
        cn.select([owner(), shop(), replace(shop(), name="bank")], count=1)


@pytest.mark.parametrize("runtime", ["loop", "fused", "bytes", "apart"])
def test_owner_and_parties_agree_on_who_knows_what(runtime: str) -> None:
    tables = [owner(), shop(), replace(shop(), name="bank", known=torch.tensor([False, True, True, True]))]
    run = cn.train(tables, "local", batch=2, rounds=1, runtime=runtime)
    turn = Turn(0, torch.tensor([1, 0]))
    assert run.owner.known(turn).tolist() == [[True, True], [False, True], [True, False]]
    run.owner.absent = frozenset([2])
    assert run.owner.known(turn)[2].tolist() == [False, False]
    for group in getattr(run.parties.backend, "_local", run.parties.backend).grouping.groups:
        assert torch.equal(group.known(turn).reshape(-1, 2), run.owner.masks["train"][group.members][:, [1, 0]])


def test_a_resumed_run_wants_the_same_known_rows(tmp_path: object) -> None:
    cn.train([owner(), shop()], "local", batch=2, rounds=1, folder=tmp_path)
    cn.resume(tmp_path, [owner(), shop()])
    with pytest.raises(cn.ColonnadeError, match="foreign"):
        cn.resume(tmp_path, [owner(), shop(known=[True, True, False, True])])
