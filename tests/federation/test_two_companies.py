"""The page "Two companies in fifteen minutes", followed line by line with real processes on loopback."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pages import DOCS, ROOT

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

PAGE = DOCS / "two_companies.md"
EXAMPLE = ROOT / "examples" / "federation"
SOON = 120.0  # seconds for one command on a busy machine
BEGINS = "begins with 369 rows"


class Block(NamedTuple):
    """A block of the page: its language, who has it, how it goes on, and its text."""

    language: str
    side: str
    how: str
    text: str


def blocks() -> list[Block]:
    found = re.findall(r'^```(\w+) title="(\w+):? ?([^"]*)"\n(.*?)^```', PAGE.read_text(), re.S | re.M)
    return [Block(*one) for one in found]


class Followed:
    """Both companies' folders, what runs in them, and what their operators have seen."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.printed = dict.fromkeys(("clinic", "lab"), "")
        for side in self.printed:
            (folder / side).mkdir()
            shutil.copy(EXAMPLE / "make_tables.py", folder / side)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "COLUMNS": "300", "OMP_NUM_THREADS": "1"}

    def here(self, text: str) -> str:
        """The page's port may be taken; this test has its own."""
        return text.replace("8443", str(self.port))

    def follow(self, block: Block) -> None:
        """Do what a block says, or look for what it says that one sees."""
        if block.language == "toml":
            (self.folder / block.side / block.how).write_text(self.here(block.text))
        elif block.language == "sh" and block.text.startswith("pip install"):
            self.check_extras(block.text)
        elif block.language == "sh" and block.how == "in the background":
            self.start(block)
        elif block.language == "sh":
            self.printed[block.side] = self.run(block)
        else:
            for line in self.here(block.text).splitlines():
                self.wait_to_see(block, line)

    def check_extras(self, text: str) -> None:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(re.findall(r"[a-z]+", text.partition("[")[2].partition("]")[0])) <= set(extras)

    def run(self, block: Block) -> str:
        done = subprocess.run(
            block.text,
            shell=True,
            cwd=self.folder / block.side,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SOON,
        )
        differs = "audit-log" in block.text and done.returncode == 1  # a plug was pulled, as the page says
        assert done.returncode == 0 or differs, done.stdout
        return done.stdout

    def start(self, block: Block) -> None:
        if block.side in self.running:  # the page says: kill it, and start it again
            self.running[block.side].wait(SOON)
        with (self.folder / f"{block.side}.log").open("a") as log:
            self.running[block.side] = subprocess.Popen(
                block.text.split(),
                cwd=self.folder / block.side,
                env=self.environment,
                stdout=log,
                stderr=log,
                text=True,
            )

    def log(self, side: str) -> str:
        path = self.folder / f"{side}.log"
        return path.read_text() if path.exists() else ""

    def wait_to_see(self, block: Block, line: str) -> None:
        until = time.monotonic() + SOON
        while line not in self.printed[block.side] + self.log(block.side):
            seen = line, self.printed[block.side], self.log(block.side)
            assert time.monotonic() < until and "error: " not in self.log("clinic"), seen
            time.sleep(0.05)

    def wait_for_a_checkpoint(self) -> None:
        until = time.monotonic() + SOON
        place = self.folder / "clinic" / "runs" / "job" / "checkpoints"
        while not any(one.name.isdigit() and int(one.name) for one in place.glob("*")):
            assert time.monotonic() < until and self.running["clinic"].poll() is None, self.log("clinic")
            time.sleep(0.01)

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    found = Followed(tmp_path, port)
    yield found
    found.stop()


@pytest.mark.long
def test_the_page_followed_literally(followed: Followed) -> None:
    for block in blocks():
        if block.text == "the connection to 'lab' broke\n":  # section 6: the plug, while it trains
            followed.wait_for_a_checkpoint()
            followed.running["lab"].send_signal(signal.SIGKILL)
        followed.follow(block)
        if block.how == "sees at the end":
            assert [followed.running[side].wait(SOON) for side in ("clinic", "lab")] == [0, 0], followed.log("clinic")
    for place in re.findall(r"^\| (?:clinic|lab): (.*?) \|", PAGE.read_text(), re.M):
        for one in re.findall(r"`([^`]+)`", place):
            sides = [side for side in ("clinic", "lab") if list((followed.folder / side).glob(one.rstrip("/")))]
            assert sides, f"the page says that there is {one}"
    accuracy = float(re.findall(r"accuracy ([\d.]+) %", followed.log("clinic"))[-1])
    assert accuracy > 90 and followed.log("lab").count(BEGINS) == 2, "it was killed, and came back"


def test_the_example_is_the_page_s() -> None:
    written = {(block.side, block.how): block.text for block in blocks() if block.language == "toml"}
    assert len(written) == 2
    for (side, name), text in written.items():
        assert (EXAMPLE / side / name).read_text() == text


def test_every_allowed_line_is_explained() -> None:
    (side_file,) = (block.text for block in blocks() if block.how == "party.toml")
    explained = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.M)))
    assert set(tomllib.loads(side_file)["allow"]) <= set(explained)
