"""How far a side is, in ``status.json`` of its folder, for ``colonnade status`` and other readers.

The file is small, replaced as a whole, and says nothing that the side's own operator may not know.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from colonnade.disk.small_files import read_json
from colonnade.disk.whole_files import write_text
from colonnade.errors import ColonnadeError, FolderError, printable, unknown

NAME = "status.json"
STATES = ("waiting", "aligning", "training", "describing", "finished", "stopped")
ENDED = ("finished", "stopped")
EVERY = 1.0  # seconds between two writings that only say how far it is
BEAT = 10.0  # seconds between signs of life
STALE = 60.0  # seconds without one
_KINDS = (
    *((name, str) for name in ("side", "job", "state", "host")),
    *((name, str | None) for name in ("error", "began")),
    *((name, int) for name in ("round", "rounds", "pid")),
    ("updated", int | float),
)


@dataclass(frozen=True)
class SideStatus:
    """Another side, and since when it is connected or absent (seconds since 1970)."""

    name: str
    connected: bool
    since: float


@dataclass(frozen=True)
class Status:
    """What a side says of itself."""

    side: str
    job: str
    state: str
    round: int
    rounds: int
    peers: tuple[SideStatus, ...] = ()
    error: str | None = None
    pid: int = field(default_factory=os.getpid)
    began: str | None = None
    """When the process began, as the system counts; so another process with the same number is not taken for it."""
    host: str = field(default_factory=socket.gethostname)
    updated: float = field(default_factory=time.time)

    def is_alive(self) -> bool | None:
        """Whether its process is there; None if it is on another machine or in another container."""
        if self.host != socket.gethostname():
            return None
        return self.pid > 0 and _is_running(self.pid) and (self.began is None or _began(self.pid) in (None, self.began))

    def ails(self, now: float | None = None) -> str | None:
        """What is wrong with a side that has not ended, in a sentence; None if nothing is."""
        if self.state in ENDED:
            return None
        if self.is_alive() is False:
            return f"the process {self.pid} is gone and did not say why; start the side again to go on."
        silent = (time.time() if now is None else now) - self.updated
        if silent > STALE:
            return f"there was no sign of life for {silent:.0f} seconds; the process may hang."
        return None


class StatusFile:
    """Writes a side's status, from any thread: at once what changes, once a second how far it is."""

    def __init__(self, folder: str | Path, side: str, job: str, rounds: int, peers: Sequence[str] = ()) -> None:
        self.path = Path(folder) / NAME
        self._lock = Lock()
        now = time.time()
        absent = tuple(SideStatus(name, False, now) for name in peers)
        self._status = Status(side, job, "waiting", 0, rounds, absent, began=_began(os.getpid()))
        self._write()

    @property
    def status(self) -> Status:
        """What it says at present."""
        return self._status

    def state(self, state: str, error: str | None = None) -> None:
        """Note another state of the side; ``error`` is the sentence that caused it."""
        if state not in STATES:
            raise unknown("state", state, STATES)
        self._change(state=state, error=error or self._status.error)

    def describe(self, job: str, rounds: int) -> None:
        """Which job it is and how many rounds it has, as soon as that is known."""
        self._change(job=job, rounds=rounds)

    def failed(self, sentence: str) -> None:
        """Something went wrong, and the side goes on."""
        self._change(error=sentence)

    def round(self, round: int) -> None:
        """The present round; also a sign of life."""
        self._change(round=round, at_once=False)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Give signs of life while a side waits for a peer, which may take longer than a minute."""
        over = Event()

        def beat() -> None:
            while not over.wait(BEAT):
                with suppress(FolderError):  # no room for it is found by what matters more
                    self._change(at_once=False)

        thread = Thread(target=beat, name="signs of life", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def working(self, stop: Callable[[str], None], interrupted: str) -> Iterator[None]:
        """Give signs of life during the work; if it ends with an error, ``stop`` hears why."""
        try:
            with self.beating():
                yield
        except ColonnadeError as error:
            stop(str(error))
            raise
        except KeyboardInterrupt:
            stop(interrupted)
            raise

    def connected(self, name: str) -> None:
        """A peer is there."""
        self._peer(SideStatus(name, True, time.time()))

    def absent(self, name: str) -> None:
        """A peer is not there."""
        self._peer(SideStatus(name, False, time.time()))

    def _peer(self, peer: SideStatus) -> None:
        with self._lock:
            peers = {known.name: known for known in self._status.peers}
            if peer.name in peers and peers[peer.name].connected == peer.connected:
                return  # it is so since then already
            self._status = replace(self._status, peers=tuple((peers | {peer.name: peer}).values()))
            self._write()

    def _change(self, *, at_once: bool = True, **facts: Any) -> None:
        for name, value in facts.items():
            facts[name] = printable(value) if isinstance(value, str) else value
        with self._lock:
            before = self._status.updated
            self._status = replace(self._status, **facts)
            if at_once or not 0 <= time.time() - before < EVERY:
                self._write()

    def _write(self) -> None:
        self._status = replace(self._status, updated=time.time())
        write_text(self.path, json.dumps(asdict(self._status), indent=2) + "\n")


def read_status(folder: str | Path) -> Status:
    """What the side of a folder last said."""
    path = Path(folder) / NAME
    try:
        raw = read_json(path)
        peers = tuple(
            SideStatus(str(side["name"]), bool(side["connected"]), float(side["since"])) for side in raw.pop("peers")
        )
        status = Status(**raw, peers=peers)
        if status.state not in STATES or not all(isinstance(getattr(status, name), kind) for name, kind in _KINDS):
            raise ValueError
    except OSError as error:
        raise FolderError(
            f"{path} cannot be read: {error.strerror}; give the folder of an owner or a party that was started."
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FolderError(f"{path} is no status of a side; give the folder of an owner or a party.") from None
    return status


def _is_running(pid: int) -> bool:
    if (_stat(pid) or [""])[0] == "Z":  # it ended, and whoever started it has not asked how
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's, so it is there
        return True
    return True


def _began(pid: int) -> str | None:
    """When a process began, in ticks since the machine started; None where the system does not say."""
    fields = _stat(pid)
    return fields[19] if fields else None


def _stat(pid: int) -> list[str] | None:
    """What Linux says of a process behind its name, as proc(5) counts from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
