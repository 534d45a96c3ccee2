"""A slow line to a port of this machine: between two network namespaces if that is permitted, else through a relay.

Where ``tc netem`` is not to be had (a kernel without the module), ``packet_pump`` stands for it: a TUN device here,
another one in a namespace of its own, and a process between the two. Slow start, acknowledgements, headers and
congestion control are the kernel's; what is left out is loss by the line itself. The relay is
:mod:`benchmarks.shaped_link`: no TCP goes over its line, so it has none of these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from benchmarks.packet_pump import COUNTS, NEAR
from benchmarks.shaped_link import ShapedLink
from colonnade.study.cost.link import Link

HOSTS = ("127.0.0.1", NEAR)
"""What the owner's certificate must be for."""


@dataclass(frozen=True)
class Line:
    """Where the far side finds the near one, in which namespace it lives, and what has passed."""

    address: str
    space: str
    kind: str
    passed: Callable[[], dict[str, int]]
    """Bytes so far: up, to the near side, and down."""


@contextmanager
def line_to(port: int, link: Link, *, packets: bool = True) -> Iterator[Line]:
    """A line to a port that listens on all addresses of this machine."""
    if packets and may_have_packets():
        with packet_line(port, link) as line:
            yield line
        return
    relay = ShapedLink(("127.0.0.1", port), link.megabits, link.trip / 2)
    try:
        yield Line(f"127.0.0.1:{relay.port}", "", "relay", lambda: dict(relay.passed))
    finally:
        relay.close()


def may_have_packets() -> bool:
    """Whether namespaces and TUN devices are permitted here."""
    space = f"clntry{os.getpid()}"
    try:
        if subprocess.run(["ip", "netns", "add", space], capture_output=True).returncode:
            return False
        subprocess.run(["ip", "netns", "del", space], capture_output=True)
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError:
        return False
    return True


@contextmanager
def packet_line(port: int, link: Link) -> Iterator[Line]:
    """A line of packets, whose far end is a namespace of its own."""
    space, program = f"clnline{os.getpid()}", Path(__file__).with_name("packet_pump.py")
    subprocess.run(["ip", "netns", "add", space], check=True, capture_output=True)
    with NamedTemporaryFile() as counts:
        counts.write(bytes(COUNTS.size))
        counts.flush()
        about = space, repr(link.byte), repr(link.trip), counts.name
        pump = subprocess.Popen([sys.executable, program, *about], stdout=subprocess.PIPE)
        try:
            assert pump.stdout is not None
            if pump.stdout.readline() != b"ready\n":
                raise SystemExit("the devices of the line cannot be made; what the pump said is above.")
            yield Line(f"{NEAR}:{port}", space, "packets", lambda: _read(Path(counts.name)))
        finally:
            pump.kill()
            pump.wait()
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


def _read(counts: Path) -> dict[str, int]:
    up, down = COUNTS.unpack(counts.read_bytes())
    return {"up": up, "down": down}
