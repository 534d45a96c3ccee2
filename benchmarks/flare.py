"""On NVIDIA FLARE as in one process: the same history, parameters and ledger; a site that dies; what our link costs.

    python -m benchmarks.flare [--rounds 60] [--folder DIR]

Needs nvflare. FLARE runs in its proof-of-concept mode: a server and four sites, provisioned and in processes of their
own on this machine, over mutual TLS. The same job is done by ``colonnade flare``, once undisturbed and once with a site
that is killed in the middle and started again, and by ``colonnade train`` in one process. Then a round of 0.08 MB down
and 0.23 MB up to and from every site is timed, over our link and over FLARE's bare call, in turns of ten.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from benchmarks.poc import ADMIN, SERVER, Poc
from benchmarks.table import show
from colonnade.federation.certificates import make_keys
from colonnade.jobs.job_file import read_job
from colonnade.jobs.run_job import train_job
from colonnade.wire.ledger import OWNER

OWN = "bank"
SITES = ("shop", "clinic", "insurer", "mill")
ROOT = Path(__file__).parent.parent
TRAIN = '[train]\nmethod = "vimadmm"\nepochs = {epochs}\nbatch = 32\nseed = 3\n'
JOBS = {"calm": "undisturbed", "struck": "a site killed", "hurt": "a site's job process killed"}
HERE = [ROOT / "src", ROOT]
SPEED = ("benchmarks.flare_speed.Timer", "benchmarks.flare_speed.Echo")


def write_sides(folder: Path, jobs: Sequence[str], *, epochs: int = 10, deadline: int = 120) -> None:
    """Every side's table, keys and paper, and these jobs, all alike."""
    drawn = np.random.default_rng(0)
    columns, weights = drawn.normal(size=(600, 15)), drawn.normal(size=15)
    write_parties(folder, columns, (columns @ weights > 0).astype(int))
    for job in jobs:
        write_job(folder, job, TRAIN.format(epochs=epochs), deadline=deadline)


def write_parties(folder: Path, columns: Any, labels: Any, *, runs: int = 9) -> None:
    """Cut columns into everybody's table, and write keys and the parties' papers, which allow so many runs."""
    make_keys(folder, ["localhost"], SITES)
    drawn, sides = np.random.default_rng(0), ("owner", *SITES)
    for number, (name, own) in enumerate(zip(sides, np.array_split(columns, len(sides), axis=1), strict=True)):
        rows = drawn.permutation(len(own))[: len(own) - 10 * number]
        label = [("label", labels)] if name == "owner" else []
        cells = [(f"{name}{k}", own[:, k].round(4)) for k in range(own.shape[1])]
        write_table(folder / name / "rows.csv", rows, [*cells, *label])
        if label:
            write_table(folder / name / "labels.csv", rows, label)
    for name in SITES:
        known = "".join(f'{peer} = "../{peer}/identity.pub"\n' for peer in SITES if peer != name)
        (folder / name / "party.toml").write_text(
            f'[party]\nname = "{name}"\nfiles = "rows.csv"\nid = "id"\n'
            f'[owner]\nkey = "../owner/identity.pub"\n[allow]\nruns = {runs}\nlayers = 0\n[peers]\n{known}'
        )


def write_table(place: Path, rows: Any, named: Sequence[tuple[str, Any]]) -> None:
    """A CSV of these rows of some columns."""
    with place.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", *(name for name, _ in named)])
        out.writerows([f"c{row:05d}", *(values[row] for _, values in named)] for row in rows)


def write_job(folder: Path, job: str, how: str, *, deadline: int = 120, columns: bool = True) -> None:
    """A job for the owner, with its columns or its labels alone, and the same for one process that has all files."""
    table = "rows.csv" if columns else "labels.csv"
    own = f'[[party]]\nname = "{OWN}"\nfiles = "{{}}"\nid = "id"\nlabel = "label"\n'
    keys = "".join(f'[[party]]\nname = "{name}"\nkey = "../{name}/identity.pub"\n' for name in SITES)
    files = "".join(f'[[party]]\nname = "{name}"\nfiles = "{name}/rows.csv"\nid = "id"\n' for name in SITES)
    head = f'[federation]\ndeadline = {deadline}\nlabels = "shown"\n'
    (folder / "owner" / f"{job}.toml").write_text(head + own.format(table) + keys + how)
    (folder / f"{job}.toml").write_text(own.format(f"owner/{table}") + files + how)


def set_up(folder: Path, jobs: Sequence[str]) -> Poc:
    """What the operators of all sides do before the first job."""
    poc = Poc(folder / "flare", SITES, HERE)
    poc.prepare()
    for name in (SERVER, *SITES):
        poc.allow(name, *SPEED)
    for job in jobs:
        poc.place(SERVER, folder / "owner" / f"{job}.toml")
    for name in SITES:
        poc.place(name, folder / name / "party.toml")
    return poc


