"""Strangers at the owner's port while a job is trained: do its parties notice, and what do they cost the owner?

    python -m benchmarks.connections [--idle 2000] [--half 200] [--dripping 200] [--files 1024]

The owner and its parties are real processes with TLS; the owner may open 1,024 files. From before the first party
comes until the job has ended, connections without any key stand at its port: idle ones, some that begin TLS and do not
end it, some that say a byte now and then. Who is hung up on comes again at once. The run must end as one that nobody
disturbed, bit for bit, and the owner's memory may grow by 50 MB at most beyond what the job itself needs.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from benchmarks.crowd import Crowd
from benchmarks.sides import HOST, OWNER, PARTIES, Knobs, Trial
from benchmarks.table import show

MOST_MB = 50.0
SECONDS = 240.0
ROUNDS = 60


class Measured:
    """The owner's largest memory and number of files, looked at until it ends."""

    def __init__(self, pid: int) -> None:
        self.pid, self.memory, self.files = pid, 0.0, 0
        self._over = Event()
        Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            try:
                text = Path(f"/proc/{self.pid}/status").read_text()
                self.files = max(self.files, len(list(Path(f"/proc/{self.pid}/fd").iterdir())))
            except OSError:
                return
            if "VmHWM" in text:
                self.memory = int(text.partition("VmHWM:")[2].split()[0]) / 1024


def train(folder: Path, kinds: dict[str, int], files: int) -> tuple[Trial, float, Measured, int]:
    """A job, with a crowd at its port: the trial, its seconds, the measures, how often some came again."""
    trial = Trial(folder, rounds=ROUNDS)
    again, began = 0, time.monotonic()
    with trial:
        trial.left = {name: [] for name in (OWNER, *PARTIES)}
        owner = trial.start(OWNER, Knobs(files=files, beat=10_000))
        measured = Measured(owner.process.pid or 0)
        trial.wait_until(lambda: is_open(trial.port), 60.0)
        crowd = Crowd(trial.port, **kinds)
        for name in PARTIES:
            trial.start(name, Knobs(beat=10_000))
        while time.monotonic() < began + SECONDS and not trial.watch(0.2):
            crowd.drip()
            if trial.code(OWNER) is None:
                again += crowd.come_again()
        crowd.go()
    return trial, time.monotonic() - began, measured, again


def is_open(port: int) -> bool:
    """Whether somebody listens."""
    import socket

    with socket.socket() as one:
        return one.connect_ex((HOST, port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, count in {"idle": 2000, "half": 200, "dripping": 200, "files": 1024}.items():
        parser.add_argument(f"--{kind}", type=int, default=count)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kinds = {kind: getattr(options, kind) for kind in ("idle", "half", "dripping")}
    rows = []
    with TemporaryDirectory() as place:
        alone, seconds, before, _ = train(Path(place, "alone"), {}, options.files)
        crowded, longer, after, again = train(Path(place, "crowded"), kinds, options.files)
        same = crowded.code(OWNER) == 0 and crowded.result() == alone.result()
        for what, took, found in (("nobody else", seconds, before), (f"{kinds}, come again {again}", longer, after)):
            rows.append([what, f"{took:.1f}", f"{found.memory:.0f}", found.files])
        words = crowded.words(OWNER)
    show("An owner and strangers at its port", ["who is there", "s", "owner's MB at most", "files at most"], rows)
    grown = after.memory - before.memory
    print(f"memory grew by {grown:.1f} MB; {'the same bits' if same else 'ANOTHER RESULT: ' + words[-2000:]}")
    sys.exit(0 if same and grown <= MOST_MB and "Traceback" not in words else 1)


if __name__ == "__main__":
    main()
