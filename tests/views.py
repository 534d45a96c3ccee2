"""Views compared with each other and with a ledger."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from colonnade.wire.ledger import Ledger
from colonnade.wire.view import Line, Seen, View

Totals = dict[Line, tuple[int, int]]


def counted(ledger: Ledger) -> Totals:
    """The messages and payload bytes of every line of a ledger."""
    return {(row.purpose, row.step, row.sender, row.receiver): (row.messages, row.payload) for row in ledger.rows}


def recorded(view: View) -> Totals:
    """The messages and bytes of the values that a view has, by line."""
    totals: dict[Line, list[int]] = defaultdict(lambda: [0, 0])
    for one in view.seen:
        line = totals[one.purpose, one.step, one.sender, one.receiver]
        line[0] += 1
        line[1] += sum(array.nbytes for array in (*one.fields.values(), *one.others.values()))
    return {key: (messages, size) for key, (messages, size) in totals.items()}


def check_same(first: View, second: View) -> None:
    """Two views have the same, bit for bit."""
    assert (first.side, first.counts, first.left_out) == (second.side, second.counts, second.left_out)
    assert np.array_equal(first.sample, second.sample)
    assert len(first.seen) == len(second.seen)
    for one, other in zip(first.seen, second.seen, strict=True):
        check_same_message(one, other)


def check_same_message(one: Seen, other: Seen) -> None:
    """Two messages are the same, bit for bit."""
    assert one._replace(rows=0, fields={}, others={}) == other._replace(rows=0, fields={}, others={})
    assert np.array_equal(one.rows, other.rows)
    for mine, theirs in ((one.fields, other.fields), (one.others, other.others)):
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            assert value.dtype == theirs[name].dtype and np.array_equal(value, theirs[name]), (one.step, name)
