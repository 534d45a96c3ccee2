"""How long the command takes to start: CPU seconds of verbs, beside a bare Python and beside `import torch`.

Each line is a process of its own, from its start to its end; medians of repetitions that take turns, so that a busy
machine is equally busy for all. The last lines are what a restarted side loads before it can answer anybody: its
modules and its first optimiser, of ours and of torch's own, which loads torch's compiler too.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import show
from colonnade.federation.certificates import make_keys

NOTHING, TORCH = "python -c pass", "python -c 'import torch'"
PARTY = "import torch, grpc, colonnade.cli, colonnade.federation.party_process\n"
OWNER = "import torch, grpc, colonnade.cli, colonnade.federation.owner_process\n"
OURS = "from colonnade.core.optim import SGD\nSGD()([torch.zeros(1, requires_grad=True)])"
TORCHS = "torch.optim.SGD([torch.zeros(1, requires_grad=True)])"
SIDES = {
    "what a party's process loads": PARTY + OURS,
    "the same with torch's own optimiser": PARTY + TORCHS,
    "what an owner's process loads": OWNER + OURS,
}
Seconds = tuple[float, float]  # CPU, wall clock


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def colonnade(*words: str) -> list[str]:
    return [sys.executable, "-m", "colonnade", *words]


def commands(folder: Path) -> dict[str, list[str]]:
    """What is measured, by its name; the verbs fail at what they are given, after all that they load."""
    (folder / "log").write_text("{}\n")
    verbs = [
        ["--version"],
        ["--help"],
        ["keys", "revoke", "keys", "shop"],
        ["status", "."],
        ["audit-log", "verify", "log"],
    ]
    verbs += [["train", "--help"], ["report", "nothing"], ["methods"]]
    return {
        NOTHING: python("pass"),
        TORCH: python("import torch"),
        "python -c 'import colonnade'": python("import colonnade"),
        "python -c 'import colonnade; colonnade.train'": python("import colonnade; colonnade.train"),
        **{f"colonnade {' '.join(verb)}": colonnade(*verb) for verb in verbs},
        **{what: python(code) for what, code in SIDES.items()},
    }


def once(command: list[str], folder: Path) -> Seconds:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment())
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended - began


def _environment() -> dict[str, str]:
    """This process's; paths in it are made absolute, since verbs run in another folder."""
    paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_keys(folder / "keys", ["owner.example"], ["shop"])
        measured = commands(folder)
        rounds = [{what: once(command, folder) for what, command in measured.items()} for _ in range(options.repeat)]
    cpu = {what: statistics.median(one[what][0] for one in rounds) for what in measured}
    wall = {what: statistics.median(one[what][1] for one in rounds) for what in measured}
    lines = [[what, f"{cpu[what]:.2f}", f"{wall[what]:.2f}", f"{cpu[what] / cpu[TORCH]:.2f}"] for what in measured]
    show(f"Start-up, medians of {options.repeat}", ["what", "CPU seconds", "seconds", "x import torch"], lines)


if __name__ == "__main__":
    main()
