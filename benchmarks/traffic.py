"""Bytes to an accuracy: the papers' settings, tuned ones, ADMM that reveals only sums in a few bits, one message.

    python -m benchmarks.traffic                         MNIST, Fashion-MNIST, CIFAR-10; seeds 0 to 2
    python -m benchmarks.traffic --data mnist --seeds 0 --methods vafl "vimadmm-j, Bits(4)"
    python -m benchmarks.traffic --folder benchmarks/results/traffic --only-show    tables of what was run before
    python -m benchmarks.traffic --only-show --pictures docs/pictures               and the pictures

A run stops at the first evaluation on the test rows that reaches the target, or at its last round. Bytes are all that
training sent, frames and key agreements included. What the owner can rebuild is measured from what it read until then
(``benchmarks.rebuilding``). Runs are kept in ``--folder``, one each, so an interrupted benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import colonnade as cn
from benchmarks.kept import Kept
from benchmarks.picture import picture
from benchmarks.pixels import packed_size
from benchmarks.rebuilding import WATCHED, classes_of, columns_of, last_read, r2, shuffled
from benchmarks.table import show
from colonnade.core.method import Method
from colonnade.core.schedule import Schedule
from colonnade.wire.view import View

Row = dict[str, float]
Pair = tuple[list[cn.Table], list[cn.Table]]
BATCH, VALID = 1024, 0.1
COMPARED = ("vafl", "vafl, Adam, Bits(4)")
PIXELS = "all pixels, lzma"
LABELS = {"shown": "all", "inferable": "inferable", "unsent": "none"}
KNOWN = 200  # rows that the owner is given in full


@dataclass(frozen=True)
class Task:
    """One data set: how it is cut, which network its parties have, the accuracy to reach, and learning rates."""

    load: dict[str, Any]
    model: Any
    target: float
    rounds: int  # the most that a run may take
    look: int  # rounds between evaluations of a run that needs few of them
    rates: dict[str, float]
    admm: dict[str, Any]  # of VIMADMM
    admm_j: dict[str, Any]
    numbers: int = 4  # of a row, in one message
    adam: float = 0.003  # the rate of the tuned baselines


VIM_RATES = {"vafl": 0.3, "vimsgd": 0.3, "fdml": 0.1, "cvfl": 0.02, "splitnn": 0.1}
VIM_ADMM = {"lr": 0.05, "rho": 2.0, "local_steps": 20}
VIM_J = {"lr": 0.1, "rho": 1.0, "local_steps": 20}
TASKS = {
    "mnist": Task({"name": "mnist", "parties": 14}, cn.MLP((120,)), 0.965, 1600, 5, VIM_RATES, VIM_ADMM, VIM_J),
    "fashion": Task(
        {"name": "fashion_mnist", "parties": 14}, cn.MLP((120,)), 0.86, 1600, 5, VIM_RATES, VIM_ADMM, VIM_J, 6
    ),
    # Nine patches at their own 10 x 10 pixels, half the paper's channels, 20,000 rows, so that a round takes seconds.
    # The rates are the best of a few that we tried: VAFL .3 of .03, .1, .3; VIMADMM-J .02 / 2 / 20 of that and
    # .05 / 1 / 10. The others have the rate of the method that they are most like.
    "cifar10": Task(
        {"name": "cifar10", "rows": 20_000},
        cn.CNN((16, 32, 32, 64)),
        0.55,
        800,
        2,
        VIM_RATES,
        {"lr": 0.02, "rho": 2.0, "local_steps": 20},
        {"lr": 0.02, "rho": 2.0, "local_steps": 20},
    ),
}


@dataclass(frozen=True)
class Entry:
    """One line of the table: a method and its seals."""

    method: Method
    seal: Any = None
    share: float = 1.0  # of the task's rounds, at most
    look: int = 20  # rounds between evaluations
    optimizer: Any = None


def entries(task: Task) -> dict[str, Entry]:
    """The methods with the papers' settings, tuned, and ours."""
    rates, look = task.rates, task.look
    tuned = partial(Entry, seal=cn.Bits(4), look=2 * look, optimizer=cn.Adam(task.adam))
    j = cn.VIMADMMJ(**task.admm_j)
    long = replace(j, local_steps=2 * task.admm_j["local_steps"])
    return {
        "vafl": Entry(cn.VAFL(lr=rates["vafl"])),
        "vimsgd": Entry(cn.VIMSGD(lr=rates["vimsgd"])),
        "fdml": Entry(cn.FDML(lr=rates["fdml"])),
        "splitnn": Entry(cn.SplitNN(lr=rates["splitnn"])),
        "vafl, Adam, Bits(4)": tuned(cn.VAFL(), look=4 * look),
        "fdml, Adam, Bits(4)": tuned(cn.FDML()),
        "splitnn, Adam, Bits(4)": tuned(cn.SplitNN(), look=4 * look),
        "vimadmm, paper's messages": Entry(cn.VIMADMM(**task.admm, messages="paper"), None, 0.25, 2 * look),
        "cvfl, Bits(4)": Entry(cn.CVFL(lr=rates["cvfl"], local_steps=5), cn.Bits(4), 0.25),
        "vimadmm-j": Entry(j, None, 0.1, look),
        "vimadmm-j, Bits(4)": Entry(j, cn.Bits(4), 0.1, look),
        "vimadmm-j, Bits(2)": Entry(j, cn.Bits(2), 0.1, look),
        "vimadmm-j, Blind, Bits(4)": Entry(j, [cn.Blind(), cn.Bits(4)], 0.1, look),
        "vimadmm-j, twice the steps, Bits(4)": Entry(long, cn.Bits(4), 0.1, look),
        "vimadmm-j, twice the steps, Blind, Bits(4)": Entry(long, [cn.Blind(), cn.Bits(4)], 0.1, look),
        "oneshot, pca, Bits(4)": Entry(
            cn.OneShot(learn="pca", embedding=task.numbers, top="network(width=512,dropout=0.3)"), cn.Bits(4), 0.0, 1
        ),
    }


