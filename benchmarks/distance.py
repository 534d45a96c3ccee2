"""A real federation over a slow line: seconds and bytes to a score, and how near `colonnade plan` comes to them.

    python -m benchmarks.distance                                       all: bank marketing and MNIST, six lines
    python -m benchmarks.distance --tasks bank --links 10mbit,50ms 100mbit,50ms
    python -m benchmarks.distance --folder benchmarks/results/distance --only-show --pictures docs/pictures

Owner and parties are processes of their own with mutual TLS; every byte between them passes the line. MNIST: 14 parties
of two pixel rows at the papers' settings, until 96.5 %. Bank marketing: the owner has the first eight columns and the
label, one party the other eight, until the AUC on the test rows is within 0.002 of the best.

How many rounds that takes is found in one process, and **only the first rounds are measured over the line**: from the
end of the first to the end of the last but one. ``formula`` is round trips, bytes at the line's rate each way, and CPU
seconds: the owner's and those of the slowest party, or all parties' by the machine's cores if that is more. ``plan`` is
what `colonnade plan` says of the same rounds, for parties with machines of their own. Cells are kept in ``--folder``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import colonnade as cn
from benchmarks.bank_halves import SIDES, write_halves
from benchmarks.federation import companies
from benchmarks.kept import Kept
from benchmarks.links import cpu_of
from benchmarks.network_line import HOSTS, Line, line_to
from benchmarks.picture import picture
from benchmarks.table import show
from benchmarks.traffic import TASKS, ReachedError, entries, train_on
from colonnade.federation.listener import Listener
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.side_files import read_owner_file
from colonnade.federation.side_sections import OwnerFile
from colonnade.jobs.job_file import Job, TrainSection
from colonnade.jobs.run_job import gather, plan_of, train_job
from colonnade.jobs.table_sections import AlignSection, Files, PartySection, PrepareSection
from colonnade.study.cost.estimate import BeforeTraining, CostEstimate
from colonnade.study.cost.link import USUAL, Link, link_of
from colonnade.study.cost.timed_rounds import timed_parts
from colonnade.wire.ledger import OWNER, Ledger

Found = dict[str, Any]
WAIT, NEAR, NEVER = 3600.0, 0.002, 10**6
MNIST = {"vafl": "vafl", "vimadmm": "vimadmm, paper's messages", "vimadmm-j, sealed": "vimadmm-j, Blind, Bits(4)"}
MEASURED = {"bank": 40, "vimadmm-j, sealed": 10, "vimadmm": 10, "vafl": 10}
BATCH, PARTIES = 1024, 14
BANK = (
    SIDES
    + """\
[align]
mode = "plain"
[prepare]
test = 0.2
[train]
method = "splitnn"
"""
)
PARTY = """
[party]
name = "{name}"
files = "{file}"
id = "id"
[owner]
address = "{address}"
key = "../owner/identity.pub"
[allow]
runs = 1000
align = ["plain"]
layers = 0
patience = 3600
[peers]
{peers}
"""


@dataclass(frozen=True)
class Setting:
    """A job as its owner has it, the same with everybody's files, and the others' files by name."""

    side_file: OwnerFile
    job: Job
    files: dict[str, str]


# The jobs


def bank_setting(folder: Path, rounds: int) -> Setting:
    """Bank marketing in halves."""
    write_halves(folder, HOSTS)
    (folder / "owner" / "job.toml").write_text(BANK)
    how = TrainSection(method="splitnn", rounds=rounds, batch=BATCH, evaluate_every=NEVER)
    others = [PartySection("campaign", "../campaign/campaign.csv", "id")]
    return _setting(folder, cn.SplitNN(), how, others, test=0.2)


def mnist_setting(name: str, folder: Path, rounds: int) -> Setting:
    """MNIST for 14 parties; as many rows as the measured rounds need, so that every batch is a whole one."""
    entry, task = entries(TASKS["mnist"])[MNIST[name]], TASKS["mnist"]
    tables, _ = cn.load("mnist", parties=PARTIES, rows=rounds * BATCH)
    _, files = companies(folder, tables, HOSTS)
    how = TrainSection(method=entry.method.name, rounds=rounds, batch=BATCH, evaluate_every=NEVER)
    more = {"seals": tuple(entry.seal or ()), "model": task.model}
    return _setting(folder, entry.method, how, files.parties[1:], test=0.0, **more)


def _setting(
    folder: Path, method: cn.Method, how: TrainSection, others: Sequence[PartySection], *, test: float, **more: Any
) -> Setting:
    side_file, prepare = read_owner_file(folder / "owner" / "job.toml"), PrepareSection(test=test)
    job = replace(side_file.job, method=method, train=how, **more)
    files = Files((side_file.own, *others), AlignSection(mode="plain"), prepare, folder / "owner")
    names = {one.name: Path(str(one.files)).name for one in others}
    patient = replace(side_file.federation, deadline=int(WAIT))
    whole = replace(side_file, job=job, prepare=prepare, federation=patient)
    return Setting(whole, replace(job, data=files), names)


def setting_of(task: str, folder: Path) -> Setting:
    """A task's job for the rounds that are measured."""
    make = bank_setting if task == "bank" else partial(mnist_setting, task)
    return make(folder, MEASURED[task])


