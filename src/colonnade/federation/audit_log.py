"""What a side sent and received, line by line, so that an edit, a cut or another order is found afterwards.

Each line is a JSON object. ``hash`` is the SHA-256 of the line without it, and ``before`` is the ``hash`` of the line
before, so that every line vouches for all above it. A chain alone can be rewritten by whoever holds the file; a
*seal*, the side's Ed25519 signature over the last hash, cannot. Sizes, kinds and digests are logged, values never.

A file that has grown large is put aside: ``audit.jsonl`` becomes ``audit.jsonl.1``, later ``audit.jsonl.2``, and a new
``audit.jsonl`` goes on with the same chain. Its first line has the hash of the last line before.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from colonnade.disk.whole_files import sync_folder
from colonnade.errors import ConfigError, FolderError, printable
from colonnade.signatures import Identity, pack

FORMAT = "colonnade/audit/1"
FIRST_BYTES = b'{"n":1,"time":'  # of a log; its later files have another number
START = "0" * 64  # what stands for the line before the first
LONGEST_LINE = 128 * 1024  # bytes; more than the facts below can take, all escaped
LONGEST_TEXT = 256
LARGEST_FILE = 64 * 1024 * 1024  # bytes; about 200,000 lines
MOST_FACTS = 16
_write_json = json.JSONEncoder(separators=(",", ":")).encode
_LAST_FIELD = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_LAST_FIELD_LENGTH = len(',"hash":""}') + 64

Fact = str | int | float | bool | None


class LogSeal(NamedTuple):
    """What a side sends to the others at the end: the hash of its last line, and its signature over it."""

    head: str
    signature: bytes


class AuditLog:
    """One side's log of one job; goes on where it was if the file is there already.

    Every line reaches the operating system before a call returns, and the disk with the next event.
    """

    def __init__(self, path: str | Path, side: str, job: str, largest: int = LARGEST_FILE) -> None:
        """A file of ``largest`` bytes is put aside, and the log goes on in a new one."""
        self.path, self.side, self.job, self.largest = Path(path), side, job, largest
        self._lock = Lock()
        self._head, self._lines, self._size = START, 0, 0
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            lock_file(self._file, f"the audit log {self.path} is being written by another process")
            torn = self._go_on()
            if not self._lines:
                self.event("opened", **self._whose)
            if torn:
                self.event(f"torn line of {torn} bytes dropped", bytes=torn)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def _whose(self) -> dict[str, Fact]:
        """What the first line of each file says."""
        return {"format": FORMAT, "side": _small("side", self.side), "job": _small("job", self.job)}

    @property
    def head(self) -> str:
        """The hash of the last line, which vouches for all."""
        return self._head

    def sent(self, to: str, kind: str, data: bytes | memoryview, *, round: int | None = None, **facts: Fact) -> None:
        """Log a message before it leaves; ``kind`` is the name of its step."""
        self._message("sent", to, kind, data, round, facts)

    def received(
        self, by: str, kind: str, data: bytes | memoryview, *, round: int | None = None, **facts: Fact
    ) -> None:
        """Log a message that came; ``by`` is who sent it."""
        self._message("received", by, kind, data, round, facts)

    def event(self, what: str, **facts: Fact) -> None:
        """Log something else that happened, and wait until the disk has everything up to it."""
        self._add({"what": "event", "event": _small("event", what)}, facts, durable=True)

    def seal(self, identity: Identity) -> LogSeal:
        """Sign all lines so far; the last thing that a side does."""
        with self._lock:
            self._open_next()
            head, lines = self._head, self._lines
            signature = identity.sign(signed_bytes(self.job, self.side, lines, head))
            facts: dict[str, Fact] = {"head": head, "signature": signature.hex(), "public": identity.public.hex()}
            self._append({"what": "event", "event": "sealed"}, facts, durable=True)
        return LogSeal(head, signature)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _message(
        self, way: str, peer: str, kind: str, data: bytes | memoryview, round: int | None, facts: dict[str, Fact]
    ) -> None:
        entry = {
            "what": way,
            "peer": _short(peer) if type(peer) is str else _small("peer", peer),
            "kind": _short(kind) if type(kind) is str else _small("kind", kind),
            "round": round if type(round) is int and 0 <= round < 2**63 else _small("round", round),
            "size": memoryview(data).nbytes,
            "digest": hashlib.sha256(data).hexdigest(),  # outside the lock: the one thing here that takes time
        }
        if facts:
            self._add(entry, facts, durable=False)
            return
        with self._lock:
            self._write(entry, {}, durable=False)

    def _add(self, entry: dict[str, Any], facts: dict[str, Fact], *, durable: bool) -> None:
        if len(facts) > MOST_FACTS:
            raise ConfigError(f"{len(facts)} facts came for one line of an audit log; give {MOST_FACTS} at most.")
        small = {name: _small(name, value) for name, value in facts.items()}
        with self._lock:
            self._write(entry, small, durable=durable)

    def _write(self, entry: dict[str, Any], facts: dict[str, Fact], *, durable: bool) -> None:
        """Add one line; the lock is held."""
        if self._file < 0 or not 0 < self._size < self.largest:
            self._open_next()
        self._append(entry, facts, durable=durable)

    def _open_next(self) -> None:
        """Put a full file aside, and begin the one after it; the next line goes into this one."""
        if self._file < 0:
            raise FolderError(f"the audit log {self.path} is closed already; open it again to go on.")
        if self._size >= self.largest:
            self._put_aside()
        if self._lines and not self._size:
            self._append({"what": "event", "event": "continued"}, self._whose, durable=True)

    def _put_aside(self) -> None:
        """Give the file its number, and go on in an empty one."""
        try:
            os.fsync(self._file)
            aside = 1 + max(_numbers_aside(self.path), default=0)
            self.path.rename(self.path.with_name(f"{self.path.name}.{aside}"))
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            sync_folder(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from error
        os.close(self._file)
        self._file, self._size = file, 0
        lock_file(file, f"the audit log {self.path} is being written by another process")

    def _append(self, entry: dict[str, Any], facts: dict[str, Fact], *, durable: bool) -> None:
        """Add one line to the file, whole or not at all."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        fields = {"n": self._lines + 1, "time": now, **entry, **({"facts": facts} if facts else {})}
        body = _write_json({**fields, "before": self._head}).encode()
        own = hashlib.sha256(body).hexdigest()
        line = left = b'%s,"hash":"%s"}\n' % (body[:-1], own.encode())
        try:
            while left:
                left = left[os.write(self._file, left) :]
            if durable:
                os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)  # the part that had room
            raise self._unwritable(error) from error
        self._head, self._lines, self._size = own, self._lines + 1, self._size + len(line)

    def _go_on(self) -> int:
        """Find the last whole line; cut off what a crash left behind it, and give how many bytes that was."""
        size = os.fstat(self._file).st_size
        end = _end_of_last_line(self._file, size)
        if size and not _begins_like_a_log(self._file):
            raise self._foreign()
        if end:
            self._take_up(self._file, end)
        elif _numbers_aside(self.path):  # a crash came between putting the file aside and the first line of the next
            self._take_up_aside(files_of(self.path)[-2])
        self._size = end
        if size > end:
            try:
                os.ftruncate(self._file, end)
            except OSError as error:
                raise self._unwritable(error) from error
        return size - end

    def _take_up_aside(self, path: Path) -> None:
        """Take up the end of a file that was put aside."""
        file = os.open(path, os.O_RDONLY)
        try:
            self._take_up(file, os.fstat(file).st_size)
        finally:
            os.close(file)

    def _take_up(self, file: int, end: int) -> None:
        """Go on behind the line of a file that ends at ``end``."""
        first = checked_line(os.pread(file, LONGEST_LINE, 0).partition(b"\n")[0])
        last = checked_line(_line_before(file, end))
        if first is None or last is None:
            raise self._foreign()
        held = first.get("facts", {})
        if (held.get("side"), held.get("job")) != (_small("side", self.side), _small("job", self.job)):
            raise FolderError(
                f"{self.path} is the audit log of '{held.get('side')}' in job '{held.get('job')}', not of "
                f"'{self.side}' in '{self.job}'; choose another file."
            )
        self._head, self._lines = last["hash"], last["n"]

    def _foreign(self) -> FolderError:
        return FolderError(
            f"{self.path} is no audit log, or its last line was altered; look with `colonnade audit-log verify`, and "
            "move it away."
        )

    def _unwritable(self, error: OSError) -> FolderError:
        return FolderError(
            f"the audit log {self.path} cannot be written: {error.strerror}; nothing is sent without it, so make room "
            "or choose another place, and start again."
        )


