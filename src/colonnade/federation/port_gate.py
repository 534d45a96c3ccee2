"""The gate at the owner's port: it limits connections over which no party has shown its certificate yet.

grpc takes every connection, keeps it for minutes and gives each a file; so anybody could use up the owner's files or
its memory without any key. The gate accepts in grpc's place and hands the bytes on, as they are, to a socket that only
this user can reach: TLS is between a party and grpc, and nothing is opened here. A connection costs one file until its
first TLS record is whole, and is cut unless a party's stream comes over it in time. If too many wait, the oldest goes
of the address that has most of them, so a crowd drives out itself, and addresses that parties came from go last.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import Any

from colonnade.errors import LinkError
from colonnade.federation.gate_pipe import CHUNK, Pipe
from colonnade.federation.tls import split_address

log = logging.getLogger(__name__)
PATIENCE = 15.0  # seconds from a connection to a party's stream over it
WORDS = 64 << 10  # bytes that it may say until then
SILENT, SILENT_EACH = 128, 48  # connections without a whole first record: in all, and of one address
SHAKING, SHAKING_EACH = 48, 24  # those in the middle of TLS, beside two for every party
PROVEN_EACH = 4  # connections of one party that are kept
STREAMS = 64  # that may come over one connection, one after the other; a party needs one
USUAL_FILES = 1024  # that a process may open; where it may open fewer, all but the last of the above is less
BACKLOG = 512
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE = 0.1  # seconds without accepting, if there is no file left
_TELL = 10.0  # seconds between two lines in the log about those that were turned away
_DRAIN = 0.5  # seconds that what was said last has to leave


@dataclass(frozen=True)
class Room:
    """How many may wait, in all and of one address."""

    most: int
    each: int

    @classmethod
    def of(cls, most: int, each: int, parties: int) -> Room:
        """The limits, lower if this process may open fewer files; every party has a place of its own beside them."""
        share = min(1.0, _files() / USUAL_FILES)
        return cls(max(int(share * most), 4) + parties, max(int(share * each), 2) + parties)


class Gate:
    """Accepts at ``address`` and hands on to a socket at ``inner``; ``parties`` is how many there are.

    ``turned_away`` is called with a word for each connection that was cut.
    """

    def __init__(self, address: str, parties: int, turned_away: Callable[[str], None] | None = None) -> None:
        self._sockets = bound(address)
        self.port: int = self._sockets[0].getsockname()[1]
        self._folder = TemporaryDirectory(prefix="cln-", dir=_short(), ignore_cleanup_errors=True)
        self.inner = str(Path(self._folder.name, "grpc"))
        self._silent = Room.of(SILENT, SILENT_EACH, parties)
        self._shaking = Room.of(SHAKING, SHAKING_EACH, 2 * parties)
        self._lock = Lock()
        self._waiting: dict[Pipe, None] = {}  # not proven yet, the oldest first
        self._pipes: dict[str, Pipe] = {}  # those with a connection to grpc, by their names there
        self._proven: dict[str, list[Pipe]] = {}  # by party, the oldest first
        self._known: dict[str, str] = {}  # by party: where it last came from
        self._count = turned_away or (lambda cause: None)
        self._turned: Counter[tuple[str, str]] = Counter()  # by cause and address, since that was told
        self._tell_at = self._accept_at = 0.0
        self._made, self._is_shut, self._ended = 0, False, Event()
        self._until: float | None = None  # when it must be over, if it is ending
        self._buffer = memoryview(bytearray(CHUNK))
        self._selector = DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._thread = Thread(target=self._run, name="gate", daemon=True)

    def start(self) -> None:
        """Begin to accept connections; grpc listens at ``inner`` by now."""
        self._wake.setblocking(False)
        self._selector.register(self._woken, EVENT_READ)
        self._listen()
        self._thread.start()

    def address_of(self, peer: str) -> str:
        """The address of the connection that grpc knows as ``peer``."""
        pipe = self._named(peer)
        return "an address that is gone" if pipe is None else pipe.address

    def prove(self, peer: str, party: str) -> None:
        """Keep this connection: a party that showed its certificate opened a stream over it."""
        pipe = self._named(peer)
        if pipe is None:
            return
        with self._lock:
            pipe.party, self._known[party] = party, pipe.address
            self._waiting.pop(pipe, None)
            held = self._proven.setdefault(party, [])
            held += [] if pipe in held else [pipe]
            for _ in held[:-PROVEN_EACH]:
                held.pop(0).is_unwanted = True
        self._nudge()

    def count(self, peer: str) -> None:
        """Count one more stream of this connection, and cut the connection if there are too many."""
        pipe = self._named(peer)
        if pipe is not None:
            pipe.streams += 1
            pipe.is_unwanted = pipe.is_unwanted or pipe.streams > STREAMS
            self._nudge()

    def refuse_more(self) -> None:
        """Free the port; connections that are open stay."""
        self._is_shut = True
        if self._thread.ident is None:
            self._stop_listening()
        self._nudge()

    def close(self) -> None:
        """Cut all connections, once their last bytes have left."""
        self.refuse_more()
        self._until = time.monotonic() + _DRAIN
        self._nudge()
        if self._thread.ident is not None:
            self._ended.wait(4 * _DRAIN)
        self._folder.cleanup()

    def _named(self, peer: str) -> Pipe | None:
        with self._lock:
            return self._pipes.get(peer.rpartition("/")[2])

    def _nudge(self) -> None:
        with suppress(OSError):  # it is awake, or over
            self._wake.send(b".")

    # the gate's own thread

    def _run(self) -> None:
        while self._until is None or (self._pipes and time.monotonic() < self._until):
            for key, _ in self._selector.select(self._rest()):
                if key.data is not None:
                    self._look_at(key.data, key.fileobj)  # type: ignore[arg-type]
                elif key.fileobj is self._woken:
                    self._woken.recv(4096)
                else:
                    self._accept(key.fileobj)  # type: ignore[arg-type]
            self._cut()
        self._stop_listening()
        for pipe in {*self._waiting, *self._pipes.values()}:
            self._drop(pipe)
        for opened in (self._wake, self._woken, self._selector):
            opened.close()
        self._ended.set()

    def _rest(self) -> float:
        """Seconds until the next deadline of a connection."""
        if self._until is not None:
            return 0.02
        with self._lock:
            oldest = next(iter(self._waiting), None)
        due = [self._accept_at] if self._accept_at else []
        due += [oldest.began + PATIENCE] if oldest is not None else []
        due += [self._tell_at] if self._turned else []
        return max(min(due, default=time.monotonic() + 60.0) - time.monotonic(), 0.0)

    def _accept(self, server: socket.socket) -> None:
        try:
            outer, where = server.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._stop_listening(close=False)
                self._accept_at = time.monotonic() + _PAUSE
                self._turn_away(self._worst(self._waiting), "no file left")
            return
        pipe = Pipe(outer, address_in(where))
        outer.setblocking(False)
        with suppress(OSError):
            outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._waiting[pipe] = None
        self._selector.register(outer, EVENT_READ, pipe)
        self._make_room(self._silent, pipe, joined=False)

    def _look_at(self, pipe: Pipe, end: socket.socket) -> None:
        """Read from an end of a connection; an error ends only this connection."""
        try:
            if pipe.inner is None and pipe.outer.fileno() >= 0 and pipe.greet():
                self._join(pipe)
            if pipe.inner is not None:
                pipe.move(self._buffer, end)
                self._wait_for(pipe)
        except LinkError as error:
            self._turn_away(pipe, "no TLS" if "TLS" in str(error) else "")
        except OSError as error:
            self._turn_away(pipe, "no file left" if error.errno in _NO_ROOM else "")
        except Exception as error:  # nobody's connection may end those of the others
            log.warning("a connection from %s failed: %s", pipe.address, type(error).__name__)
            self._turn_away(pipe, "failure")

    def _join(self, pipe: Pipe) -> None:
        """A connection to grpc, bound to a name by which grpc will call it."""
        self._made += 1
        name = f"c{self._made}"
        own = Path(self._folder.name, name)
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            inner.bind(str(own))
            inner.setblocking(False)
            inner.connect(self.inner)
        except OSError:
            inner.close()
            raise
        finally:
            own.unlink(missing_ok=True)
        pipe.join(inner, name)
        with self._lock:
            self._pipes[name] = pipe
        self._selector.register(inner, EVENT_READ, pipe)
        self._make_room(self._shaking, pipe, joined=True)

    def _wait_for(self, pipe: Pipe) -> None:
        """Have the selector wait for the connection's next event, or close the connection if it is over."""
        if pipe.is_over or (not pipe.party and pipe.bytes_received > WORDS):
            self._turn_away(pipe, "" if pipe.is_over else "too many words")
            return
        for end, before in pipe.waits.items():
            mask = pipe.waits_for(end)
            if mask == before:
                continue
            if before:
                self._selector.unregister(end)
            if mask:
                self._selector.register(end, mask, pipe)
            pipe.waits[end] = mask

    def _make_room(self, room: Room, new: Pipe, *, joined: bool) -> None:
        """Turn away the connections that are too many in the stage of a new one."""
        with self._lock:
            same = [pipe for pipe in self._waiting if (pipe.inner is not None) == joined]
        near = [pipe for pipe in same if pipe.address == new.address]
        if len(near) > room.each:
            self._turn_away(near[0], "crowd")
        elif len(same) > room.most:
            self._turn_away(self._worst(same), "crowd")

    def _worst(self, waiting: Iterable[Pipe]) -> Pipe | None:
        """The oldest connection of the address that has most; addresses of parties are taken last."""
        all_of = list(waiting)
        counts, known = Counter(pipe.address for pipe in all_of), set(self._known.values())
        return min(all_of, key=lambda pipe: (pipe.address in known, -counts[pipe.address], pipe.began), default=None)

    def _cut(self) -> None:
        """Turn away connections that are past their deadline or no longer wanted."""
        now = time.monotonic()
        with self._lock:
            late = [pipe for pipe in self._waiting if now - pipe.began > PATIENCE]
            unwanted = [pipe for pipe in self._pipes.values() if pipe.is_unwanted]
        for pipe in (*late, *unwanted):
            self._turn_away(pipe, "" if pipe.is_unwanted else "late")
        if self._is_shut:
            self._stop_listening()
        elif self._accept_at and now >= self._accept_at:
            self._accept_at = 0.0
            self._listen()
        if self._turned and now >= self._tell_at:
            self._tell(now)

    def _turn_away(self, pipe: Pipe | None, cause: str) -> None:
        """Close a connection; if there is a cause, count and log it."""
        if pipe is None:
            return
        if cause:
            self._turned[cause, pipe.address] += 1
            self._count(cause)
        self._drop(pipe)

    def _tell(self, now: float) -> None:
        causes, addresses = Counter[str](), Counter[str]()
        for (cause, address), times in self._turned.items():
            causes[cause] += times
            addresses[address] += times
        self._turned, self._tell_at = Counter(), now + _TELL
        why = ", ".join(f"{cause}: {times}" for cause, times in causes.most_common())
        log.warning(
            "turned away %d connections on which no party showed its certificate (%s), most from %s",
            causes.total(), why, addresses.most_common(1)[0][0],
        )  # fmt: skip

    def _drop(self, pipe: Pipe) -> None:
        with self._lock:
            self._waiting.pop(pipe, None)
            self._pipes.pop(pipe.name, None)
            if pipe in self._proven.get(pipe.party, ()):
                self._proven[pipe.party].remove(pipe)
        for end in pipe.sockets:
            with suppress(KeyError, ValueError):
                self._selector.unregister(end)
        pipe.waits.clear()  # an event of its other end may have come with this one
        pipe.close()

    def _listen(self) -> None:
        for listening in self._sockets:
            self._selector.register(listening, EVENT_READ)

    def _stop_listening(self, *, close: bool = True) -> None:
        for listening in self._sockets:
            with suppress(KeyError, ValueError):
                self._selector.unregister(listening)
            if close:
                listening.close()


