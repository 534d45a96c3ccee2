"""A federation that is broken on purpose, again and again: does it end with the same bits, or say who and why?

    python -m benchmarks.faults [--faults 500] [--seed 0] [--seal blind | recover]
    python -m benchmarks.faults --alone 5              # one fault a run, each kind so often: seconds to go on

Faults come in runs of some thirty: each party behind a network that cuts, delays, stalls, corrupts, truncates,
duplicates, reorders and replays; sides that die by kill -9 at a request and are started again; parties that stop;
requests that come twice or once more. A run is compared with one that nobody disturbed: history, ledger, the owner's
state and each party's, bit by bit; every side draws the same secret in all runs. With ``--seal`` sums are blinded, or
blinded so that somebody may be missing (then there are four parties). Exits with 1 if a run is neither the same nor
stopped by a sentence that names a party.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections import defaultdict
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from benchmarks.proxy import KINDS, Fault, Proxy, drawn
from benchmarks.sides import AGAIN, FOUR, HOST, OWNER, Knobs, Trial
from benchmarks.table import show

DEADLINE = 40
SECONDS = 240.0  # more than any run takes
KILLS = 5  # by party and run
HOW = ("recovered", "stopped", "hung", "differs")
SEALS: dict[str, dict[str, Any]] = {
    "none": {},
    "blind": {"method": "fdml", "train": '[[seal]]\nkind = "blind"\n', "parties": FOUR[:3]},
    "recover": {"method": "fdml", "train": '[[seal]]\nkind = "blind"\nrecover = true\n', "parties": FOUR},
}
"""By its name: what a job with the seal has of its own."""
CAUSES = (3, 4, 5, 6, 7)  # exit codes of a side that says why


@dataclass
class Outcome:
    """How a run ended, and what had happened to it."""

    how: str
    """Recovered, stopped, hung, or differs."""
    words: str = ""
    faults: list[tuple[str, str, float]] = field(default_factory=list)
    """Each fault's kind, whom it hit, and how many seconds later that side served a run's request."""


def knobs_for(rng: random.Random, *, at_owner: bool) -> list[Knobs]:
    """Where a side dies, one process after the other; what comes twice in each."""
    found = []
    for _ in range(2 if at_owner else KILLS):
        first = rng.random() < 0.5
        packet = rng.randrange(1, 150 if at_owner else 60)
        several = tuple(rng.randrange(2, 40) for _ in range(2))
        knobs = Knobs(twice=several[:1], again=several[1:])
        found.append(replace(knobs, kill_before=packet) if first else replace(knobs, kill_after=packet))
    return found


def stand_still(trial: Trial, rng: random.Random, over: Event, faults: list[tuple[str, str, float]]) -> None:
    """Stop a party and let it go on, until the run is over."""
    while not over.wait(rng.uniform(3.0, 9.0)):
        party = rng.choice(trial.parties)
        with suppress(ProcessLookupError):
            trial.kill(party, signal.SIGSTOP)
            faults.append(("standstill", party, time.time()))
            over.wait(rng.uniform(0.2, 1.5))
            trial.kill(party, signal.SIGCONT)


def reference(folder: Path, seal: str = "none") -> dict[str, str]:
    """The result of a run that nobody disturbs."""
    with Trial(folder, deadline=DEADLINE, **SEALS[seal]) as trial:
        if not trial.run() or any(trial.code(name) for name in trial.sides):
            raise SystemExit(f"the undisturbed run failed: {trial.words(OWNER)}")
        return trial.result()


def broken_run(folder: Path, seed: int, expected: dict[str, str], seal: str = "none") -> Outcome:
    """One run with its faults."""
    rng, over = random.Random(seed), Event()
    stills: list[tuple[str, str, float]] = []
    with ExitStack() as stack:
        trial = stack.enter_context(Trial(folder, deadline=DEADLINE, **SEALS[seal]))
        proxies, many = {}, len(trial.parties)
        for k, name in enumerate(trial.parties):
            proxy = Proxy(HOST, trial.port, drawn(many * seed + k, 16, most=12_000))
            proxies[name] = stack.enter_context(closing(proxy))
            trial.dial(name, f"{HOST}:{proxy.port}", patience=2 * DEADLINE)
        plan = {name: knobs_for(rng, at_owner=name == OWNER) for name in (OWNER, *trial.parties)}
        trial.begin(plan)
        Thread(target=stand_still, args=(trial, rng, over, stills), daemon=True).start()
        in_time = trial.watch(SECONDS)
        over.set()
        outcome = judged(trial, in_time, expected)
        hit = [(fault.kind, name, at) for name, proxy in proxies.items() for fault, at in proxy.done]
        hit += [(f"kill -9 of {'the owner' if name == OWNER else 'a party'}", name, at) for name, at in trial.deaths]
        for kind, name, at in sorted([*hit, *stills], key=lambda one: one[2]):
            later = [trial.seconds_to_go_on(one, at) for one in (trial.parties if name == OWNER else (name,))]
            outcome.faults.append((kind, name, max((one for one in later if one is not None), default=0.0)))
        again = sum(trial.words(name).count(AGAIN.decode()) for name in trial.parties)
        outcome.faults = [("request again", "", 0.0)] * again + outcome.faults
        return outcome


def broken_once(
    folder: Path, kind: str, rng: random.Random, expected: dict[str, str], seal: str = "none"
) -> tuple[Outcome, float]:
    """A run with one fault amid its rounds, and how many seconds later a round went on."""
    with ExitStack() as stack:
        trial = stack.enter_context(Trial(folder, deadline=DEADLINE, **SEALS[seal]))
        fault = Fault(kind, rng.randrange(60_000, 90_000), rng.random())
        proxy = stack.enter_context(closing(Proxy(HOST, trial.port, [fault] if kind in KINDS else [])))
        trial.dial("shop", f"{HOST}:{proxy.port}", patience=2 * DEADLINE)
        killed = {"kill -9 of a party": "shop", "kill -9 of the owner": OWNER}.get(kind)
        trial.begin({} if killed is None else {killed: [Knobs(kill_before=rng.randrange(30, 50))]})
        outcome = judged(trial, trial.watch(SECONDS), expected)
        at = trial.deaths[0][1] if killed else proxy.done[0][1]
        return outcome, trial.seconds_to_go_on("shop", at) or 0.0


def alone(folder: Path, times: int, seed: int, expected: dict[str, str], seal: str) -> bool:
    """Each kind of fault by itself; whether all ended as they should."""
    rows, fine = [], True
    for kind in (*KINDS, "kill -9 of a party", "kill -9 of the owner"):
        rng = random.Random(f"{seed}/{kind}")
        found = [broken_once(folder / f"{kind}-{k}", kind, rng, expected, seal) for k in range(times)]
        seconds, same = [later for _, later in found], sum(outcome.how == "recovered" for outcome, _ in found)
        rows.append([kind, times, same, f"{median(seconds):.2f}", f"{max(seconds):.2f}"])
        fine = fine and same == times
        print(f"{kind}: {[outcome.words for outcome, _ in found if outcome.words]} {seconds}", flush=True)
    show("One fault a run", ["fault", "runs", "recovered", "median s to go on", "most"], rows)
    return fine


def judged(trial: Trial, in_time: bool, expected: dict[str, str]) -> Outcome:
    """How a run ended."""
    codes, words = {name: trial.code(name) for name in trial.sides}, trial.said(OWNER)
    if not in_time:
        return Outcome("hung", f"{codes} {words}")
    if codes[OWNER] in CAUSES and any(name in words for name in trial.parties):
        return Outcome("stopped", words)
    found = trial.result() if codes[OWNER] == 0 else {}
    if found == expected and not any(codes.values()):
        return Outcome("recovered")
    return Outcome("differs", f"{codes} {[key for key in expected if found.get(key) != expected[key]]} {words}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", type=int, default=0, help="runs of each kind of fault, with that fault alone")
    parser.add_argument("--seal", choices=SEALS, default="none", help="how sums are blinded")
    options = parser.parse_args()
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seconds: dict[str, list[float]] = defaultdict(list)
    total, seed, bad = 0, options.seed, 0
    with TemporaryDirectory() as place:
        expected = reference(Path(place, "undisturbed"), options.seal)
        if options.alone:
            sys.exit(0 if alone(Path(place), options.alone, options.seed, expected, options.seal) else 1)
        while total < options.faults:
            began = time.monotonic()
            outcome = broken_run(Path(place, f"run-{seed}"), seed, expected, options.seal)
            print(
                f"seed {seed}: {len(outcome.faults)} faults, {outcome.how}, {time.monotonic() - began:.0f} s "
                f"{outcome.words}",
                flush=True,
            )
            for k, (kind, _, later) in enumerate(outcome.faults):
                last = k == len(outcome.faults) - 1
                counts[kind][outcome.how if outcome.how in ("hung", "differs") or last else "recovered"] += 1
                seconds[kind].append(later)
            total, seed, bad = total + len(outcome.faults), seed + 1, bad + (outcome.how in ("hung", "differs"))
    rows = [
        [kind, sum(by.values()), *(by[how] for how in HOW), f"{median(seconds[kind]):.2f}"]
        for kind, by in sorted(counts.items())
    ]
    show(f"{total} faults", ["fault", "times", *HOW, "median s to go on"], rows)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
