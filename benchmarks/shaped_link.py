"""A slow line on one machine: a TCP proxy with a bandwidth and a delay in each direction.

Where ``tc netem`` is not to be had, this stands for it. Bytes of one direction leave one after the other at the rate,
and arrive after the delay; a connection takes one way there and back before its first byte, as TCP's handshake does.
What it leaves out: TCP's slow start over the line, and loss.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from queue import Queue
from threading import Thread

PIECE = 16384
ROOM = 64  # pieces on their way in one direction: more wait at the sender, as with a full socket


class ShapedLink:
    """Passes everything on between whoever connects to ``port`` and an address, at a rate and after a delay."""

    def __init__(self, to: tuple[str, int], megabits: float, delay: float) -> None:
        """``megabits`` a second in each direction, ``delay`` in seconds one way; no rate if it is 0."""
        self.to, self.delay = to, delay
        self._byte = 8 / (megabits * 1e6) if megabits else 0.0
        self.passed = {"up": 0, "down": 0}
        self._free = {"up": 0.0, "down": 0.0}  # when the line of a direction is free again
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        time.sleep(2 * self.delay)
        try:
            far = socket.create_connection(self.to, timeout=5)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for way, source, sink in (("up", near, far), ("down", far, near)):
            queue: Queue[tuple[float, bytes]] = Queue(ROOM)
            Thread(target=self._read, args=(way, source, queue), daemon=True).start()
            Thread(target=self._write, args=(queue, sink), daemon=True).start()

    def _read(self, way: str, source: socket.socket, queue: Queue[tuple[float, bytes]]) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                self.passed[way] += len(data)
                self._free[way] = max(self._free[way], time.monotonic()) + self._byte * len(data)
                queue.put((self._free[way] + self.delay, data))
        queue.put((0.0, b""))

    def _write(self, queue: Queue[tuple[float, bytes]], sink: socket.socket) -> None:
        with suppress(OSError):
            while True:
                due, data = queue.get()
                if not data:
                    break
                time.sleep(max(0.0, due - time.monotonic()))
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