def files_of(path: Path) -> list[Path]:
    """The files of a log in their order: those that were put aside, and the newest."""
    return [*(path.with_name(f"{path.name}.{number}") for number in sorted(_numbers_aside(path))), path]


def _numbers_aside(path: Path) -> list[int]:
    """The numbers of the files that were put aside and are there."""
    endings = (file.name.removeprefix(f"{path.name}.") for file in path.parent.glob(f"{glob.escape(path.name)}.*"))
    return [int(ending) for ending in endings if re.fullmatch(r"[1-9][0-9]{0,8}", ending)]


def signed_bytes(job: str, side: str, lines: int, head: str) -> bytes:
    """What a seal signs: whose log it is, how long, and the hash that vouches for its lines."""
    return pack(FORMAT, "seal", job, side, lines, head)


def checked_line(raw: bytes) -> dict[str, Any] | None:
    """The entry of a line, without its line end; None if it is none, or not as it was written."""
    stated = _LAST_FIELD.fullmatch(raw[-_LAST_FIELD_LENGTH:])
    if stated is None:
        return None
    if hashlib.sha256(raw[:-_LAST_FIELD_LENGTH] + b"}").hexdigest().encode() != stated[1]:
        return None
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    right = isinstance(entry, dict) and type(entry.get("n")) is int and isinstance(entry.get("before"), str)
    return entry if right and isinstance(entry.get("facts", {}), dict) else None