class ReachedError(Exception):
    """The target is reached: there is nothing more to learn from this run."""


class Outcome(NamedTuple):
    """What one run found: its evaluations, and how much the owner can rebuild."""

    history: list[Row]
    rebuilt: dict[str, float]


def found(data: str, name: str, seed: int) -> dict[str, Any]:
    """Train until the target is reached or the rounds are over, or send all pixels, and rebuild."""
    task = TASKS[data]
    rows, test = cn.load(**task.load)
    if name == PIXELS:
        kept = Schedule(rows[0].rows, 1, seed, VALID).train_rows.numpy()
        return {"bytes": packed_size(rows, kept, "lzma")}
    run = train(task, entries(task)[name], seed, (rows, test))
    return {"history": run.history, "rebuilt": rebuilt(run.view, rows, seed)}


def train(task: Task, entry: Entry, seed: int, pair: Pair) -> cn.Run:
    """The run, as far as it came before the target was reached."""
    runs = list[cn.Run]()

    def look(one: cn.Run) -> None:
        runs[:] = [one]
        if one.history and one.history[-1]["test_accuracy"] >= task.target:
            raise ReachedError

    with contextlib.suppress(ReachedError):
        train_on(task, entry, seed, pair, look)
    return runs[0]


def train_on(task: Task, entry: Entry, seed: int, pair: Pair, look: Callable[[cn.Run], None]) -> None:
    """Train, and let ``look`` see the run after every round."""
    cn.train(
        pair[0],
        entry.method,
        rounds=max(1, round(entry.share * task.rounds)),
        batch=BATCH,
        seed=seed,
        valid=VALID,
        test=pair[1],
        model=task.model,
        optimizer=entry.optimizer,
        seal=entry.seal,
        evaluate_every=entry.look,
        on_round=look,
        record=WATCHED,
    )


def rebuilt(view: View, rows: Sequence[cn.Table], seed: int) -> dict[str, float]:
    """R2 of a decoder of what the owner read, and its two controls."""
    seen, read = last_read(view)
    columns = columns_of(rows, seen)
    inputs = {"read": read, "labels only": classes_of(rows, seen), "shuffled": shuffled(read, seed)}
    return {name: r2(values, columns, known=KNOWN, seed=seed) for name, values in inputs.items()}


def reached(history: Sequence[Row], target: float) -> Row | None:
    return next((row for row in history if row["test_accuracy"] >= target), None)


