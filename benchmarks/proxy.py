"""A network that misbehaves: a TCP proxy that cuts, delays, stalls, corrupts, truncates, duplicates, reorders, replays.

It sees ciphertext only. Its faults come one after the other, each after so many bytes more in any direction.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread

KINDS = ("cut", "delay", "stall", "corrupt", "truncate", "duplicate", "reorder", "replay")
DELAY = 0.2
PIECE = 16384


@dataclass(frozen=True)
class Fault:
    """What is done, after how many bytes, and where within them."""

    kind: str
    after: int
    at: float = 0.5


def drawn(seed: int, count: int, most: int = 20_000, kinds: Sequence[str] = KINDS) -> list[Fault]:
    """So many faults, every kind in turn, each up to ``most`` bytes after the one before."""
    rng = random.Random(seed)
    return [Fault(kinds[k % len(kinds)], rng.randrange(1, most), rng.random()) for k in range(count)]


class Proxy:
    """Passes bytes on between whoever connects to ``port`` and an address, but for its faults."""

    def __init__(self, host: str, port: int, faults: Sequence[Fault] = ()) -> None:
        self.to = host, port
        self.done: list[tuple[Fault, float]] = []
        self._left: Iterator[Fault] = iter(faults)
        self._lock = Lock()
        self._next = next(self._left, None)
        self._passed = 0
        self._pairs: list[_Pair] = []
        self._server = socket.create_server((host, 0))
        self.port = int(self._server.getsockname()[1])
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections, and close those there are."""
        self._server.close()
        for pair in self._pairs:
            pair.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                try:
                    far = socket.create_connection(self.to, timeout=5)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                pair = _Pair(near, far)
                self._pairs.append(pair)
                for source, sink in ((near, far), (far, near)):
                    Thread(target=self._pass, args=(pair, source, sink), daemon=True).start()

    def _pass(self, pair: _Pair, source: socket.socket, sink: socket.socket) -> None:
        before = b""
        with suppress(OSError):
            while data := source.recv(PIECE):
                fault = self._due(len(data))
                if fault is not None:
                    data = self._spoil(fault, pair, data, before, source)
                if pair.stalled:
                    continue
                sink.sendall(data)
                before = data
        if not pair.stalled:
            pair.close()

    def _due(self, size: int) -> Fault | None:
        with self._lock:
            self._passed += size
            fault = self._next
            if fault is None or self._passed < fault.after:
                return None
            self._passed, self._next = 0, next(self._left, None)
            self.done.append((fault, time.time()))
            return fault

    def _spoil(self, fault: Fault, pair: _Pair, data: bytes, before: bytes, source: socket.socket) -> bytes:
        """What goes on instead of some bytes; raises ``OSError`` if nothing does."""
        place = int(fault.at * len(data))
        if fault.kind == "cut":
            pair.close()
        elif fault.kind == "delay":
            time.sleep(DELAY)
        elif fault.kind == "stall":
            pair.stalled = True
        elif fault.kind == "corrupt":
            return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        elif fault.kind == "truncate":
            pair.close_after(data[:place], source)
        elif fault.kind == "duplicate":
            return data + data
        elif fault.kind == "reorder":
            return data[place:] + data[:place] if place else data[1:] + data[:1]
        elif fault.kind == "replay":
            return data + (before or data)
        return data


class _Pair:
    """The two sockets of a connection."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near, self.far = near, far
        self.stalled = False

    def close(self) -> None:
        """Cut it at both ends."""
        for end in (self.near, self.far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close_after(self, data: bytes, source: socket.socket) -> None:
        """Pass some last bytes on, and cut it."""
        with suppress(OSError):
            (self.far if source is self.near else self.near).sendall(data)
        self.close()
