"""The process of a line between two network namespaces: it holds IP packets back at a rate and for a delay.

    python packet_pump.py SPACE SECONDS_PER_BYTE ROUND_TRIP_SECONDS COUNTS

Packets of each direction leave one after the other at the rate, and arrive after half the round trip; one that finds
1,000 waiting is dropped, as with netem. COUNTS is a file of two numbers of eight bytes: bytes to the near side, bytes
from it. It imports nothing of ours, so that it starts at once.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MOST_WAITING, LARGEST_PACKET = 1000, 65536
NEAR, FAR = "10.78.0.1", "10.78.0.2"
NEAR_DEVICE, FAR_DEVICE = "clnline0", "clnline1"
COUNTS = struct.Struct("=QQ")


class Way:
    """One direction of the line."""

    def __init__(self, source: int, sink: int, byte: float, trip: float) -> None:
        self.source, self.sink, self.byte, self.delay = source, sink, byte, trip / 2
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.free = 0.0  # when the line is free again
        self.passed = 0

    @property
    def due(self) -> float:
        """When the next packet arrives."""
        return self.waiting[0][0] if self.waiting else float("inf")

    def take(self) -> None:
        """Take all packets that are there onto the line."""
        with suppress(BlockingIOError):
            while True:
                packet = os.read(self.source, LARGEST_PACKET)
                if len(self.waiting) < MOST_WAITING:
                    self.free = max(self.free, time.monotonic()) + len(packet) * self.byte
                    self.waiting.append((self.free + self.delay, packet))
                    self.passed += len(packet)

    def give(self) -> None:
        """Deliver what is due."""
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            with suppress(OSError):  # a device that is full drops a packet, as any does
                os.write(self.sink, self.waiting.popleft()[1])


def enter(space: str) -> None:
    """Let this thread, and those that it starts, live in a namespace; nothing is done without a name."""
    if space:
        with Path("/run/netns", space).open() as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"namespace {space} cannot be entered")


def device(name: str, own: str, other: str) -> int:
    """A new TUN device of the present namespace, with its address and that of the other end."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    for words in (
        ("addr", "add", own, "peer", other, "dev", name),
        ("link", "set", name, "up"),
        ("link", "set", "lo", "up"),
    ):
        subprocess.run(["ip", *words], check=True, capture_output=True)
    return file


def main(space: str, byte: str, trip: str, counts: str) -> None:
    """Make the devices, say that they are there, and move packets until somebody ends this process."""
    near = device(NEAR_DEVICE, NEAR, FAR)
    enter(space)
    far = device(FAR_DEVICE, FAR, NEAR)
    ways = [Way(source, sink, float(byte), float(trip)) for source, sink in ((far, near), (near, far))]
    with Path(counts).open("r+b") as file, mmap.mmap(file.fileno(), COUNTS.size) as shared:
        print("ready", flush=True)
        while True:
            due = min(way.due for way in ways)
            select.select([near, far], [], [], max(0.0, min(due - time.monotonic(), 1.0)))
            for way in ways:
                way.take()
                way.give()
            COUNTS.pack_into(shared, 0, *(way.passed for way in ways))


if __name__ == "__main__":
    main(*sys.argv[1:])