def bound(address: str) -> list[socket.socket]:
    """Sockets that listen at all that an address stands for, or why that cannot be."""
    host, port = split_address(address)
    if not hasattr(socket, "AF_UNIX"):
        raise LinkError("the owner's port needs Unix sockets, which this system lacks; lead the job from another one.")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = addresses[0]
        first = _listening(family, kind, protocol, where)
    except (socket.gaierror, UnicodeError):
        raise LinkError(f"the name '{host}' does not resolve; listen at an address of this machine.") from None
    except OSError as error:
        raise LinkError(
            f"port {port} of {host} cannot be listened at: {error.strerror}; choose another port, or an address of "
            "this machine."
        ) from None
    sockets = [first]
    for family, kind, protocol, _, where in addresses[1:]:
        with suppress(OSError):  # such as a machine without IPv6
            sockets.append(_listening(family, kind, protocol, (where[0], first.getsockname()[1], *where[2:])))
    return sockets


def _listening(family: int, kind: int, protocol: int, where: Any) -> socket.socket:
    server = socket.socket(family, kind, protocol)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(where[0] != "::"))
        server.bind(where)
        server.listen(BACKLOG)
        server.setblocking(False)
    except OSError:
        server.close()
        raise
    return server


def address_in(where: Any) -> str:
    """Who counts as one: an address, or what one customer has of the newer kind.

    >>> address_in(("192.0.2.7", 50_000)), address_in(("2001:db8:1:2:3::4", 50_000, 0, 0))
    ('192.0.2.7', '2001:db8:1:2::/64')
    """
    address = ipaddress.ip_address(str(where[0]).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    return str(mapped) if mapped.version == 4 else str(ipaddress.ip_network((mapped, 64), strict=False))


def _files() -> float:
    """How many files this process may open."""
    try:
        import resource
    except ImportError:
        return USUAL_FILES
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf") if most == resource.RLIM_INFINITY else most


def _short() -> str | None:
    """A folder whose name leaves room for ours: that of a Unix socket has a hundred characters at most."""
    from tempfile import gettempdir

    return "/tmp" if len(gettempdir()) > 60 else None
