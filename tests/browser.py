"""A real browser for tests: headless Chromium, spoken to over its DevTools pipe with the standard library alone."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# What a browser asks the network for by itself.
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
PATIENCE = 60.0  # seconds; the machines of CI are busy


class Browser:
    """One page in one browser; ``complaints`` and ``requests`` are what it said and asked for so far."""

    def __init__(self) -> None:
        assert PATH is not None
        self.profile = tempfile.mkdtemp(prefix="colonnade-browser-")
        there, self.out = os.pipe()
        self.into, here = os.pipe()
        # DevTools reads from 3 and writes to 4; bash puts the pipes there, whatever their numbers are.
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", *QUIET]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{there} 4>&{here}', "bash", PATH, *flags, f"--user-data-dir={self.profile}"],
            pass_fds=(there, here),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(here)
        self.number, self.session, self.left = 0, None, b""
        self.events: list[dict] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{part}.enable")

    def ask(self, method: str, **params) -> dict:
        """Send one command and give its result; events that come meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            came = self._next()
            if came.get("id") == self.number:
                assert "error" not in came, came
                return came["result"]

    def open(self, page: Path) -> None:
        """Load a page from disk, to its end."""
        self.events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()
        self.run("1")  # what the page's end set off has been said by now

    def run(self, script: str):
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str) -> None:
        """A key, pressed and released."""
        named = {"key": key, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **named)

    @property
    def complaints(self) -> list[dict]:
        """Console lines, exceptions and what the browser logged."""
        loud = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in loud]

    @property
    def requests(self) -> list[str]:
        """Everything that the page asked for, itself included."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        """End the browser and forget its profile."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _next(self) -> dict:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self.left:
            ready, _, _ = select.select([self.into], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            raw = os.read(self.into, 1 << 20)
            assert raw, "the browser has gone"
            self.left += raw
        line, _, self.left = self.left.partition(b"\0")
        came = json.loads(line)
        if "method" in came:
            self.events.append(came)
        return came
