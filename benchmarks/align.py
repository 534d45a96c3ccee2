"""Aligning rows: CPU seconds, bytes and memory of the masked ring, checked against plain sets.

    python -m benchmarks.align                      all rows, about two minutes
    python -m benchmarks.align --largest 10000      the small ones only

Half of every party's ids are common to all. CPU seconds are those of all parties together, and of the busiest party:
the owner, who relays beside its own masks, or the last party, which compares. With a minimum of more than one that
party tries its list, whatever the minimum is. Each row runs in a process of its own; its memory is what that took more
at its peak than before the alignment, for all parties together. "us a mask" is what one X25519 cost just before and
after: on a machine that others use too a CPU second is not always worth the same.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from types import SimpleNamespace

import colonnade as cn
from benchmarks.table import show
from colonnade.tables.align import curve

CASES = [(2, 10_000, True), (2, 10_000, False), (2, 100_000, True), (2, 100_000, False)]
CASES += [(4, 20_000, True), (4, 20_000, False), (14, 5_000, True), (14, 5_000, False)]
TRIED = 100  # the minimum in a second row of each case
GOAL_PER_POINT = 60e-6  # CPU seconds per party, id and party


def sheets(parties: int, rows: int) -> list[SimpleNamespace]:
    """Ids of which half are common, shuffled."""
    found = []
    for party in range(parties):
        shared, rest = rows // 2, rows - rows // 2
        ids = [f"person {k}" for k in range(shared)] + [f"of {party} only {k}" for k in range(rest)]
        random.Random(party).shuffle(ids)
        found.append(SimpleNamespace(name=f"party {party}", ids=ids))
    return found


def check(people: list[SimpleNamespace], alignment: cn.Alignment) -> None:
    """Whether everybody has the rows of the plain intersection, in one order."""
    expected = set.intersection(*(set(sheet.ids) for sheet in people))
    orders = [[sheet.ids[row] for row in alignment.rows[sheet.name]] for sheet in people]
    assert all(order == orders[0] for order in orders)
    assert len(orders[0]) == len(expected) and set(orders[0]) == expected


def peak() -> float:
    """The most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def mask_cost(points: int = 2000) -> float:
    """What one mask costs at the moment, in microseconds of CPU: other work on the machine makes it dearer."""
    masked = b"\x09" + bytes(31)
    began = time.process_time()
    curve.multiply(bytes(range(32)), masked * points, "the benchmark")
    return (time.process_time() - began) / points * 1e6


def measure(parties: int, rows: int, quick: bool, mode: str = "psi", minimum: int = 1) -> dict[str, float]:
    """One case, in this process."""
    if not quick:
        curve.has_gmpy2 = False
    people = sheets(parties, rows)
    before, cost = peak(), mask_cost()
    alignment = cn.align(people, mode=mode, minimum=minimum)
    after, cost = peak(), (cost + mask_cost()) / 2
    check(people, alignment)
    busiest = max(alignment.seconds_by_party.values())
    return {
        "cpu": alignment.seconds,
        "party": busiest,
        "bytes": alignment.bytes,
        "memory": after - before,
        "cost": cost,
    }


def row_of(parties: int, rows: int, quick: bool, mode: str = "psi", minimum: int = 1) -> list[object]:
    """One case in a process of its own, as a row of the table."""
    case = json.dumps([parties, rows, quick, mode, minimum])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.align", "--case", case], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    goal = GOAL_PER_POINT * parties * rows
    hashed = "-" if mode == "plain" else "gmpy2" if quick else "libsodium"
    spent = [f"{found['cpu']:.2f}", f"{found['party']:.2f}", "-" if mode == "plain" else f"{goal:.2f}"]
    sent, memory = f"{found['bytes'] / 1e6:.1f}", f"{found['memory']:.0f}"
    row = [mode, parties, f"{rows:,}", minimum, hashed, *spent, sent, memory, f"{found['cost']:.0f}"]
    print(*row, flush=True)  # a run of minutes may be cut short
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=100_000, help="the most ids per party")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(*json.loads(options.case))))
        return
    began = time.time()
    small = [case for case in CASES if case[1] <= options.largest]
    rows = [row_of(*case, minimum=minimum) for case in small for minimum in (1, TRIED)]
    rows += [row_of(2, count, True, "plain") for count in (100_000, 1_000_000) if count <= options.largest * 10]
    head = [
        "mode",
        "parties",
        "ids each",
        "minimum",
        "hash by",
        "CPU s",
        "busiest party",
        "goal",
        "MB sent",
        "MB of memory",
        "us a mask",
    ]
    show("aligning rows, half of the ids common, correct by plain sets", head, rows)
    print(f"\n{time.time() - began:.0f} seconds in all")


if __name__ == "__main__":
    main()