@lru_cache(maxsize=256)
def _short(text: str) -> str:
    """A text as a log may hold it: printable, and cut if it is long. Names of sides and steps come again and again."""
    return printable(text, LONGEST_TEXT)


def _small(name: str, value: object) -> Fact:
    """The value if it is one that a log may hold: no container, array or bytes; a long text is cut."""
    if isinstance(value, str):
        return printable(value, LONGEST_TEXT)
    if value is None or type(value) is bool:
        return value
    if type(value) is int and abs(value) < 2**63:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise ConfigError(
        f"{name} of an audit log's line is a {type(value).__name__} or out of range; give a short text or a number."
    )


def lock_file(file: int, otherwise: str) -> None:
    """Lock a file for this process; on systems without such locks nothing is checked."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise FolderError(f"{otherwise}; end that one first.") from None


def _begins_like_a_log(file: int) -> bool:
    """Whether a file looks like a log: no other file may be cut. A crash may leave half a line, or zeros."""
    begin = re.sub(rb"^(\{\"n\":)[0-9]{1,18}", rb"\g<1>1", os.pread(file, 2 * len(FIRST_BYTES), 0))[: len(FIRST_BYTES)]
    return FIRST_BYTES.startswith(begin) or not begin.strip(b"\0")


def _end_of_last_line(file: int, size: int) -> int:
    """How many bytes there are up to the last line end."""
    while size:
        start = max(0, size - LONGEST_LINE)
        end = os.pread(file, size - start, start).rfind(b"\n")
        if end >= 0:
            return start + end + 1
        size = start
    return 0


def _line_before(file: int, end: int) -> bytes:
    start = max(0, end - LONGEST_LINE)
    return os.pread(file, end - 1 - start, start).rpartition(b"\n")[2]
