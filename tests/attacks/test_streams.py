"""A party with a valid certificate that abuses HTTP/2 after TLS: the owner serves the others on, in little memory."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from test_port import HOST, called, made, mine, owner

from colonnade.federation.tls import client_context

__all__ = ["made"]
SECONDS, MOST_MB = 1.5, 50.0


def frame(kind: int, flags: int, stream: int, data: bytes = b"") -> bytes:
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data


def literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def headers(stream: int, path: bytes = b"/colonnade.Link/Stream", more: bytes = b"") -> bytes:
    told = {b":method": b"POST", b":scheme": b"https", b":path": path, b":authority": b"x", b"te": b"trailers"}
    told[b"content-type"] = b"application/grpc"
    return frame(1, 4, stream, b"".join(literal(*one) for one in told.items()) + more)


FLOODS: dict[str, Callable[[int], bytes]] = {
    "streams": headers,
    "resets": lambda stream: headers(stream) + frame(3, 0, stream, b"\0\0\0\x08"),
    "other names": lambda stream: headers(stream, b"/x/y"),
    "long headers": lambda stream: headers(stream, more=b"".join(literal(b"x%d" % k, b"y" * 120) for k in range(90))),
    "settings": lambda stream: 50 * frame(4, 0, 0, b"\0\x04\0\0\xff\xff"),
    "pings": lambda stream: 50 * frame(6, 0, 0, b"12345678"),
}


def flood(folder: Path, port: int, words: Callable[[int], bytes], over: Event) -> None:
    context = client_context(mine(folder, "bank"))
    while not over.is_set():
        with suppress(OSError), socket.create_connection((HOST, port)) as plain:
            plain.settimeout(1.0)
            with context.wrap_socket(plain, server_hostname=HOST) as link:
                link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + headers(1))
                for first in range(3, 1 << 24, 100):
                    link.sendall(b"".join(map(words, range(first, first + 100, 2))))
                    if over.is_set():
                        break


def memory(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.long if what == "pings" else ()) for what in FLOODS]
)
def test_a_party_that_floods_its_connection_stops_nobody(what: str, made: Path) -> None:
    over = Event()
    with owner(made, "gate") as (port, process), closing(called(made, port, "mill")) as mill:
        mill.send(bytes(1 << 20))
        mill.receive(5.0)
        before = memory(process.pid)
        attacks = [Thread(target=flood, args=(made, port, FLOODS[what], over), daemon=True) for _ in range(2)]
        for one in attacks:
            one.start()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            mill.send(b"still")
            assert mill.receive(5.0) == b"still"
            time.sleep(0.02)
        grown = memory(process.pid) - before
        with closing(called(made, port, "mill")) as again:  # who comes amid it
            again.send(b"here")
            assert again.receive(5.0) == b"here"
        over.set()
        for one in attacks:
            one.join(5.0)
        assert grown < MOST_MB
