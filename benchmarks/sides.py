"""A federation on loopback to break: three sides in processes of their own, real certificates, small tables.

Importing torch takes seconds, so sides are forked from a server that has imported it, and start in a fraction of one;
grpc must not be imported before a fork, and is not. What a side's command line would do is what it does: files, exit
code, signals. ``Knobs`` let it die, or hear a request twice, at a given request.
"""

from __future__ import annotations

import csv
import ctypes
import hashlib
import json
import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.federation.certificates import make_keys
from colonnade.store import checkpoint

OWNER, PARTIES = "owner", ("shop", "clinic")
FOUR = (*PARTIES, "mill", "insurer")
HOST = "127.0.0.1"
AGAIN = b"a request came again\n"  # said on purpose, to be counted
KILLED = -signal.SIGKILL
PRELOADED = [
    "benchmarks.warm",
    "colonnade.cli",
    "colonnade.federation.owner_process",
    "colonnade.federation.party_process",
    "torch._dynamo",
    "sklearn.metrics",
    "safetensors.torch",
    "benchmarks.sides",
]
NOT_IN_A_RESULT = ("seconds", "description")  # the clock's, and the folder's name
_JOB = """
[federation]
listen = "{listen}"
deadline = {deadline}
labels = "shown"
[[party]]
name = "bank"
files = "rows.csv"
id = "id"
label = "churn"
{parties}
[train]
method = "{method}"
rounds = {rounds}
batch = 64
seed = 3
evaluate_every = {evaluate_every}
{train}
"""
_PARTY = """
[party]
name = "{name}"
files = "rows.csv"
id = "id"
[owner]
address = "{address}"
key = "../owner/identity.pub"
[allow]
patience = {patience}
alignments = 1000
layers = 0
[peers]
{peers}
"""
_OTHER = """
[[party]]
name = "{name}"
key = "../{name}/identity.pub"
"""


@dataclass(frozen=True)
class Knobs:
    """What goes wrong inside a side; requests are counted from 1, by every process for itself."""

    kill_before: int = 0
    """Die by SIGKILL when this request has come and nothing was done with it."""
    kill_after: int = 0
    """Die when it is answered and the answer has not left."""
    twice: tuple[int, ...] = ()
    """Requests that come twice; the second answer is sent."""
    again: tuple[int, ...] = ()
    """Requests that come once more after the next one, and whose answer nobody hears."""
    stale: int = 0
    """At the owner: instead of this answer the one before it, of the same party, comes again."""
    beat: int = 400
    """Milliseconds after which a silent peer is asked for a sign of life; a party's call is taken in ten of these."""
    lie: str = ""
    """At a party: what it answers falsely, by its name in :mod:`benchmarks.lies`."""
    files: int = 0
    """How many files it may open; 0 for as many as it may here."""
    namespace: str = ""
    """The network namespace in which it lives."""


@dataclass
class Side:
    """A side's process, and when it was started."""

    name: str
    process: BaseProcess
    began: float = field(default_factory=time.time)


