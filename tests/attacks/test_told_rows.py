"""A split by the owner's dates: an owner that tells a party one set of training rows after another.

How wide a party's prepared columns are follows from its training rows. Who may name these again and again learns who
shares a category with whom, and before that nothing is counted but one run.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from colonnade.core.schedule import Schedule
from colonnade.errors import ManifestError, PrivacyError
from colonnade.federation.job_parts import check_enough
from colonnade.federation.owner_handshake import CommonRows
from colonnade.federation.party_counts import OnlyQuestion
from colonnade.federation.told_rows import told_rows
from colonnade.tables.prepare.row_parts import RowParts
from near import Sides

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

SPLIT = '[prepare]\ncategories = "embed"\nsplit = {column = "called", after = "2024-06"}'
JOB = {"align": 'mode = "plain"', "more": SPLIT}
TOWNS = "Ghent", "Bruges", "Ypres"


def rewrite(path: Path, column: str, values: list[str]) -> None:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], column])
        writer.writeheader()
        writer.writerows({**row, column: value} for row, value in zip(rows, values, strict=True))


@pytest.fixture
def sides(sides: Sides) -> Sides:
    """The bank has dates, and the shop the town of everybody."""
    sides.write_parties('align = ["plain"]')
    rewrite(sides.folder / "bank" / "table.csv", "called", [f"2024-{1 + k % 12:02d}" for k in range(40)])
    draws = np.random.default_rng(5).integers(len(TOWNS), size=40)
    rewrite(sides.folder / "shop" / "table.csv", "town", [TOWNS[k] for k in draws])
    rewrite(sides.folder / "mill" / "table.csv", "kind", ["old" if k % 2 else "new" for k in range(40)])
    return sides


def towns_of(sides: Sides) -> dict[str, str]:
    with (sides.folder / "shop" / "table.csv").open() as file:
        return {row["id"]: row["town"] for row in csv.DictReader(file)}


class Asker:
    """An owner that says ``prepare`` about training rows of its choice, and reads what the answer tells of them."""

    def __init__(self, sides: Sides, **more: str) -> None:
        self.host = sides.host(**{**JOB, **more})
        self.host.gather()
        self.aligned = self.host.session.aligned
        self.count = len(self.aligned.rows)

    def has_towns(self, *train: int) -> bool:
        """Whether the shop has a column of towns: it drops those that are the same in all rows."""
        rest = np.setdiff1d(np.arange(self.count), train)
        told = told_rows(RowParts(np.array(train), rest[:1]), self.count)
        handshake = self.host.session.handshake
        link = handshake.transport.links["shop"]
        link.shape = None
        handshake._say_prepare(link, CommonRows(self.aligned.proofs, len(train), 1, told))
        assert link.shape is not None
        return bool(link.shape["cardinalities"])

    def ids(self) -> list[str]:
        return [str(one) for one in self.host.session.sheet.ids_at(self.aligned.rows)]


def live_with_the_first(asker: Asker) -> list[bool]:
    return [not asker.has_towns(0, other) for other in range(1, asker.count)]


def test_an_owner_that_names_pairs_would_read_who_lives_with_whom(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = Asker(sides)
    try:
        with pytest.raises((PrivacyError, ManifestError), match="other rows to train and to test on"):
            live_with_the_first(asker)
        monkeypatch.setattr(OnlyQuestion, "__call__", lambda *_: None)  # the control: without the rule all is told
        found, towns, (first, *others) = live_with_the_first(asker), towns_of(sides), asker.ids()
    finally:
        asker.host.close()
    assert found == [towns[one] == towns[first] for one in others]
    assert 0 < sum(found) < len(found)


def test_a_run_may_not_be_about_a_few_chosen_people(sides: Sides) -> None:
    """A minimum of common rows means little if the owner may train on two of them."""
    sides.write_parties('align = ["plain"]\nminimum = 20')
    asker = Asker(sides, align='mode = "plain"\nminimum = 20')
    try:
        with pytest.raises(ManifestError, match="chose 2 rows of 'shop' to train on, where at least 20 must be common"):
            asker.has_towns(0, 1)
        asker.has_towns(*range(10))
    finally:
        asker.host.close()


@pytest.mark.parametrize("align", [{"join": "left"}, {"join": "left", "minimum": 7}])
def test_in_a_left_join_the_owner_chooses_too(align: dict[str, object]) -> None:
    """Its order decides which of a party's rows are to train on."""
    terms = {"align": align, "prepare": {}}
    parts, least = RowParts(np.arange(10), np.arange(10, 20)), None if "minimum" in align else 7
    for known, fits in ((3, False), (4, True)):
        rows = np.where(np.arange(20) < known, np.arange(20), -1)
        if fits:
            check_enough(parts, rows, terms, "shop", least)
        else:
            with pytest.raises(ManifestError, match="the owner chose 3 rows of 'shop'"):
                check_enough(parts, rows, terms, "shop", least)
    check_enough(parts, np.full(20, -1), {"align": {"minimum": 7}, "prepare": {}}, "shop", least)  # by the seed


@pytest.mark.parametrize("valid", [0.0, 0.8])
def test_an_owner_cannot_hold_out_all_others_to_validate(valid: float) -> None:
    """In a left join it orders its rows so that a party's own ones are held out, but for the few it wants to train on.

    Without rows held out the same order is harmless: the party trains on all that it has.
    """
    terms = {"align": {"join": "left", "minimum": 10}, "prepare": {}, "train": {"seed": 3, "valid": valid}}
    parts, order = RowParts(np.arange(40), np.arange(40, 42)), Schedule(40, 1, seed=3, valid=0.8)
    rows = np.full(42, -1)
    rows[order.valid_rows.numpy()] = np.arange(32)
    rows[order.train_rows.numpy()[:2]] = 32, 33
    if valid:
        with pytest.raises(ManifestError, match="the owner chose 2 rows of 'shop' to train on, where at least 10"):
            check_enough(parts, rows, terms, "shop", None)
    else:
        check_enough(parts, rows, terms, "shop", None)
