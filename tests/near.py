"""A federation in one process, to test what its sides refuse: real files, keys, owners and parties, but no sockets.

What a party answers can be spoilt on its way, as a liar at the other end of the line would.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from colonnade.errors import AwayError
from colonnade.federation.certificates import make_keys
from colonnade.federation.handshake import facts_in
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.party_session import PartySession
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.federation.side_sections import OwnerFile
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.wire.message import Envelope, decode_fields, encode

Spoil = Callable[[Packet, Packet], "Packet | bytes"]
PARTIES = ("shop", "mill")
RECORD = "[audit]\nrecord = true"
JOB = """
[federation]
listen = "127.0.0.1:0"
deadline = 5
{federation}
[[party]]
name = "bank"
files = "table.csv"
id = "id"
label = "churn"
[[party]]
name = "shop"
key = "../shop/identity.pub"
[[party]]
name = "mill"
key = "../mill/identity.pub"
[align]
{align}
[train]
method = "{method}"
batch = 16
{train}
{more}
"""
PARTY = """
[party]
name = "{name}"
files = "table.csv"
id = "id"
[owner]
address = "{address}"
key = "../bank/identity.pub"
[allow]
patience = 1
{allow}
{more}
"""


def make_sides(folder: Path, rows: int = 40) -> Path:
    """Keys and tables of a bank, a shop and a mill, who know the same people, each in an order of its own."""
    make_keys(folder, ["127.0.0.1", "localhost"], list(PARTIES))
    shutil.move(folder / "owner", folder / "bank")
    draw = np.random.default_rng(0)
    values = draw.normal(size=(rows, 9)).round(4)
    churn = (values.sum(1) > 0).astype(int)
    for k, name in enumerate(("bank", *PARTIES)):
        with (folder / name / "table.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *"abc", *(["churn"] if name == "bank" else [])])
            for row in draw.permutation(rows):
                label = [churn[row]] if name == "bank" else []
                writer.writerow([f"c{row:03d}", *values[row, 3 * k : 3 * k + 3], *label])
    return folder


class Near:
    """In place of a listener: a request is served at once, and its reply lies there until it is taken."""

    def __init__(self, guests: dict[str, PartySession], spoil: dict[str, Spoil]) -> None:
        self.guests, self.spoil = guests, spoil
        self.replies: dict[str, deque[bytes]] = {name: deque() for name in guests}
        self.goodbyes: dict[str, str] = {}

    def connection(self, party: str) -> int:
        return 1

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        if after:
            raise AwayError(f"'{party}' is gone.", party)
        return 1

    def send(self, party: str, connection: int, data: bytes) -> None:
        reply = self.guests[party].serve(data)
        if party in self.spoil:
            spoilt = self.spoil[party](read_packet(data), read_packet(reply))
            reply = spoilt if isinstance(spoilt, bytes) else write_packet(spoilt)
        self.replies[party].append(reply)

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        return self.replies[party].popleft()

    def first(self, connections: Mapping[str, int], seconds: float) -> str | None:
        return next(iter(connections))

    def hang_up(self, party: str, reason: str) -> None:
        self.goodbyes[party] = reason

    def close(self) -> None:
        pass


class Sides:
    """Three sides in a folder: their files are written, and parties and an owner made of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.guests: dict[str, PartySession] = {}
        self.write_parties()

    def write_parties(
        self, allow: str = "", more: str = "", address: str = "127.0.0.1:1", peers: str | None = None
    ) -> None:
        """Every party's file; each knows the other's key unless ``peers`` says otherwise."""
        for name in PARTIES:
            (other,) = set(PARTIES) - {name}
            known = f'{other} = "../{other}/identity.pub"' if peers is None else peers
            more_of_it = f"{more}\n[peers]\n{known}"
            side_file = PARTY.format(name=name, allow=allow, more=more_of_it, address=address)
            (self.folder / name / "party.toml").write_text(side_file)

    def owner_file(
        self,
        method: str = "splitnn",
        train: str = "rounds = 2",
        align: str = "",
        federation: str = 'labels = "inferable"',
        more: str = "",
    ) -> OwnerFile:
        text = JOB.format(method=method, train=train, align=align, federation=federation, more=more)
        (self.folder / "bank" / "job.toml").write_text(text)
        return read_owner_file(self.folder / "bank" / "job.toml")

    def guest(self, name: str) -> PartySession:
        return PartySession(read_party_file(self.folder / name / "party.toml"), self.folder / f"run-{name}")

    def host(
        self, kind: type[OwnerProcess] = OwnerProcess, spoil: dict[str, Spoil] | None = None, **job: str
    ) -> OwnerProcess:
        """The owner's process; guests that are there stay, as a party's process would."""
        side_file = self.owner_file(**job)
        for name in PARTIES:
            self.guests.setdefault(name, self.guest(name))
        listener: Any = Near(self.guests, spoil or {})
        return kind(side_file, self.folder / "run-bank", listener=listener)

    def restart(self) -> None:
        """All parties' processes end; the next host finds new ones."""
        for guest in self.guests.values():
            if guest.audit is not None:
                guest.audit.close()
        self.guests.clear()


def spoil_facts(word: str, change: Callable[[dict[str, Any]], Any]) -> Spoil:
    """Change what a party says in answer to a word."""

    def spoil(request: Packet, reply: Packet) -> Packet:
        if request.kind != "talk" or request.step != word or reply.kind != "answer":
            return reply
        facts = facts_in(reply)
        change(facts)
        return replace(reply, frames=(json.dumps(facts).encode(),))

    return spoil


def spoil_values(change: Callable[[torch.Tensor], torch.Tensor], seen: list[int] | None = None) -> Spoil:
    """Change the tensors of a party's replies in training."""

    def spoil(request: Packet, reply: Packet) -> Packet:
        if request.kind != "step" or request.purpose != "train" or not reply.frames or reply.kind != "answer":
            return reply
        fields, about = decode_fields(reply.frames[0])
        if seen is not None:
            seen.append(request.round)
        changed = {name: change(value) for name, value in fields.items()}
        return replace(reply, frames=(encode(changed, Envelope(about.step, about.sender, about.round)),))

    return spoil


def lead(host: OwnerProcess, on_round: Callable[[Any], None] | None = None) -> None:
    """Lead a job from its first word to its end."""
    try:
        host.gather()
        host.train(on_round)
    finally:
        host.close()


def job_folders(sides: Sides) -> dict[str, Path]:
    """The sides' folders of the one job; the owner's is called "owner"."""
    each = {name: next((sides.folder / f"run-{name}").glob("*/plan.json")).parent for name in PARTIES}
    return {"owner": sides.folder / "run-bank", **each}