class Trial:
    """The files of a federation, and the processes of its sides."""

    def __init__(
        self,
        folder: Path,
        *,
        method: str = "vimadmm",
        rounds: int = 20,
        evaluate_every: int = 2,
        deadline: int = 20,
        patience: int = 30,
        train: str = "",
        listen: str = "",
        addresses: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (HOST,),
        parties: Sequence[str] = PARTIES,
    ) -> None:
        self.folder, self.deadline, self.parties = folder, deadline, tuple(parties)
        self.port = free_port()
        self.listen = listen or f"{HOST}:{self.port}"
        make_keys(folder, hosts, self.parties)
        write_rows(folder, parties=self.parties)
        (folder / OWNER / "job.toml").write_text(
            _JOB.format(
                listen=self.listen,
                deadline=deadline,
                parties="".join(_OTHER.format(name=name) for name in self.parties),
                method=method,
                rounds=rounds,
                evaluate_every=evaluate_every,
                train=train,
            )
        )
        for name in self.parties:
            address = (addresses or {}).get(name, f"{HOST}:{self.port}")
            self.dial(name, address, patience)
        self.sides: dict[str, Side] = {}
        self.left: dict[str, list[Knobs]] = {}
        self.deaths: list[tuple[str, float]] = []
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)

    def dial(self, name: str, address: str, patience: int = 30) -> None:
        """Let a party dial another address, from its next start on."""
        peers = "".join(f'{one} = "../{one}/identity.pub"\n' for one in self.parties if one != name)
        text = _PARTY.format(name=name, address=address, patience=patience, peers=peers)
        (self.folder / name / "party.toml").write_text(text)

    def run_folder(self, name: str) -> Path:
        """Where a side keeps what it has."""
        return self.folder / f"run-{name}"

    def audit_log(self, name: str) -> Path | None:
        """A side's audit log, if it has begun one."""
        found = sorted(self.run_folder(name).glob("audit.jsonl" if name == OWNER else "*/audit.jsonl"))
        return found[0] if found else None

    def command(self, name: str) -> list[str]:
        """What would be typed after ``colonnade``."""
        side_file = self.folder / name / ("job.toml" if name == OWNER else "party.toml")
        verb = ["owner", "--quiet"] if name == OWNER else ["party"]
        return [*verb, str(side_file), "--folder", str(self.run_folder(name))]

    def start(self, name: str, knobs: Knobs | None = None) -> Side:
        """Start a side, or start it again."""
        log = self.folder / f"{name}.log"
        process = self.context.Process(target=_side, args=(self.command(name), log, knobs or Knobs()), daemon=True)
        process.start()
        self.sides[name] = Side(name, process)
        return self.sides[name]

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a side a signal."""
        pid = self.sides[name].process.pid
        assert pid is not None
        os.kill(pid, how)

    def code(self, name: str) -> int | None:
        """With which code a side ended, if it has."""
        return self.sides[name].process.exitcode

    def words(self, name: str) -> str:
        """All that a side has said on its terminal."""
        log = self.folder / f"{name}.log"
        return log.read_text() if log.exists() else ""

    def said(self, name: str) -> str:
        """The last line of it."""
        return (self.words(name).splitlines() or [""])[-1]

    def requests(self, name: str) -> list[dict[str, Any]]:
        """The requests that a side has received, as its audit log has them."""
        log = self.audit_log(name)
        whole = b"" if log is None else log.read_bytes().rpartition(b"\n")[0]  # the last line may be half written yet
        lines = whole.splitlines()
        return [line for line in map(json.loads, lines) if line["what"] == "received"]

    def wait_until(self, condition: Any, seconds: float = 30.0) -> bool:
        """Whether something became true in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if condition():
                return True
            time.sleep(0.01)
        return False

    def begin(self, plan: Mapping[str, Sequence[Knobs]] | None = None) -> None:
        """Start all sides; each one's next process gets its next knobs."""
        self.left = {name: list((plan or {}).get(name, ())) for name in (OWNER, *self.parties)}
        for name in (*self.parties, OWNER):  # the owner last: its deadline begins when it listens
            self.start_next(name)

    def start_next(self, name: str) -> None:
        """Start a side with its next knobs."""
        self.start(name, self.left[name].pop(0) if self.left[name] else None)

    def watch(self, seconds: float = 60.0) -> bool:
        """Wait for the ends of all; who was killed is started again. Whether all ended in time."""

        def is_over() -> bool:
            for name in self.left:
                if self.code(name) == KILLED:
                    self.deaths.append((name, time.time()))
                    self.start_next(name)
            return all(self.code(name) is not None for name in self.left)

        return self.wait_until(is_over, seconds)

    def run(self, plan: Mapping[str, Sequence[Knobs]] | None = None, seconds: float = 60.0) -> bool:
        """Start all sides and wait for their ends."""
        self.begin(plan)
        return self.watch(seconds)

    def end(self) -> None:
        """Leave no process behind."""
        for side in self.sides.values():
            if side.process.is_alive():
                side.process.kill()
            side.process.join(5)

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def result(self) -> dict[str, str]:
        """What a run came to, by part: history, ledger, the owner's state, every party's; equal if all bits are."""
        states, facts = checkpoint.read(checkpoint.newest(self.run_folder(OWNER) / "checkpoints"))
        # Whoever comes back agrees on new keys for blinded sums; these are no part of what is trained.
        ledger = [line for line in facts["ledger"] if line["purpose"] != "setup"]
        drop = {"seconds", "bytes"} if len(ledger) < len(facts.pop("ledger")) else {"seconds"}
        history = [{key: value for key, value in row.items() if key not in drop} for row in facts.pop("history")]
        plain = {key: value for key, value in facts.items() if key not in NOT_IN_A_RESULT}
        found = {"history": _digest(history), "ledger": _digest(ledger), "facts": _digest(plain)}
        for side, state in states.items():
            kept = state.pop("kept", None)
            found[side] = _digest({name: value.numpy().tobytes().hex() for name, value in sorted(state.items())})
            if kept is not None:
                found[f"{side} itself"] = self._kept(self.parties[int(side[-3:]) - 1], int(kept))
        return found

    def _kept(self, party: str, number: int) -> str:
        (place,) = self.run_folder(party).glob(f"*/states/{number:08d}")
        states, _ = checkpoint.read(checkpoint.newest(place))
        return _digest({name: value.numpy().tobytes().hex() for name, value in sorted(states["party"].items())})

    def seconds_to_go_on(self, party: str, since: float) -> float | None:
        """How long after a time the party served a request of a run again."""
        for request in self.requests(party):
            at = datetime.fromisoformat(request["time"]).timestamp()
            if at > since and request["kind"] not in ("hello", "terms", "signed", "align", "prepare", "plan", "begin"):
                return at - since
        return None


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server((HOST, 0)) as taken:
        return int(taken.getsockname()[1])


