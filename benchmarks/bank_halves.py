"""Bank marketing cut in halves, in a real federation over a slow line: AUC, seconds and bytes of one message of trees.

    python -m benchmarks.bank_halves                                      10 Mbit/s, 50 ms there and back
    python -m benchmarks.bank_halves --megabits 0 --delay 0 --seeds 0     loopback as it is

All 45,211 rows and 16 columns, with ``duration``: the owner has the first eight columns and the label, one party the
other eight, as in SecretFlow's benchmark of SGB. Owner and party are processes of their own with mutual TLS 1.3; every
byte between them passes ``benchmarks.shaped_link``. Both processes are loaded before the clock starts. It then runs
through *meet* (connection, hello, terms), *align* (private, with a minimum), *prepare* (columns, plan, signatures) and
*train* (labels down, the party's trees, scores up, the owner's trees, scores of the test rows, checkpoints, the end).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.shaped_link import ShapedLink
from benchmarks.table import show
from colonnade.federation.certificates import make_keys
from colonnade.federation.listener import Listener
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.party_process import PartyProcess
from colonnade.federation.side_files import read_owner_file, read_party_file

PARTY, LABEL, HALF = "campaign", "y", 8
TEST = 0.2
PHASES = ("meet", "align", "prepare", "train")
SIDES = """
[federation]
listen = "127.0.0.1:0"
labels = "shown"
[[party]]
name = "bank"
files = "bank.csv"
id = "id"
label = "y"
[[party]]
name = "campaign"
key = "../campaign/identity.pub"
"""
JOB = (
    SIDES
    + """\
[align]
mode = "{mode}"
minimum = 1000
maximum = 50000
[prepare]
test = 0.2
[train]
method = "oneshot"
seed = {seed}
{more}
"""
)
ALLOWED = """
[party]
name = "campaign"
files = "campaign.csv"
id = "id"
[owner]
address = "127.0.0.1:{port}"
key = "../owner/identity.pub"
[allow]
methods = ["oneshot"]
align = ["psi", "plain"]
minimum = 1000
maximum = 50000
rounds = 1
"""
EIGHT_BITS = '[[seal]]\nkind = "bits"\nbits = 8\nways = "up"\n'
NOISY = EIGHT_BITS + '[[seal]]\nkind = "random-labels"\nepsilon = {:.1f}\n'
PCA = '[method]\nlearn = "pca"\nembedding = 7\n[[seal]]\nkind = "bits"\nbits = 4\n'
WAYS = {
    "labels at epsilon 2, scores of 8 bits": NOISY.format(2),
    "labels at epsilon 1, scores of 8 bits": NOISY.format(1),
    "true labels, scores of 8 bits": EIGHT_BITS,
    "no label, 7 main directions of 4 bits": PCA,
}
TREES = "all columns in one place, boosted trees"
ALONE = "the owner alone, boosted trees"


def write_halves(folder: Path, hosts: Sequence[str] = ("127.0.0.1",)) -> None:
    """Keys of two sides, and each one's half of the columns under the same ids, in orders of their own."""
    make_keys(folder, hosts, [PARTY])
    table = pd.read_csv(Path(os.environ["COLONNADE_DATA"]) / "bank_marketing.csv.gz")
    table.insert(0, "id", [f"client{k:05d}" for k in range(len(table))])
    columns = [name for name in table if name not in ("id", LABEL)]
    for side, name, own in (
        ("owner", "bank", [*columns[:HALF], LABEL]),
        (PARTY, PARTY, columns[HALF:]),
    ):
        order = np.random.default_rng(len(name)).permutation(len(table))
        table.iloc[order][["id", *own]].to_csv(folder / side / f"{name}.csv", index=False)


# The two processes


def be_party(folder: Path, port: int, place: str, ready: Any, found: Any) -> None:
    """The party's process: it says that it is loaded, dials, and at the end tells how long it has computed."""
    (folder / PARTY / "party.toml").write_text(ALLOWED.format(port=port))
    process = PartyProcess(read_party_file(folder / PARTY / "party.toml"), folder / place)
    ready.set()
    began = time.process_time()
    process.run()
    found.put({"party CPU": time.process_time() - began})


class Clock:
    """When each phase ended, from the first call on."""

    def __init__(self) -> None:
        self.began, self.ends = time.perf_counter(), dict[str, float]()
        self.worked = time.process_time()

    def end(self, phase: str) -> None:
        """Note the end of a phase, the first time."""
        self.ends.setdefault(phase, time.perf_counter() - self.began)

    def seconds(self) -> dict[str, float]:
        """How long each phase took."""
        ends = [0.0, *(self.ends[phase] for phase in PHASES)]
        return {phase: after - before for phase, before, after in zip(PHASES, ends, ends[1:], strict=False)}


class TimedOwner(OwnerProcess):
    """An owner that notes when its plan is signed by all."""

    clock: Clock

    def _begin(self, tables: list[cn.Table]) -> cn.Run:
        run = super()._begin(tables)
        self.clock.end("prepare")
        return run


