"""Aligning rows: CPU seconds, bytes and memory of the masked ring, checked against plain sets.

    python -m benchmarks.align                      all rows, some minutes
    python -m benchmarks.align --largest 10000      the small ones only
    python -m benchmarks.align --only 2 300000      two parties of 300,000 ids each, in every way
    python -m benchmarks.align --only 2 100000 --threads 1 2    seconds of the clock by one thread and by two

Half of every party's ids are common to all. CPU seconds are those of all parties together, and of the busiest party:
the owner, who relays beside its own masks, or the last party, which compares. With a minimum of more than one that
party tries its list, whatever the minimum is. Each row runs in a process of its own; its memory is what that took more
at its peak than before the alignment, for all parties together. "us a mask" is what one X25519 by libsodium cost just
before and after: on a machine that others use too a CPU second is not always worth the same. "of bare masks" are the
CPU seconds over those that libsodium would need for as many masks alone, at that price. Compiling the ladder, which is
done once on a machine, is not counted.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from itertools import product
from types import SimpleNamespace

import colonnade as cn
from benchmarks.table import show
from colonnade.tables.align import curve
from colonnade.tables.align.align_terms import AlignTerms

WAYS = {"libsodium": (), "gmpy2": ("gmpy2",), "gmpy2 and numba": ("gmpy2", "numba")}
"""Which of the libraries of the extra ``align`` are used."""
CASES = [(2, 10_000), (2, 100_000), (4, 20_000), (14, 5_000)]
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


def use(way: str) -> None:
    """Use these libraries only."""
    curve.has_gmpy2 = "gmpy2" in WAYS[way]
    if "numba" in WAYS[way]:
        curve.quick()
    else:
        curve.quick = lambda: curve.by_libsodium  # type: ignore[assignment]


def masks_of(parties: int, rows: int, minimum: int) -> int:
    """How many masks all lists get in total."""
    sizes = [rows] * parties
    terms = AlignTerms("psi", tuple(map(str, range(parties))), 0, minimum, None)
    trial = 0 if terms.trial is None else (parties + 1) * terms.length(terms.trial, sizes)
    return parties * parties * rows + trial


def measure(parties: int, rows: int, way: str, mode: str, minimum: int, threads: int | None) -> dict[str, float]:
    """One case, in this process."""
    use(way)
    people = sheets(parties, rows)
    before, cost = peak(), mask_cost()
    began = time.perf_counter()
    alignment = cn.align(people, mode=mode, minimum=minimum, threads=threads)
    seconds = time.perf_counter() - began
    after, cost = peak(), (cost + mask_cost()) / 2
    check(people, alignment)
    return {
        "cpu": alignment.seconds,
        "clock": seconds,
        "party": max(alignment.seconds_by_party.values()),
        "bytes": alignment.bytes,
        "memory": after - before,
        "cost": cost,
    }


def row_of(
    parties: int, rows: int, way: str = "libsodium", mode: str = "psi", minimum: int = 1, threads: int | None = None
) -> list[object]:
    """One case in a process of its own, as a row of the table."""
    case = json.dumps([parties, rows, way, mode, minimum, threads])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.align", "--case", case], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    bare = found["cost"] * masks_of(parties, rows, minimum) / 1e6
    compared = (
        ["-", "-"] if mode == "plain" else [f"{GOAL_PER_POINT * parties * rows:.2f}", f"{found['cpu'] / bare:.2f}"]
    )
    row = [mode, parties, f"{rows:,}", minimum, "-" if mode == "plain" else way, "all" if threads is None else threads]
    row += [f"{found[name]:.2f}" for name in ("clock", "cpu", "party")] + compared
    row += [f"{found['bytes'] / 1e6:.1f}", f"{found['memory']:.0f}", f"{found['cost']:.0f}"]
    print(*row, flush=True)  # a run of minutes may be cut short
    return row


HEAD = ["mode", "parties", "ids each", "minimum", "with", "threads", "seconds", "CPU s", "busiest party", "goal"]
HEAD += ["of bare masks", "MB sent", "MB of memory", "us a mask"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=100_000, help="the most ids per party")
    parser.add_argument("--only", type=int, nargs=2, metavar=("PARTIES", "IDS"), help="only this case")
    parser.add_argument("--minimum", type=int, nargs="+", default=[1, TRIED], help="the least number of common ids")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="with which libraries")
    parser.add_argument("--threads", type=int, nargs="+", help="by how many threads, instead of one on each core")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(*json.loads(options.case))))
        return
    began = time.time()
    cases = [options.only] if options.only else [case for case in CASES if case[1] <= options.largest]
    kinds = product(cases, options.ways, options.minimum, options.threads or [None])
    rows = [
        row_of(parties, ids, way, minimum=minimum, threads=threads) for (parties, ids), way, minimum, threads in kinds
    ]
    if not options.only:
        plain = [count for count in (100_000, 1_000_000) if count <= options.largest * 10]
        rows += [row_of(2, count, mode="plain") for count in plain]
    show("aligning rows, half of the ids common, correct by plain sets", HEAD, rows)
    print(f"\n{time.time() - began:.0f} seconds in all")


if __name__ == "__main__":
    main()
