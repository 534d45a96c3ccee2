"""A small HTTP server for readers on the same machine. It shows a few pages and changes nothing.

It answers only to who asked by a name of this machine: a foreign site that lets its own name point here gets nothing.
"""

from __future__ import annotations

import re
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple, TypeVar

from colonnade.errors import ConfigError

LOOPBACK = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest of the policy is in the page itself
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class HttpAnswer(NamedTuple):
    """The response to a request for one path."""

    kind: str
    text: str
    status: HTTPStatus = HTTPStatus.OK


class LocalServer(ThreadingHTTPServer, ABC):
    """Serves the responses that :meth:`answer` gives, at one address."""

    def __init__(self, host: str = LOOPBACK, port: int = 0) -> None:
        self.host = f"[{host}]" if ":" in host else host
        self.names = {"localhost", LOOPBACK, "[::1]", self.host.lower()}
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Answers)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "there are ports 0 to 65535 only"
            raise ConfigError(
                f"port {port} of {host} cannot be used: {why}; choose another, or 0 for any that is free."
            ) from None
        if self.server_address[0] in ("0.0.0.0", "::"):
            self.server_close()
            raise ConfigError(
                f"{host or 'an empty host'} means every address of this machine, and the page answers to one; "
                "give the address or name that its readers use."
            )

    @abstractmethod
    def answer(self, path: str) -> HttpAnswer:
        """The response to a path."""

    @property
    def address(self) -> str:
        """The URL to open in a browser."""
        return f"http://{self.host}:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader who went away in the middle of an answer is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


AnyServer = TypeVar("AnyServer", bound=LocalServer)


@contextmanager
def in_background(server: AnyServer) -> Iterator[AnyServer]:
    """Run a server in a thread of its own for the duration."""
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Answers(BaseHTTPRequestHandler):
    """Handles GET requests. The base class refuses all other HTTP methods."""

    server: LocalServer
    server_version, sys_version = "colonnade", ""
    timeout = 10.0

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self._by_our_name():
            self._send(self.server.answer(self.path))
        else:
            sentence = "This page answers to the name of its own machine only.\n"
            self._send(HttpAnswer("text/plain", sentence, HTTPStatus.FORBIDDEN))

    def _by_our_name(self) -> bool:
        """Whether the request has one Host header and it names this machine; the port may be that of a tunnel."""
        hosts = self.headers.get_all("Host", [])
        named = re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d+)?", hosts[0]) if len(hosts) == 1 else None
        return named is not None and named[1].lower() in self.server.names

    def _send(self, answer: HttpAnswer) -> None:
        raw = answer.text.encode()
        self.send_response(answer.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: an open page sends a request every two seconds."""
