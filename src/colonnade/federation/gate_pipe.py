"""One connection through the owner's gate: it passes bytes from outside to grpc and back, unchanged."""

from __future__ import annotations

import socket
import time
from selectors import EVENT_READ, EVENT_WRITE

from colonnade.errors import LinkError

RECORD_HEAD = 5  # bytes: kind, version, length
HANDSHAKE = 0x16
LONGEST_RECORD = 16 << 10
CHUNK = 256 << 10
_AT_ONCE = 8  # chunks of one connection before the others have their turn


class Way:
    """From one socket to another; at most one chunk waits on it, so a slow reader slows its writer down."""

    def __init__(self, source: socket.socket, sink: socket.socket, first: bytes = b"") -> None:
        self.source, self.sink, self.pending = source, sink, first
        self.count, self.ended = len(first), False

    @property
    def is_over(self) -> bool:
        """Whether the source has ended and all of its bytes were passed on."""
        return self.ended and not self.pending

    def move(self, buffer: memoryview) -> None:
        """Read and write what is possible without waiting."""
        for _ in range(_AT_ONCE):
            if self.pending:
                self.pending = self._given(memoryview(self.pending))
            if self.pending or self.ended:
                break
            try:
                size = self.source.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                size = 0
            self.count, self.ended = self.count + size, not size
            self.pending = self._given(buffer[:size])
            if 0 < size < len(buffer):
                return  # that was all; whoever asks the socket again only hears so
        if self.is_over:
            _end(self.sink)

    def _given(self, data: memoryview) -> bytes:
        """Send, and return the bytes that must wait."""
        try:
            return bytes(data[self.sink.send(data) :]) if data else b""
        except (BlockingIOError, InterruptedError):
            return bytes(data)
        except OSError:  # nobody reads it
            self.ended = True
            return b""


class Pipe:
    """A connection from outside, which gets one to grpc when its first TLS record is whole."""

    def __init__(self, outer: socket.socket, address: str) -> None:
        self.outer, self.address, self.began = outer, address, time.monotonic()
        self.inner: socket.socket | None = None
        self.party, self.name = "", ""
        self.is_unwanted = False  # said by other threads
        self.streams = 0  # that came over it
        self.waits = {outer: EVENT_READ}  # what the selector waits for, by socket
        self._hello = bytearray()
        self._ways: tuple[Way, ...] = ()

    @property
    def sockets(self) -> list[socket.socket]:
        """One, or two."""
        return [self.outer] if self.inner is None else [self.outer, self.inner]

    @property
    def bytes_received(self) -> int:
        """Bytes from outside."""
        return self._ways[0].count if self._ways else len(self._hello)

    @property
    def is_over(self) -> bool:
        """Whether grpc has sent its last bytes, or the peer has closed the connection."""
        return self.is_unwanted or bool(self._ways and self._ways[1].is_over)

    def greet(self) -> bool:
        """Read more of the first TLS record, and return whether it is whole; :class:`LinkError` if it is none."""
        while len(self._hello) < self._due():
            try:
                data = self.outer.recv(self._due() - len(self._hello))
            except (BlockingIOError, InterruptedError):
                return False
            if not data:
                raise LinkError("it hung up.")
            self._hello += data
        return True

    def _due(self) -> int:
        """The length of the first record, as far as it is known."""
        if len(self._hello) < RECORD_HEAD:
            return RECORD_HEAD
        length = int.from_bytes(self._hello[3:RECORD_HEAD], "big")
        if self._hello[0] != HANDSHAKE or self._hello[1] != 3 or not 0 < length <= LONGEST_RECORD:
            raise LinkError("it does not speak TLS.")
        return RECORD_HEAD + length

    def join(self, inner: socket.socket, name: str) -> None:
        """Pass its bytes on to grpc, which knows the connection by this name."""
        self.inner, self.name, self.waits[inner] = inner, name, EVENT_READ
        self._ways = Way(self.outer, inner, bytes(self._hello)), Way(inner, self.outer)

    def move(self, buffer: memoryview, end: socket.socket) -> None:
        """Read from one of its sockets, and write what waits for it, as far as is possible without waiting."""
        for way in self._ways:
            if way.source is end or (way.pending and way.sink is end):
                way.move(buffer)

    def waits_for(self, end: socket.socket) -> int:
        """The events that the selector must wait for at one of its sockets."""
        if not self._ways:
            return EVENT_READ
        into, out = self._ways if end is self.outer else self._ways[::-1]
        reads = EVENT_READ if not into.ended and not into.pending else 0
        return reads | (EVENT_WRITE if out.pending else 0)

    def close(self) -> None:
        """Give the sockets back."""
        for end in self.sockets:
            end.close()


def _end(sink: socket.socket) -> None:
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return
