"""A federation over several hosts: network namespaces of this machine joined by veth, slow, lossy, and parted."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.sides import OWNER, PARTIES, Knobs, Trial

from colonnade.federation.exit_codes import Exit

pytestmark = pytest.mark.long
PORT = 8443
DEADLINE = 60


def sh(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"'{' '.join(words)}' is not permitted or not there: {done.stderr.strip()}")


class Hosts:
    """One namespace per side, each party's joined to the owner's by a link of its own."""

    def __init__(self, folder: Path, rounds: int = 30, deadline: int = DEADLINE) -> None:
        self.spaces = {side: f"cln{os.getpid()}{side}" for side in (OWNER, *PARTIES)}
        self.owners = {party: f"10.77.{k}.1" for k, party in enumerate(PARTIES)}
        self.trial = Trial(
            folder,
            rounds=rounds,
            deadline=deadline,
            listen=f"0.0.0.0:{PORT}",
            addresses={party: f"{address}:{PORT}" for party, address in self.owners.items()},
            hosts=list(self.owners.values()),
        )

    def join(self) -> None:
        for space in self.spaces.values():
            sh("ip", "netns", "add", space)
            sh("ip", "-n", space, "link", "set", "lo", "up")
        for k, party in enumerate(PARTIES):
            near, far = f"to-{party}", "to-owner"
            sh("ip", "-n", self.spaces[OWNER], "link", "add", near, "type", "veth", "peer", "name", f"v{k}")
            sh("ip", "-n", self.spaces[OWNER], "link", "set", f"v{k}", "netns", self.spaces[party], "name", far)
            for side, device, host in ((OWNER, near, 1), (party, far, 2)):
                sh("ip", "-n", self.spaces[side], "addr", "add", f"10.77.{k}.{host}/24", "dev", device)
                sh("ip", "-n", self.spaces[side], "link", "set", device, "up")

    def spoil(self, *how: str) -> None:
        """Delay or loss on all links, in both directions."""
        for party in PARTIES:
            for side, device in ((OWNER, f"to-{party}"), (party, "to-owner")):
                sh("tc", "-n", self.spaces[side], "qdisc", "add", "dev", device, "root", "netem", *how)

    def link(self, party: str, state: str) -> None:
        sh("ip", "-n", self.spaces[OWNER], "link", "set", f"to-{party}", state)

    def start(self) -> None:
        self.trial.begin({side: [Knobs(namespace=space)] for side, space in self.spaces.items()})

    def close(self) -> None:
        self.trial.end()
        for space in self.spaces.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with Trial(tmp_path_factory.mktemp("undisturbed"), rounds=30, deadline=DEADLINE) as trial:
        assert trial.run(seconds=90), trial.words(OWNER)
        return trial.result()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    found = Hosts(tmp_path)
    try:
        found.join()
        yield found
    finally:
        found.close()


def test_a_slow_and_lossy_network_changes_no_bit(hosts: Hosts, undisturbed: dict[str, str]) -> None:
    hosts.spoil("delay", "15ms", "5ms", "loss", "2%")
    hosts.start()
    assert hosts.trial.watch(120), hosts.trial.words(OWNER)
    assert hosts.trial.result() == undisturbed


def test_a_party_that_is_parted_for_a_while_goes_on(hosts: Hosts, undisturbed: dict[str, str]) -> None:
    hosts.start()
    assert hosts.trial.wait_until(lambda: len(hosts.trial.requests("shop")) >= 30, 90), hosts.trial.words(OWNER)
    hosts.link("shop", "down")
    before = len(hosts.trial.requests("shop"))
    time.sleep(4)
    assert len(hosts.trial.requests("shop")) - before <= 1, "the network was not parted"
    hosts.link("shop", "up")
    assert hosts.trial.watch(120), hosts.trial.words(OWNER)
    assert hosts.trial.result() == undisturbed


def test_a_party_that_stays_parted_is_named(tmp_path: Path) -> None:
    found = Hosts(tmp_path, rounds=2000, deadline=5)
    try:
        found.join()
        found.start()
        assert found.trial.wait_until(lambda: len(found.trial.requests("shop")) >= 30, 90), found.trial.words(OWNER)
        found.link("shop", "down")
        began = time.monotonic()
        assert found.trial.wait_until(lambda: found.trial.code(OWNER) is not None, 40), "the owner hangs"
        assert found.trial.code(OWNER) == Exit.AWAY
        assert time.monotonic() - began < 5 + 10
        assert "'shop' did not" in found.trial.said(OWNER)
    finally:
        found.close()
