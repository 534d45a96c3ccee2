"""The ledger counts facts: messages and bytes by party, step and purpose."""

from __future__ import annotations

import csv
import io
import json

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
        Line("train", "embed", "bank", OWNER, messages=2, payload=150, overhead=20),
        Line("train", "embed", "shop", OWNER, messages=1, payload=200, overhead=11),
        Line("train", "follow", OWNER, "bank", messages=1, payload=100, overhead=12),
        Line("evaluate", "embed", "bank", OWNER, messages=1, payload=7, overhead=10),
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
        "purpose,step,sender,receiver,messages,payload,overhead",
        "train,embed,bank,owner,2,150,20",
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