# In one process: how many rounds it takes, and what the plan says


def history_of(task: str) -> Found:
    """Scores by round in one process, until the target; of bank marketing far beyond its plateau."""
    if task == "bank":
        with TemporaryDirectory() as place:
            job = bank_setting(Path(place), 600).job
            run = train_job(replace(job, train=replace(job.train, evaluate_every=10, runtime="fused")))
        return {"history": [[row["round"], row["test_auc"]] for row in run.history]}
    runs, mnist = list[cn.Run](), TASKS["mnist"]

    def look(run: cn.Run) -> None:
        runs[:] = [run]
        if run.history and run.history[-1]["test_accuracy"] >= mnist.target:
            raise ReachedError

    with suppress(ReachedError):
        train_on(mnist, entries(mnist)[MNIST[task]], 0, cn.load(**mnist.load), look)
    return {"history": [[row["round"], row["test_accuracy"]] for row in runs[0].history]}


def rounds_to_target(task: str, history: Sequence[Sequence[float]]) -> int:
    """The first evaluation that reaches the target, or the plateau."""
    target = TASKS["mnist"].target if task != "bank" else max(score for _, score in history) - NEAR
    return int(next(number for number, score in history if score >= target))


def planned(task: str, links: Sequence[Link]) -> Found:
    """What `colonnade plan` says of a round that is not the first."""
    with TemporaryDirectory() as place:
        job = setting_of(task, Path(place)).job
        tables = gather(job)
        parts = timed_parts(plan_of(job, tables.train, runtime="apart"), tables.train)
    rounds = [part for part in parts if part.name == "rounds"][1:]
    times = sum(part.times for part in rounds)
    estimate = CostEstimate(times, BeforeTraining(0), rounds)
    found = {str(link): estimate.training_over(link).to_json() for link in links}
    each = {"trips": sum(part.trips for part in rounds) / times, "bytes": estimate.bytes / times}
    return each | {str(link): found[str(link)]["seconds"] / times for link in links}


# Over the line


@contextmanager
def parties_of(setting: Setting, folder: Path, line: Line) -> Iterator[list[int]]:
    """Every party as its operator starts it, at the far end of the line."""
    inside = ["ip", "netns", "exec", line.space] if line.space else []
    started = []
    for name, file in setting.files.items():
        party_file = folder / name / "party.toml"
        peers = "".join(f'{one} = "../{one}/identity.pub"\n' for one in setting.files if one != name)
        party_file.write_text(PARTY.format(name=name, file=file, address=line.address, peers=peers))
        command = [sys.executable, "-m", "colonnade", "party", str(party_file), "--folder", str(folder / f"run-{name}")]
        started.append(subprocess.Popen([*inside, *command], env={**os.environ, "OMP_NUM_THREADS": "1"}))
    try:
        yield [process.pid for process in started]
        for process in started:
            process.wait(WAIT)
    finally:
        for process in started:
            process.kill()


def measured(task: str, link: Link) -> Found:
    """The rounds of a job between processes over the line."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder, began = Path(name), time.perf_counter()
        setting = setting_of(task, folder)
        keys, others = setting.side_file.keys.credentials, list(setting.side_file.others)
        listener = Listener("0.0.0.0:0", keys, others)
        line = stack.enter_context(line_to(listener.port, link))
        owner = OwnerProcess(setting.side_file, folder / "run", listener=listener)
        pids = stack.enter_context(parties_of(setting, folder, line))
        stack.callback(owner.close)
        marks = list[Found]()

        def mark(run: cn.Run) -> None:
            cpu = [cpu_of([pid]) for pid in (os.getpid(), *pids)]
            marks.append({"at": time.perf_counter(), "cpu": cpu, "ledger": run.ledger.to_json(), **line.passed()})

        owner.gather()
        run = owner.train(mark)
        return between(marks[0], marks[-2], len(marks) - 2) | {
            "same": is_same(run, setting, folder),
            "line": line.kind,
            "load": os.getloadavg()[0],
            "seconds, all": time.perf_counter() - began,
        }


def is_same(run: cn.Run, setting: Setting, folder: Path) -> bool:
    """Whether one process with everybody's secrets comes to the same losses, bit for bit."""
    own = folder / "run" / "secret.key"
    places = {name: next((folder / f"run-{name}").glob("*-*/secret.key")) for name in setting.files}
    places |= {OWNER: own, setting.side_file.own.name: own}
    job = replace(setting.job, train=replace(setting.job.train, runtime="loop"))
    alone = train_job(job, secrets={name: place.read_bytes() for name, place in places.items()})
    return [row["train_loss"] for row in run.history] == [row["train_loss"] for row in alone.history]


