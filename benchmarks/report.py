"""How long a report takes: of a run of 14 parties and 500 rounds, each evaluated, and of three such runs on one page.

`colonnade report` is a process of its own, from its start to its end: wall clock and CPU seconds, of which a command
that does nothing (`--version`) takes most. Then headless Chromium opens the page, where there is one, and an empty page
for comparison. Medians of repetitions.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import colonnade as cn
from benchmarks.table import show

METHODS = ("vimsgd", "vafl", "fdml")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
Seconds = tuple[float, float]  # wall clock, CPU


def train(folder: Path, parties: int, rounds: int) -> list[Path]:
    """Runs of handwritten digits by several methods, each looked at after every round."""
    rows, test = cn.load("digits", parties=parties, by="overlap", width=8)
    for method in METHODS:
        cn.train(rows, method, rounds=rounds, batch=64, evaluate_every=1, test=test, folder=folder / method)
    return [folder / method for method in METHODS]


def seconds(command: Sequence[str], repeat: int) -> Seconds:
    """Medians of what a command takes."""
    return tuple(map(statistics.median, zip(*(_once(command) for _ in range(repeat)), strict=True)))


def _once(command: Sequence[str]) -> Seconds:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return ended - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def colonnade(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "colonnade", *map(str, arguments)]


def opening(address: str) -> list[str]:
    """Chromium loads a page, runs its script, tells what came of it, and ends."""
    assert BROWSER is not None
    return [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", address]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        runs = train(folder, options.parties, options.rounds)
        rows = [["colonnade --version", *seconds(colonnade("--version"), options.repeat), ""]]
        pages = {"one run": folder / "one.html", "three runs": folder / "three.html"}
        for (what, page), some in zip(pages.items(), (runs[:1], runs), strict=True):
            taken = seconds(colonnade("report", *some, "--out", page), options.repeat)
            rows.append([f"report of {what}", *taken, f"{page.stat().st_size / 1e6:.2f}"])
        if BROWSER:
            rows.append(["Chromium, empty page", *seconds(opening("about:blank"), options.repeat), ""])
            for what, page in pages.items():
                rows.append([f"Chromium, {what}", *seconds(opening(page.as_uri()), options.repeat), ""])
    title = f"Digits, {options.parties} parties, {options.rounds} rounds, medians of {options.repeat}"
    numbers = [[what, f"{wall:.2f}", f"{cpu:.2f}", size] for what, wall, cpu, size in rows]
    show(title, ["what", "seconds", "CPU seconds", "MB"], numbers)


if __name__ == "__main__":
    main()