def show_task(data: str, outcomes: dict[str, list[Outcome]], pixels: float | None) -> None:
    """One data set: bytes, rounds, what parties see of labels, what the owner can rebuild of pictures."""
    task = TASKS[data]
    means = {name: mean_mib(each, task.target) for name, each in outcomes.items()}
    rows = [[name, *line(name, each, task, means)] for name, each in outcomes.items()]
    if pixels is not None:
        mib = pixels / 2**20
        rows.append([PIXELS, f"{mib:.2f}", "1", "none", "1.00", *(ratio(means, to, mib) for to in COMPARED), "-"])
    head = ["method", "MiB, mean", "rounds by seed", "labels that parties see", "rebuilt, R2"]
    show(
        f"{data}: training bytes until {100 * task.target:.1f} % on the test rows",
        [*head, *(f"{to} / this" for to in COMPARED), "best %"],
        rows,
    )
    each = [outcome.rebuilt for some in outcomes.values() for outcome in some]
    labels, most = [one["labels only"] for one in each], max(one["shuffled"] for one in each)
    print(f"controls: R2 {sum(labels) / len(labels):.2f} from labels only, at most {most:.2f} from shuffled rows")


def line(name: str, each: Sequence[Outcome], task: Task, means: dict[str, float | None]) -> list[str]:
    """One method: the target's bytes and rounds, labels, R2, ratios, the best accuracy."""
    hits = [reached(outcome.history, task.target) for outcome in each]
    best = max(row["test_accuracy"] for outcome in each for row in outcome.history)
    rounds = ", ".join("-" if hit is None else f"{hit['round']:.0f}" for hit in hits)
    mib, read = means[name], sum(outcome.rebuilt["read"] for outcome in each) / len(each)
    labels = LABELS[entries(task)[name].method.tells_labels]
    shown = ["-" if mib is None else f"{mib:.2f}", rounds, labels, f"{read:.2f}"]
    return [*shown, *(ratio(means, to, mib) for to in COMPARED), f"{100 * best:.2f}"]


def mean_mib(each: Sequence[Outcome], target: float) -> float | None:
    hits = [reached(outcome.history, target) for outcome in each]
    known = [hit["bytes"] / 2**20 for hit in hits if hit is not None]
    return sum(known) / len(known) if known and len(known) == len(hits) else None


def ratio(means: dict[str, float | None], to: str, mib: float | None) -> str:
    other = means.get(to)
    return "-" if mib is None or other is None else f"{other / mib:,.1f}"


def draw(data: str, outcomes: dict[str, list[Outcome]], place: Path) -> None:
    """Accuracy against megabytes on a logarithmic scale, the first seed of every method."""
    lines = {
        name: [(row["bytes"] / 1e6, 100 * row["test_accuracy"]) for row in each[0].history]
        for name, each in outcomes.items()
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    title = f"{data}: test accuracy in % by MB sent in training (seed 0, each run until its target)"
    place.write_text(picture(title, lines))
    print(f"picture: {place}", flush=True)


def outcomes_of(kept: Kept, data: str, names: Sequence[str], seeds: Sequence[int]) -> dict[str, list[Outcome]]:
    """All that was run; a method that was run for some seeds only has those."""
    outcomes: dict[str, list[Outcome]] = {}
    for name in (name for name in names if name != PIXELS):
        for seed in seeds:
            one = kept(f"{data} {name} {seed}", partial(found, data, name, seed))
            if one:
                outcomes.setdefault(name, []).append(Outcome(one["history"], one["rebuilt"]))
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*entries(TASKS["mnist"]), PIXELS]
    parser.add_argument("--data", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=names, choices=names)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/traffic"))
    parser.add_argument("--pictures", type=Path, help="where to draw; nothing is drawn without it")
    parser.add_argument("--only-show", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.folder, train=not options.only_show)
    for data in options.data:
        outcomes = outcomes_of(kept, data, options.methods, options.seeds)
        wanted = PIXELS in options.methods
        pixels = kept(f"{data} {PIXELS} 0", partial(found, data, PIXELS, 0)) if wanted else {}
        if outcomes:
            show_task(data, outcomes, pixels.get("bytes"))
        if outcomes and options.pictures:
            draw(data, outcomes, options.pictures / f"traffic-{data}.svg")


if __name__ == "__main__":
    main()
