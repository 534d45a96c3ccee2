"""Describing columns: CPU seconds of the owner and of a party, and bytes.

    python -m benchmarks.describe                       20,000 rows and 10 columns, half a minute
    python -m benchmarks.describe --rows 1000 5000 --columns 10

Made-up rows: five normal columns, two lognormal ones, three of eight whole numbers each, in this order, and two classes
of which one has a fifth of the rows. One thread.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np

import colonnade as cn
from benchmarks.table import show
from colonnade.description.describe_owner import DescribeOwner
from colonnade.description.describe_party import DescribeParty
from colonnade.description.label_targets import label_targets
from colonnade.description.own_columns import PartyRules


def tables(rows: int, columns: int) -> tuple[cn.Table, cn.Table]:
    random = np.random.default_rng(0)
    labels = (random.random(rows) < 0.2).astype(int)
    kinds = [random.normal] * 5 + [random.lognormal] * 2
    drawn = [kinds[k % 10](size=rows) if k % 10 < 7 else random.integers(0, 8, rows) for k in range(columns)]
    values = np.column_stack(drawn)
    return cn.Table(range(rows), labels=labels, name="bank"), cn.Table(range(rows), values, name="shop")


def measure(rows: int, columns: int) -> list[str]:
    """One line of the table: who computes how long, and how much is sent."""
    bank, shop = tables(rows, columns)
    owner = DescribeOwner(None, label_targets(bank))  # type: ignore[arg-type]  # messages are carried by hand
    party = DescribeParty("shop", shop, None, PartyRules(), bytes(32))
    clock = [time.process_time()]
    opening, chunks = owner.opening(), list(owner.chunks())
    clock.append(time.process_time())
    party.begin(opening)
    for chunk in chunks:
        party.hear(chunk)
    answer = party.answer()
    clock.append(time.process_time())
    owner.opened(answer)
    clock.append(time.process_time())
    sent = [sum(part.nbytes for message in each for part in message) for each in ([opening, *chunks], [answer])]
    seconds = [f"{after - before:.1f}" for before, after in pairwise(clock)]
    return [f"{rows:,}", str(columns), *seconds, f"{sent[0] / 1e6:.2f}", f"{sent[1] / 1e6:.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[10])
    asked = parser.parse_args()
    lines = [measure(rows, columns) for rows in asked.rows for columns in asked.columns]
    head = ["rows", "columns", "encrypt, s", "add up, s", "open, s", "MB to a party", "MB back"]
    show("Describing columns, CPU seconds on one thread", head, lines)


if __name__ == "__main__":
    main()
