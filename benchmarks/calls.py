"""How many functions of the package one training round calls, and over how many files: the length of the trunk.

    python -m benchmarks.calls [--method vimadmm] [--runtime loop] [--show]

Counts are exact and repeat, unlike seconds. A round is the last but one of a few, so that nothing is built in it.

``--runtime federation`` has every party in a process of its own, reached over TLS on this machine, and counts at the
owner and at its first party, in all threads of their processes. A party's round is from the first request of a round to
the first of the next one: what a round tells travels with what the next one asks. The owner's count moves by a few from
run to run, by how often its threads wait.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import torch

import colonnade as cn
from benchmarks.table import show
from colonnade.core.method import Method, Owner, Parties, Turn
from colonnade.methods import make_method

PACKAGE = str(Path(cn.__file__).parent)
ROUNDS = 4
TRACED = ROUNDS - 2
LOCAL_STEPS = 1  # more of them make the method longer, not the trunk
NEAR = ("loop", "bytes", "fused", "apart")
WAIT = 60.0


class Tracer:
    """Counts calls of the package's functions while a round runs."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.switches, self._last = 0, ""
        self.active = True

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        path = frame.f_code.co_filename
        if not self.active or event != "call" or not path.startswith(PACKAGE) or frame.f_code.co_name.startswith("<"):
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

    def to_json(self) -> str:
        """For another process."""
        return json.dumps([self.switches, [[*which, many] for which, many in self.calls.items()]])

    @classmethod
    def from_json(cls, text: str) -> Tracer:
        """What another process counted."""
        found = cls()
        found.switches, calls = json.loads(text)
        found.calls.update({(path, name): many for path, name, many in calls})
        return found


def method_of(name: str) -> Method:
    return make_method(name, **({"local_steps": LOCAL_STEPS} if name.startswith("vimadmm") else {}))


@contextmanager
def around_the_round(method: Method, begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """Do something before and after the traced round."""
    kind: Any = type(method)
    original = kind.round

    def traced(self: Method, owner: Owner, parties: Parties, turn: Turn) -> Any:
        if turn.round != TRACED:
            return original(self, owner, parties, turn)
        begin()
        try:
            return original(self, owner, parties, turn)
        finally:
            end()

    kind.round = traced
    try:
        yield
    finally:
        kind.round = original


def trace_round(method: str, runtime: str, parties: int = 2) -> Tracer:
    """A late training round of a short run, without the evaluation behind it."""
    train, _ = cn.load("digits", parties=parties)
    tracer, chosen = Tracer(), method_of(method)
    with around_the_round(chosen, lambda: sys.setprofile(tracer), lambda: sys.setprofile(None)):
        cn.train(train, chosen, rounds=ROUNDS, batch=256, runtime=runtime, evaluate_every=ROUNDS)
    return tracer


# Every party in a process of its own


@contextmanager
def in_all_threads(tracer: Tracer) -> Iterator[None]:
    """Have the calls of this thread, and of all that it starts, counted while the tracer is active."""
    tracer.active = False
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def attend_traced(folder: Path, name: str, port: int) -> None:
    """A party's process, which writes down what it counted."""
    from benchmarks.federation import run_party
    from colonnade.federation.party_process import PartyProcess
    from colonnade.runtime.remote.packet import read_packet

    tracer, answer = Tracer(), PartyProcess.answer

    def traced(self: PartyProcess, request: bytes) -> bytes:
        was, tracer.active = tracer.active, False
        asked = read_packet(request)
        begins = asked.kind in ("step", "sum") and asked.purpose == "train"
        tracer.active = asked.round == TRACED and (was or begins)
        return answer(self, request)

    PartyProcess.answer = traced  # type: ignore[method-assign]
    with in_all_threads(tracer):
        run_party(folder, name, port)
    (folder / f"{name}.calls").write_text(tracer.to_json())


def trace_federation(method: str, parties: int = 2) -> dict[str, Tracer]:
    """The same round over TLS, at the owner and at its first party."""
    from benchmarks.federation import companies
    from colonnade.federation.listener import Listener
    from colonnade.federation.owner_process import OwnerProcess
    from colonnade.jobs.job_file import TrainSection

    torch.set_num_threads(1)
    spawn, tracer, chosen = multiprocessing.get_context("spawn"), Tracer(), method_of(method)
    with TemporaryDirectory() as place, in_all_threads(tracer):
        folder = Path(place)
        side_file, _ = companies(folder, cn.load("digits", parties=parties)[0])
        how = TrainSection(method=method, rounds=ROUNDS, batch=256, evaluate_every=ROUNDS)
        side_file = replace(side_file, job=replace(side_file.job, method=chosen, train=how))
        listener = Listener("127.0.0.1:0", side_file.keys.credentials, list(side_file.others))
        others = [spawn.Process(target=attend_traced, args=(folder, name, listener.port)) for name in side_file.others]
        for process in others:
            process.start()
        host = OwnerProcess(side_file, folder / "run", listener=listener)

        def active(now: bool) -> None:
            tracer.active = now

        try:
            with around_the_round(chosen, lambda: active(True), lambda: active(False)):
                host.gather()
                host.train()
            for process in others:
                process.join(WAIT)
            first = Tracer.from_json((folder / f"{next(iter(side_file.others))}.calls").read_text())
        finally:
            host.close()
            for process in others:
                process.kill()
    return {"federation, the owner": tracer, "federation, a party": first}


def main() -> None:
    """Print the counts of one method over the runtimes, and on request every function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="vimadmm")
    parser.add_argument("--runtime", choices=(*NEAR, "federation"), help="by default all of one process")
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="every function with its count")
    asked = parser.parse_args()
    rows = []
    if asked.runtime == "federation":
        found = trace_federation(asked.method, asked.parties)
    else:
        kinds = [asked.runtime] if asked.runtime else NEAR
        found = {runtime: trace_round(asked.method, runtime, asked.parties) for runtime in kinds}
    for runtime, tracer in found.items():
        rows.append([runtime, tracer.total, tracer.files, tracer.switches])
        if asked.show:
            print(f"{runtime}:")
            for (path, name), count in tracer.calls.most_common():
                print(f"{count:5d}  {path}  {name}")
    show(
        f"One round of {asked.method}, {asked.parties} parties", ["runtime", "calls", "files", "switches of file"], rows
    )


if __name__ == "__main__":
    main()