def between(first: Found, last: Found, rounds: int) -> Found:
    """What a round took between two marks: seconds, CPU seconds, bytes of the ledger and of the line."""
    owner, *parties = (after - before for before, after in zip(first["cpu"], last["cpu"], strict=True))
    sent = Ledger()
    sent.replace(last["ledger"])
    lines = sent.since(first["ledger"]).rows
    down = sum(one.total for one in lines if one.sender == OWNER)
    total = {
        "seconds": last["at"] - first["at"],
        "computing": owner + max(max(parties), sum(parties) / (os.cpu_count() or 1)),
        "down": down,
        "up": sum(one.total for one in lines) - down,
        "on the line": sum(last[way] - first[way] for way in ("up", "down")),
    }
    return {"rounds": rounds} | {name: value / rounds for name, value in total.items()}


# Tables and pictures


def formula(found: Found, trips: float, link: Link) -> float:
    """Seconds of a round: round trips, bytes at the line's rate, computing."""
    return float(trips * link.trip + (found["up"] + found["down"]) * link.byte + found["computing"])


def row(task: str, link: Link, found: Found, plan: Found, rounds: int) -> list[str]:
    """One cell as a line of the table."""
    each, due, said = found["seconds"], formula(found, plan["trips"], link), plan[str(link)]
    megabytes = rounds * (found["up"] + found["down"]) / 1e6
    until = [str(rounds), f"{megabytes:,.1f}", f"{rounds * each:,.0f}"]
    parts = [f"{plan['trips'] * link.trip:.3f}", f"{found['computing']:.3f}", f"{each:.3f}"]
    return [
        task,
        str(link),
        *until,
        f"{found['rounds']}",
        *parts,
        f"{each / due:.2f}",
        f"{each / said:.2f}",
        "yes" if found["same"] else "no",
        found["line"],
        f"{found['load']:.1f}",
    ]


HEAD = (
    "task", "line", "rounds", "MB", "seconds to target", "measured rounds", "trips, s a round", "CPU s a round",
    "s a round", "x formula", "x plan", "bit for bit", "line of", "load",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(MEASURED), default=list(MEASURED))
    parser.add_argument("--links", nargs="+", type=link_of, default=list(USUAL), help="some of the six usual lines")
    parser.add_argument("--folder", type=Path, default=Path("runs/distance"))
    parser.add_argument("--pictures", type=Path, help="where to draw; nothing is drawn without it")
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept, rows, lines = Kept(options.folder, train=not options.only_show), [], dict[str, list[tuple[float, float]]]()
    for task in options.tasks:
        history = kept(f"{task} history", partial(history_of, task))
        plan = kept(f"{task} plan", partial(planned, task, USUAL))
        for link in [link for link in USUAL if link in options.links and history and plan]:
            if found := kept(f"{task} {link}", partial(measured, task, link)):
                rows.append(row(task, link, found, plan, rounds_to_target(task, history["history"])))
                scored = [(number * found["seconds"], 100 * score) for number, score in history["history"]]
                lines[f"{task}, {link}"] = scored
    show("A federation over a distance: until 96.5 % (MNIST) or the plateau (bank)", HEAD, rows)
    if options.pictures:
        draw(lines, options.pictures)


def draw(lines: dict[str, list[tuple[float, float]]], folder: Path) -> None:
    """Scores by seconds, of each data set."""
    for name, title in (("bank", "test AUC x 100"), ("mnist", "test accuracy in %")):
        chosen = {line: points for line, points in lines.items() if line.startswith("bank") == (name == "bank")}
        if chosen:
            place = folder / f"distance-{name}.svg"
            place.write_text(picture(f"{name}: {title} by seconds of training over a line", chosen))
            print(f"picture: {place}")


if __name__ == "__main__":
    main()
