"""Strangers at an owner's port: connections without any key that say nothing, half of TLS, or a byte now and then."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def client_hello() -> bytes:
    """The first record of TLS, as anybody can write it."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(into, out, server_hostname="localhost").do_handshake()
    return out.read()


class Crowd:
    """Sockets to a port, held open; those that are cut may come again."""

    def __init__(self, port: int, idle: int = 0, half: int = 0, dripping: int = 0) -> None:
        self.port, self._hello = port, client_hello()
        self.sockets: list[tuple[str, socket.socket]] = []
        for kind, count in (("idle", idle), ("half", half), ("dripping", dripping)):
            self.sockets += [(kind, self._connected(kind)) for _ in range(count)]
        self._dripped = 0

    def _connected(self, kind: str) -> socket.socket:
        one = socket.create_connection(("127.0.0.1", self.port), 5.0)
        one.setblocking(False)
        if kind == "half":
            with suppress(OSError):
                one.send(self._hello)
        return one

    def drip(self) -> None:
        """One more byte of the record from each that drips."""
        self._dripped = (self._dripped + 1) % len(self._hello)
        for kind, one in self.sockets:
            if kind == "dripping":
                with suppress(OSError):
                    one.send(self._hello[self._dripped - 1 : self._dripped])

    def cut(self) -> int:
        """How many of them were hung up on."""
        return sum(_is_cut(one) for _, one in self.sockets)

    def come_again(self) -> int:
        """Those that were hung up on connect once more; how many."""
        back = [k for k, (_, one) in enumerate(self.sockets) if _is_cut(one)]
        for k in back:
            kind, one = self.sockets[k]
            one.close()
            with suppress(OSError):
                self.sockets[k] = kind, self._connected(kind)
        return len(back)

    def go(self) -> None:
        """Hang up."""
        for _, one in self.sockets:
            one.close()


def _is_cut(one: socket.socket) -> bool:
    if one.fileno() < 0:
        return True
    try:
        while True:
            if not one.recv(65_536):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


@contextmanager
def crowd(port: int, **kinds: int) -> Iterator[Crowd]:
    """A crowd that goes at the end."""
    found = Crowd(port, **kinds)
    try:
        yield found
    finally:
        found.go()
