"""The ledger counts facts: messages and bytes by party, step and purpose."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from colonnade.wire.ledger import OWNER, Ledger, Line
from colonnade.wire.message import Size


@pytest.fixture
def ledger() -> Ledger:
    book = Ledger()
    book.record("train", "embed", "bank", OWNER, Size(100, 10))
    book.record("train", "embed", "shop", OWNER, Size(200, 11))
    book.record("train", "follow", OWNER, "bank", Size(100, 12))
    book.record("train", "embed", "bank", OWNER, Size(50, 10))
    book.record("evaluate", "embed", "bank", OWNER, Size(7, 10))
    return book


def test_an_empty_ledger() -> None:
    book = Ledger()
    assert (book.total, book.payload, book.rows, book.by_party, book.by_step, book.by_purpose) == (0, 0, [], {}, {}, {})
    assert book.bytes_for("train") == 0


def test_one_line_per_kind_of_message_in_order_of_first_occurrence(ledger: Ledger) -> None:
    assert ledger.rows == [
        Line("train", "embed", "bank", OWNER, messages=2, payload=150, overhead=20, summed=False),
        Line("train", "embed", "shop", OWNER, messages=1, payload=200, overhead=11, summed=False),
        Line("train", "follow", OWNER, "bank", messages=1, payload=100, overhead=12, summed=False),
        Line("evaluate", "embed", "bank", OWNER, messages=1, payload=7, overhead=10, summed=False),
    ]
    assert ledger.rows[0].total == 170


def test_sums(ledger: Ledger) -> None:
    assert ledger.total == 510
    assert ledger.payload == 457
    assert ledger.by_party == {"bank": 299, "shop": 211}  # a party's bytes are those it sent and those it received
    assert ledger.by_step == {"embed": 398, "follow": 112}
    assert ledger.by_purpose == {"train": 493, "evaluate": 17}
    assert ledger.bytes_for("train") == 493
    assert ledger.bytes_for("predict") == 0


def test_every_way_to_sum_gives_the_total(ledger: Ledger) -> None:
    for sums in (ledger.by_party, ledger.by_step, ledger.by_purpose):
        assert sum(sums.values()) == ledger.total


def test_csv(ledger: Ledger) -> None:
    text = ledger.to_csv()
    assert text.splitlines()[:2] == [
        "purpose,step,sender,receiver,messages,payload,overhead,summed",
        "train,embed,bank,owner,2,150,20,False",
    ]
    assert len(text.splitlines()) == 5 and text.endswith("\n") and "\r" not in text


def test_csv_quotes_names() -> None:
    book = Ledger()
    book.record("train", "embed", 'bank, "north"', OWNER, Size(1, 2))
    (row,) = csv.DictReader(io.StringIO(book.to_csv()))
    assert row["sender"] == 'bank, "north"'


def test_json_and_back_counts_on(ledger: Ledger) -> None:
    other = Ledger()
    other.record("train", "forgotten", "bank", OWNER, Size(1, 1))
    other.replace(json.loads(json.dumps(ledger.to_json())))
    assert other.rows == ledger.rows
    other.record("train", "embed", "bank", OWNER, Size(50, 10))
    assert other.rows[0].messages == 3
    assert ledger.rows[0].messages == 2  # a copy, not the same lines


# asked one by one, or summed


@pytest.mark.parametrize("order", [(True, True), (False, True), (True, False), (False, False)])
def test_one_message_that_was_asked_for_by_itself_settles_the_line(order: tuple[bool, bool]) -> None:
    book, other = Ledger(), Ledger()
    for summed in order:
        book.record("train", "embed", "bank", OWNER, Size(1, 1), summed=summed)
        single = Ledger()
        single.record("train", "embed", "bank", OWNER, Size(1, 1), summed=summed)
        other.add(single)
    assert book.rows == other.rows == [Line("train", "embed", "bank", OWNER, 2, 2, 2, summed=all(order))]


def older(ledger: Ledger) -> list[dict[str, Any]]:
    """The lines as versions before the field gave them."""
    return [{key: value for key, value in row.items() if key != "summed"} for row in ledger.to_json()]


def test_of_an_older_ledger_it_is_not_known_what_was_summed(ledger: Ledger) -> None:
    book = Ledger()
    book.replace(older(ledger))
    assert {line.summed for line in book.rows} == {None} and book.total == ledger.total
    assert book.to_csv().splitlines()[1] == "train,embed,bank,owner,2,150,20,"
    book.record("train", "embed", "bank", OWNER, Size(1, 1), summed=True)
    assert book.rows[0].summed is None, "the messages before may have been asked for one by one"
    book.record("train", "embed", "bank", OWNER, Size(1, 1), summed=False)
    assert book.rows[0].summed is False
    assert json.loads(json.dumps(book.to_json())) == book.to_json()


def test_what_came_since_says_what_was_summed() -> None:
    book = Ledger()
    book.record("train", "embed", "bank", OWNER, Size(1, 1), summed=True)
    before = book.to_json()
    book.record("train", "embed", "bank", OWNER, Size(1, 1), summed=True)
    assert book.since(before).rows == [Line("train", "embed", "bank", OWNER, 1, 1, 1, summed=True)]