def submit(poc: Poc, folder: Path, job: str) -> subprocess.Popen[bytes]:
    """``colonnade flare`` in a process of its own."""
    side_file, results = folder / "owner" / f"{job}.toml", folder / f"results-{job}"
    command = [sys.executable, "-m", "colonnade", "flare", str(side_file), "--submit", str(poc.kit(ADMIN))]
    with (folder / f"{job}.log").open("wb") as log:
        return subprocess.Popen([*command, "--folder", str(results), "--json"], env=poc.env, stdout=log, stderr=log)


def wait_for_training(poc: Poc, job: str, checkpoints: int = 2) -> None:
    """Wait until the job has so many checkpoints."""
    while len(list(poc.kit(SERVER).glob(f"colonnade/{job}-*/checkpoints/[0-9]*/manifest.json"))) < checkpoints:
        time.sleep(0.05)


def states(poc: Poc, job: str, names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The newest state of every side, each from that side's own folder; ``names`` are those of the sides' files."""
    owner = poc.wait_for(f"{SERVER}/colonnade/{job}-????????", 1.0)
    found = states_in(owner, names)
    for name in SITES:
        kept = int(found[name]["kept"][0])
        folder = poc.kit(name) / "colonnade" / owner.name / "states" / f"{kept:08d}"
        found[name] = load_file(max(folder.glob("[0-9]*")) / "party.safetensors")
        found[name].pop("run/round")  # how far the run is, which one process needs not tell its parties
    return found


def secrets(poc: Poc, job: str) -> dict[str, bytes]:
    """What every side drew for a job, from its own folder."""
    owner = poc.wait_for(f"{SERVER}/colonnade/{job}-????????", 1.0)
    places = {name: poc.kit(name) / "colonnade" / owner.name for name in SITES}
    whole = {OWNER: owner, OWN: owner, **places}
    return {name: (place / "secret.key").read_bytes() for name, place in whole.items()}


def states_in(folder: Path, names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The newest states in a run folder, by whose they are."""
    newest = max((folder / "checkpoints").glob("[0-9]*"))
    return {names.get(file.stem, file.stem): load_file(file) for file in newest.glob("*.safetensors")}


def differing(one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]) -> list[str]:
    """The names of all values that are not the same, bit for bit."""
    found = []
    for side in one.keys() | other.keys():
        mine, theirs = one.get(side, {}), other.get(side, {})
        found += [
            f"{side}/{name}"
            for name in mine.keys() | theirs.keys()
            if name not in mine or name not in theirs or mine[name].tobytes() != theirs[name].tobytes()
        ]
    return sorted(found)


def history(folder: Path) -> list[dict[str, str]]:
    """A run's history but for its clock."""
    with (folder / "history.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def report(poc: Poc, folder: Path, job: str) -> str:
    """Whether a job came to what one process comes to."""
    alone, results = folder / f"alone-{job}", folder / f"results-{job}"
    side_file = read_job(folder / f"{job}.toml")
    how = replace(side_file, train=replace(side_file.train, runtime="loop"))
    near = train_job(how, alone, secrets=secrets(poc, job))
    same = {
        "history": history(alone) == history(results),
        "ledger": (alone / "ledger.csv").read_text() == (results / "ledger.csv").read_text(),
        "parameters": not differing(states_in(alone, near.model.sides.names), states(poc, job, near.model.sides.names)),
    }
    return ", ".join(f"{what} {'equal' if is_same else 'DIFFERENT'}" for what, is_same in same.items())


def agree(poc: Poc, folder: Path) -> list[list[str]]:
    """An undisturbed run, one in which a site dies, and one in which only the job's process at a site does."""
    rows = []
    for job, words in JOBS.items():
        began = time.monotonic()
        following = submit(poc, folder, job)
        if job != "calm":
            wait_for_training(poc, job)
        if job == "struck":
            poc.kill("clinic")
            time.sleep(3.0)
            poc.start("clinic")
        elif job == "hurt":
            poc.kill_jobs("clinic")
        following.wait(900)
        rows.append([words, f"{time.monotonic() - began:.0f}", report(poc, folder, job)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    os.nice(5)
    with TemporaryDirectory() as draft:
        folder = options.folder or Path(draft)
        folder.mkdir(parents=True, exist_ok=True)
        write_sides(folder, tuple(JOBS))
        poc = set_up(folder, tuple(JOBS))
        from benchmarks.flare_speed import timed

        with poc.running():
            show("The same job on FLARE", ["job", "seconds", "against one process"], agree(poc, folder))
            ours, bare = timed(poc, folder, options.rounds)
        show("A round of four sites", ["over", "ms"], [["our link", f"{ours:.1f}"], ["bare call", f"{bare:.1f}"]])
        print(json.dumps({"ratio": round(ours / bare, 3)}))


if __name__ == "__main__":
    main()