def write_rows(folder: Path, count: int = 300, parties: Sequence[str] = PARTIES) -> None:
    """Every side's rows, most ids of which the others have too."""
    rng, columns = np.random.default_rng(0), 3 * (len(parties) + 1)
    values = rng.normal(size=(count, columns))
    labels = (values @ rng.normal(size=columns) > 0).astype(int)
    for k, side in enumerate((OWNER, *parties)):
        with (folder / side / "rows.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["id", "a", "b", "c"] + ["churn"] * (side == OWNER))
            for row in rng.permutation(count)[: count - 10 * (k + 1)]:
                own = [f"{value:.4f}" for value in values[row, 3 * k : 3 * k + 3]]
                out.writerow([f"c{row:05d}", *own] + [str(labels[row])] * (side == OWNER))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


# inside a side


def _side(command: Sequence[str], log: Path, knobs: Knobs) -> None:
    """All of a side's process."""
    from colonnade.cli import main
    from colonnade.federation import listener as listen
    from colonnade.federation import party_connection as dial
    from colonnade.store import secret_file as secret

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background would not hear it
    beats = tuple((name, knobs.beat if name.endswith("_ms") else value) for name, value in listen.KEEP_ALIVE)
    dial.KEEP_ALIVE = listen.KEEP_ALIVE = beats  # type: ignore[assignment, attr-defined]
    listen.OFTENEST_PING = knobs.beat // 4
    dial._ANSWER = min(knobs.beat / 100, 10.0)
    if knobs.files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (knobs.files, knobs.files))
    if knobs.namespace:
        with Path("/run/netns", knobs.namespace).open() as place:
            ctypes.CDLL(None).setns(place.fileno(), 0)
    whose = hashlib.sha256(log.name.encode()).digest()
    secret.fresh_secret = lambda: whose  # trials are compared with one another, so a side draws the same in all
    _turn(knobs, at_owner=command[0] == OWNER)
    sys.argv = ["colonnade", *command]
    main()


def _turn(knobs: Knobs, *, at_owner: bool) -> None:
    """Put the faults in place: where the owner receives, or where a party serves."""
    from benchmarks.lies import lie_of
    from colonnade.federation.owner_transport import OwnerTransport
    from colonnade.federation.party_link import PartyLink
    from colonnade.federation.party_session import PartySession
    from colonnade.runtime.remote.packet import Packet, read_packet

    count, last = 0, b""
    answers: dict[str, bytes] = {}
    lie = lie_of(knobs.lie)
    receive, answer = OwnerTransport._receive, PartySession.answer

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def received(self: OwnerTransport, link: PartyLink, until: float) -> bytes:
        nonlocal count
        count += 1
        if count == knobs.kill_before:
            die()
        data = receive(self, link, until)
        if count == knobs.kill_after:
            die()
        if count == knobs.stale:
            return answers[link.name]
        answers[link.name] = data
        return data

    def answered(self: PartySession, packet: Packet, request: bytes) -> bytes:
        nonlocal count, last
        count += 1
        if count == knobs.kill_before:
            die()
        reply = lie(self, request, answer(self, packet, request))
        if count == knobs.kill_after:
            die()
        if count in knobs.twice:
            reply = answer(self, packet, request)
            os.write(2, AGAIN)
        if count - 1 in knobs.again and read_packet(last).kind != "talk":  # a word has no number, and leads in anew
            answer(self, read_packet(last), last)
            os.write(2, AGAIN)
        last = request
        return reply

    if at_owner:
        OwnerTransport._receive = received  # type: ignore[method-assign]
    else:
        PartySession.answer = answered  # type: ignore[method-assign]
