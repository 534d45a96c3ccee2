"""A local page that follows a run folder: ``/`` is the report of its newest checkpoint, ``/state`` names that.

The page is made of the owner's labels, so it is served to this machine alone unless somebody says otherwise.
"""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from pathlib import Path
from threading import Lock

from colonnade.errors import CheckpointError, ColonnadeError
from colonnade.report.local_server import LOOPBACK, HttpAnswer, LocalServer
from colonnade.report.run_pages import live_page, waiting_page
from colonnade.report.summary import read_summary
from colonnade.store import checkpoint

RECENT = 3.0  # seconds; an open page asks every two


class Followed:
    """A run folder and its page; the page is made again only when there is a newer checkpoint."""

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
            made = self._made[1] if self._made is not None and self._made[0] == name else self._make(name)
            self._asked, self._seen = time.monotonic(), name
            return made

    def _make(self, name: str) -> str:
        title = self.folder.resolve().name
        if not name:
            return waiting_page(title, "Waiting for the first evaluation.")
        try:
            made = live_page(read_summary(self.folder), name)
        except ColonnadeError as error:  # not kept: the run may be writing the missing file now, so the page asks again
            return waiting_page(title, str(error))
        self._made = name, made
        return made

    def wait_for_last_look(self, patience: float = 2 * RECENT) -> None:
        """Wait, at most ``patience`` seconds, until an open page shows the newest checkpoint."""
        until = time.monotonic() + patience
        while self._seen != self.newest and time.monotonic() < min(until, self._asked + RECENT):
            time.sleep(0.05)


class WatchServer(LocalServer):
    """Answers for one followed folder at one address."""

    def __init__(self, folder: Path, host: str = LOOPBACK, port: int = 0) -> None:
        self.followed = Followed(folder)
        super().__init__(host, port)

    def answer(self, path: str) -> HttpAnswer:
        """The page, its state, and nothing else."""
        if path == "/":
            return HttpAnswer("text/html", self.followed.page())
        if path == "/state":
            return HttpAnswer("application/json", self.followed.state())
        return HttpAnswer("text/plain", "There is only / here.\n", HTTPStatus.NOT_FOUND)