def be_owner(folder: Path, place: str, ports: Any, begin: Any, found: Any) -> None:
    """The owner's process: it leads the job from the first connection to the end, and tells what it measured."""
    job_file = read_owner_file(folder / "owner" / "job.toml")
    listener = Listener("127.0.0.1:0", job_file.keys.credentials, list(job_file.others))
    owner = TimedOwner(job_file, folder / place, listener=listener)
    ports.put(listener.port)
    begin.wait()
    owner.clock = Clock()
    owner.gather(lambda *_: owner.clock.end("meet"))
    owner.clock.end("align")
    run = owner.train()
    owner.clock.end("train")
    owner.close()
    auc, training = run.history[-1]["test_auc"], run.ledger.bytes_for("train")
    worked = time.process_time() - owner.clock.worked
    found.put({"auc": auc, "training bytes": training, "owner CPU": worked, **owner.clock.seconds()})


def federated(folder: Path, more: str, seed: int, line: tuple[float, float], mode: str) -> dict[str, float]:
    """One job between two processes over the line, of so many megabits a second and with this delay."""
    (folder / "owner" / "job.toml").write_text(JOB.format(seed=seed, more=more, mode=mode))
    spawn, place = multiprocessing.get_context("spawn"), f"run-{time.monotonic_ns()}"
    ports, found, begin, ready = spawn.Queue(), spawn.Queue(), spawn.Event(), spawn.Event()
    owner = spawn.Process(target=be_owner, args=(folder, place, ports, begin, found))
    owner.start()
    link = ShapedLink(("127.0.0.1", ports.get(timeout=120)), *line)
    party = spawn.Process(target=be_party, args=(folder, link.port, f"{place}-party", ready, found))
    party.start()
    ready.wait(120)
    begin.set()
    measured: dict[str, float] = found.get(timeout=600) | found.get(timeout=60)
    for process in (owner, party):
        process.join(60)
    link.close()
    if owner.exitcode or party.exitcode:
        raise SystemExit(f"the owner ended with {owner.exitcode} and the party with {party.exitcode}")
    return {**measured, "line bytes": float(sum(link.passed.values())), "load": os.getloadavg()[0]}


# In one place


def tables_of(folder: Path, seed: int) -> tuple[list[cn.Table], list[cn.Table]]:
    """The same rows as the federation's, to train on and to test on."""
    bank = cn.read(folder / "owner" / "bank.csv", id="id", label=LABEL, name="bank")
    campaign = cn.read(folder / PARTY / f"{PARTY}.csv", id="id", name=PARTY)
    alignment = cn.align([bank, campaign], mode="plain", seed=seed)
    return cn.prepare([bank, campaign], alignment, test=TEST, seed=seed)


def central(folder: Path, seed: int, sides: int) -> dict[str, float]:
    """Boosted trees of scikit-learn on the columns of so many sides."""
    train, test = tables_of(folder, seed)
    inputs = [np.concatenate([table.columns.numpy() for table in part[:sides]], axis=1) for part in (train, test)]
    began = time.perf_counter()
    model = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200, random_state=seed)
    model.fit(inputs[0], train[0].labels.numpy())
    seconds = time.perf_counter() - began
    return {"auc": roc_auc_score(test[0].labels, model.predict_proba(inputs[1])[:, 1]), "train": seconds}


def line(name: str, found: Sequence[dict[str, float]]) -> list[str]:
    """One line of the table: means of AUC and bytes, medians of seconds."""
    auc = f"{statistics.mean(one['auc'] for one in found):.4f}"
    each = ", ".join(f"{one['auc']:.4f}" for one in found)
    if "meet" not in found[0]:
        return [name, auc, each, *["-"] * (len(PHASES) + 4)]
    seconds = [f"{statistics.median(one[phase] for one in found):.1f}" for phase in PHASES]
    sums = [sum(one[phase] for phase in PHASES) for one in found]
    sent = [f"{statistics.mean(one[key] for one in found) / 1e6:.2f}" for key in ("training bytes", "line bytes")]
    spent = " + ".join(f"{statistics.median(one[side] for one in found):.1f}" for side in ("owner CPU", "party CPU"))
    whole = f"{statistics.median(sums):.1f} ({min(sums):.1f} to {max(sums):.1f})"
    return [name, auc, each, *seconds, whole, spent, *sent]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabits", type=float, default=10.0, help="a second in each direction; 0 for no limit")
    parser.add_argument("--delay", type=float, default=25.0, help="milliseconds one way")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", default=[*WAYS, TREES, ALONE])
    parser.add_argument("--mode", choices=["psi", "plain"], default="psi", help="how ids are compared")
    parser.add_argument("--folder", type=Path, default=Path("runs/bank_halves"))
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept, how = Kept(options.folder, train=not options.only_show), f"{options.megabits:g} mbit {options.delay:g} ms"
    how += "" if options.mode == "psi" else f" {options.mode}"
    with TemporaryDirectory() as name:
        folder = Path(name)
        if not options.only_show:
            write_halves(folder)
        lines = []
        for way in options.ways:
            found = []
            for seed in options.seeds:
                if way in WAYS:
                    line_of = options.megabits, options.delay / 1000
                    find = partial(federated, folder, WAYS[way], seed, line_of, options.mode)
                    found.append(kept(f"{how} {way} {seed}", find))
                else:
                    found.append(kept(f"{way} {seed}", partial(central, folder, seed, 2 if way == TREES else 1)))
            if all(found):
                lines.append(line(way, found))
    title = f"Bank marketing in halves, {options.megabits:g} Mbit/s, {2 * options.delay:g} ms there and back"
    heads = ["oneshot with", "test AUC", "by seed", *(f"{phase}, s" for phase in PHASES)]
    show(title, [*heads, "all, s (from to)", "CPU s, owner + party", "MB of training", "MB on the line"], lines)


if __name__ == "__main__":
    main()
