"""Describing columns: CPU seconds of the owner and of a party, and bytes.

    python -m benchmarks.describe                       20,000 rows and 10 columns, half a minute
    python -m benchmarks.describe --rows 1000 5000 --columns 10
    python -m benchmarks.describe --proof                 the owner proves what it encrypts
    python -m benchmarks.describe --between               a federation: two processes, TLS, proofs, private alignment

Made-up rows: five normal columns, two lognormal ones, three of eight whole numbers each, in this order, and two classes
of which one has a fifth of the rows. One thread.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import colonnade as cn
from benchmarks.table import show
from colonnade.description.describe_owner import DescribeOwner
from colonnade.description.describe_party import DescribeParty
from colonnade.description.label_targets import label_targets
from colonnade.description.own_columns import PartyRules
from colonnade.federation.certificates import make_keys
from colonnade.federation.owner_description import OwnerDescription
from colonnade.federation.side_files import read_owner_file


def tables(rows: int, columns: int) -> tuple[cn.Table, cn.Table]:
    random = np.random.default_rng(0)
    labels = (random.random(rows) < 0.2).astype(int)
    kinds = [random.normal] * 5 + [random.lognormal] * 2
    drawn = [kinds[k % 10](size=rows) if k % 10 < 7 else random.integers(0, 8, rows) for k in range(columns)]
    values = np.column_stack(drawn)
    return cn.Table(range(rows), labels=labels, name="bank"), cn.Table(range(rows), values, name="shop")


def measure(rows: int, columns: int, *, proof: bool = False) -> list[str]:
    """One line of the table: who computes how long, and how much is sent."""
    bank, shop = tables(rows, columns)
    least = 20 if proof else None
    owner = DescribeOwner(None, label_targets(bank), least=least)  # type: ignore[arg-type]  # carried by hand
    party = DescribeParty("shop", shop, None, PartyRules(proof=proof), bytes(32))
    clock = [time.process_time()]
    opening, told = owner.opening(), list(owner.proved_chunks())
    groups = [owner.groups()] if proof else []
    clock.append(time.process_time())
    party.begin(opening)
    for chunk, proofs in told:
        party.hear(chunk)
        if proofs is not None:
            party.believe(proofs)
    for one in groups:
        party.believe_groups(one)
    answer = party.answer()
    chunks = [part for pair in told for part in pair if part is not None] + groups
    clock.append(time.process_time())
    owner.opened(answer)
    clock.append(time.process_time())
    sent = [sum(part.nbytes for message in each for part in message) for each in ([opening, *chunks], [answer])]
    seconds = [f"{after - before:.1f}" for before, after in pairwise(clock)]
    return [f"{rows:,}", str(columns), *seconds, f"{sent[0] / 1e6:.2f}", f"{sent[1] / 1e6:.3f}"]


BETWEEN = ["rows", "columns", "owner, s", "party, s", "wall, s", "MB to the party", "MB back"]
JOB = """
[federation]
listen = "127.0.0.1:{port}"
deadline = 1200
[[party]]
name = "bank"
files = "rows.csv"
id = "id"
label = "label"
[[party]]
name = "shop"
key = "../shop/identity.pub"
[prepare]
test = 0.0
[describe]
"""
PARTY = """
[party]
name = "shop"
files = "rows.csv"
id = "id"
[owner]
address = "localhost:{port}"
key = "../owner/identity.pub"
[describe]
columns = "all"
"""


def between(rows: int, columns: int) -> list[str]:
    """One line of the table of a federation; CPU seconds are those after the alignment."""
    bank, shop = tables(rows, columns)
    with tempfile.TemporaryDirectory() as name, socket.socket() as one:
        folder = Path(name)
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
        one.close()
        make_keys(folder, ["localhost", "127.0.0.1"], ["shop"])
        labels = bank.labels.numpy()[:, None]
        for side, text, block in (("owner", JOB, labels), ("shop", PARTY, shop.columns.numpy())):
            names = ["label"] if side == "owner" else [f"c{k}" for k in range(columns)]
            lines = [
                ",".join(["id", *names]),
                *(f"p{k},{','.join(map(str, row))}" for k, row in enumerate(block.tolist())),
            ]
            (folder / side / "rows.csv").write_text("\n".join(lines) + "\n")
            (folder / side / "side.toml").write_text(text.format(port=port))
        command = [sys.executable, "-m", "colonnade", "party", str(folder / "shop" / "side.toml"), "--folder"]
        with subprocess.Popen([*command, str(folder / "run-shop")], stderr=subprocess.DEVNULL) as party:
            host = OwnerDescription(read_owner_file(folder / "owner" / "side.toml"), folder / "run")
            try:
                host.gather()
                clock, cpu, before = time.monotonic(), time.process_time(), cpu_of(party.pid)
                told = host.session.with_all(host._described)[0]
                seconds = time.process_time() - cpu, cpu_of(party.pid) - before, time.monotonic() - clock
            finally:
                host.close()
                party.terminate()
        ledger = told.ledger.rows
        sent = [sum(line.total for line in ledger if (line.sender == "shop") == back) for back in (False, True)]
    return [f"{rows:,}", str(columns), *(f"{one:.1f}" for one in seconds), *(f"{one / 1e6:.3f}" for one in sent)]


def cpu_of(pid: int) -> float:
    """CPU seconds of a process."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[10])
    parser.add_argument("--proof", action="store_true")
    parser.add_argument("--between", action="store_true")
    asked = parser.parse_args()
    if asked.between:
        show("Describing columns over TLS", BETWEEN, [between(n, k) for n in asked.rows for k in asked.columns])
        return
    lines = [measure(rows, columns, proof=asked.proof) for rows in asked.rows for columns in asked.columns]
    head = ["rows", "columns", "encrypt, s", "add up, s", "open, s", "MB to a party", "MB back"]
    show("Describing columns, CPU seconds on one thread", head, lines)


if __name__ == "__main__":
    main()
