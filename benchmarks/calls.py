"""How many functions of the package one training round calls, and over how many files: the length of the trunk.

    python -m benchmarks.calls [--method vimadmm] [--runtime loop] [--show]

Counts are exact and repeat, unlike seconds. A round is the last of a few, so that nothing is built in it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import colonnade as cn
from benchmarks.table import show
from colonnade.core.method import make_method

PACKAGE = str(Path(cn.__file__).parent)
ROUNDS = 4
LOCAL_STEPS = 1  # more of them make the method longer, not the trunk


class Tracer:
    """Counts calls of the package's functions while a round runs."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.switches, self._last = 0, ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(PACKAGE) or frame.f_code.co_name.startswith("<"):
            return
        self.calls[path.removeprefix(PACKAGE + "/"), frame.f_code.co_qualname] += 1
        self.switches += path != self._last
        self._last = path

    @property
    def total(self) -> int:
        """All calls."""
        return self.calls.total()

    @property
    def files(self) -> int:
        """Files with a function that was called."""
        return len({path for path, _ in self.calls})


def trace_round(method: str, runtime: str, parties: int = 2) -> Tracer:
    """The last training round of a short run, without the evaluation behind it."""
    train, _ = cn.load("digits", parties=parties)
    tracer = Tracer()
    options = {"local_steps": LOCAL_STEPS} if method.startswith("vimadmm") else {}
    chosen = make_method(method, **options)
    original = type(chosen).round

    def traced(self: Any, owner: Any, everybody: Any, turn: Any) -> Any:
        if turn.round != ROUNDS - 2:
            return original(self, owner, everybody, turn)
        sys.setprofile(tracer)
        try:
            return original(self, owner, everybody, turn)
        finally:
            sys.setprofile(None)

    type(chosen).round = traced  # type: ignore[method-assign]
    try:
        cn.train(train, chosen, rounds=ROUNDS, batch=256, runtime=runtime, evaluate_every=ROUNDS)
    finally:
        type(chosen).round = original  # type: ignore[method-assign]
    return tracer


def main() -> None:
    """Print the counts of one method over the runtimes of one process, and on request every function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="vimadmm")
    parser.add_argument("--runtime", choices=("loop", "bytes", "fused", "apart"))
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="every function with its count")
    asked = parser.parse_args()
    rows = []
    for runtime in [asked.runtime] if asked.runtime else ["loop", "bytes", "fused", "apart"]:
        tracer = trace_round(asked.method, runtime, asked.parties)
        rows.append([runtime, tracer.total, tracer.files, tracer.switches])
        if asked.show:
            for (path, name), count in tracer.calls.most_common():
                print(f"{count:5d}  {path}  {name}")
    show(
        f"One round of {asked.method}, {asked.parties} parties", ["runtime", "calls", "files", "switches of file"], rows
    )


if __name__ == "__main__":
    main()
