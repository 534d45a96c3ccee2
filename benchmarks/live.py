"""What it costs to watch: the same run unseen, with the live view, and with an open page that follows it.

Digits, 8 parties, VIMADMM, a checkpoint per epoch. CPU seconds of the training process, the page's thread
included; medians of alternating repetitions, so that the machine's noise meets all alike. That noise is larger than
what the live view takes, so its own share of the CPU seconds is measured too. The reader of the page is a process of
its own, which asks every two seconds as a browser does.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

import colonnade as cn
from benchmarks.table import show
from colonnade.cli.live import live
from colonnade.report.local_server import in_background
from colonnade.report.watch_page import WatchServer
from colonnade.run.training import Run

OnRound = Callable[[Run], None]
READER = """
import json, sys, time, urllib.request
shown = None
while True:
    newest = json.load(urllib.request.urlopen(sys.argv[1] + "state"))["checkpoint"]
    if newest != shown:
        urllib.request.urlopen(sys.argv[1]).read()
        shown = newest
    time.sleep(2)
"""


class Timed:
    """Does what is done after every round, and adds up its CPU seconds."""

    def __init__(self, on_round: OnRound | None) -> None:
        self._on_round, self.spent = on_round, 0.0

    def __call__(self, run: Run) -> None:
        if self._on_round is not None:
            began = time.thread_time()
            self._on_round(run)
            self.spent += time.thread_time() - began


@contextmanager
def unseen(folder: Path) -> Iterator[OnRound | None]:
    yield None


@contextmanager
def on_a_terminal(folder: Path) -> Iterator[OnRound | None]:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    with live("vimadmm", console) as on_round:
        yield on_round


@contextmanager
def in_a_browser(folder: Path) -> Iterator[OnRound | None]:
    with in_background(WatchServer(folder / "run")) as server:
        reader = subprocess.Popen([sys.executable, "-c", READER, server.address], stderr=subprocess.DEVNULL)
        try:
            yield None
        finally:
            reader.kill()
            reader.wait()


WAYS = {"unseen": unseen, "--live": on_a_terminal, "--watch, page open": in_a_browser}


def seconds(way: str, epochs: int) -> tuple[float, float]:
    """CPU seconds of a run, and what was done after its rounds as a share of them."""
    rows, test = cn.load("digits", parties=8)
    with tempfile.TemporaryDirectory() as place, WAYS[way](Path(place)) as on_round:
        timed, began = Timed(on_round), time.process_time()
        cn.train(rows, "vimadmm", epochs=epochs, batch=128, test=test, folder=Path(place) / "run", on_round=timed)
        total = time.process_time() - began
        return total, timed.spent / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    seconds("unseen", 1)  # imports and first times
    taken = [{way: seconds(way, options.epochs) for way in WAYS} for _ in range(options.repeat)]
    rows = []
    for way in WAYS:
        total, share = (statistics.median(one[way][k] for one in taken) for k in (0, 1))
        ratio = statistics.median(one[way][0] / one["unseen"][0] for one in taken)
        rows.append([way, f"{total:.2f}", f"{ratio:.3f}", f"{share:.2%}" if way == "--live" else "-"])
    title = f"Digits, 8 parties, {options.epochs} epochs, medians of {options.repeat}"
    show(title, ["way", "CPU seconds", "of unseen", "share of the view itself"], rows)


if __name__ == "__main__":
    main()
