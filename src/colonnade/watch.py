"""A local page that follows a run folder: ``/`` is its report as it is now, ``/state`` says which checkpoint that is.

The page is made of the owner's labels, so it is served to this machine alone unless somebody says otherwise, and only
to who asked for it by a name of this machine: a foreign site that lets its own name point here gets nothing.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

from colonnade import checkpoint
from colonnade.errors import CheckpointError, ColonnadeError, ConfigError
from colonnade.report import live_page, read_summary, waiting_page

LOOPBACK = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest of the policy is in the page itself
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
RECENT = 3.0  # seconds; an open page asks every two


class Followed:
    """A run folder as a page, which is made anew only when there is a newer checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = Lock()
        self._made: tuple[str, str] | None = None
        self._asked = -RECENT
        self._seen: str | None = None

    @property
    def newest(self) -> str:
        """The name of the newest checkpoint; empty before the first."""
        try:
            return checkpoint.newest(self.folder / "checkpoints").name
        except CheckpointError:
            return ""

    def state(self) -> str:
        """The newest checkpoint and its round, as JSON."""
        self._asked = time.monotonic()
        name = self.newest
        return json.dumps({"round": int(name[:8]) if name else None, "checkpoint": name})

    def page(self) -> str:
        """The page about the newest checkpoint."""
        with self._lock:  # so that two readers do not make the same page twice
            name = self.newest
            if self._made is None or self._made[0] != name:
                self._made = name, self._make(name)
            self._asked, self._seen = time.monotonic(), name
            return self._made[1]

    def _make(self, name: str) -> str:
        title = self.folder.resolve().name
        if not name:
            return waiting_page(title, "Waiting for the first evaluation.")
        try:
            return live_page(read_summary(self.folder), name)
        except ColonnadeError as error:
            return waiting_page(title, str(error), name)

    def wait_for_last_look(self, patience: float = 2 * RECENT) -> None:
        """Wait until whoever has the page open has the newest checkpoint; not at all if nobody has."""
        until = time.monotonic() + patience
        while self._seen != self.newest and time.monotonic() < min(until, self._asked + RECENT):
            time.sleep(0.05)


class Server(ThreadingHTTPServer):
    """Answers for one followed folder at one address."""

    def __init__(self, folder: Path, host: str = LOOPBACK, port: int = 0) -> None:
        self.followed = Followed(folder)
        self.host = f"[{host}]" if ":" in host else host
        self.names = {"localhost", LOOPBACK, "[::1]", self.host.lower()}
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Answers)
        except OSError as error:
            raise ConfigError(
                f"port {port} of {host} cannot be used: {error.strerror}; choose another, or 0 for any that is free."
            ) from None
        if self.server_address[0] in ("0.0.0.0", "::"):
            self.server_close()
            raise ConfigError(
                f"{host or 'an empty host'} means every address of this machine, and the page answers to one; "
                "give the address or name that its readers use."
            )

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{self.host}:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader who went away in the middle of an answer is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def in_background(server: Server) -> Iterator[Server]:
    """Let a server answer beside other work."""
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Answers(BaseHTTPRequestHandler):
    """Two addresses and nothing else; methods that are not here are refused by the base class."""

    server: Server
    server_version, sys_version = "colonnade", ""
    timeout = 10.0

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        followed = self.server.followed
        if not self._by_our_name():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "This page answers to the name of its own machine only.\n")
        elif self.path == "/":
            self._send(HTTPStatus.OK, "text/html", followed.page())
        elif self.path == "/state":
            self._send(HTTPStatus.OK, "application/json", followed.state())
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "There is only / here.\n")

    def _by_our_name(self) -> bool:
        """Whether the one Host that was asked for is ours; its port may be that of a tunnel."""
        hosts = self.headers.get_all("Host", [])
        named = re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d+)?", hosts[0]) if len(hosts) == 1 else None
        return named is not None and named[1].lower() in self.server.names

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        raw = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: an open page asks every two seconds."""
