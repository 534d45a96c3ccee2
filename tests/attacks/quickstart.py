"""The two companies of docs/two_companies.md in one process: job and party file as on the page, no sockets."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from colonnade.federation.certificates import make_keys
from colonnade.federation.job_parts import party_spec, stand_in
from colonnade.federation.owner_process import OwnerProcess
from colonnade.federation.party_session import PartySession
from colonnade.federation.side_files import read_owner_file, read_party_file
from colonnade.runtime.remote.packet import Packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.seal import Seal
from colonnade.signatures import Identity
from colonnade.wire.message import decode_fields
from near import Near
from pages import DOCS, ROOT

PAGE = DOCS / "two_companies.md"


def write_companies(folder: Path) -> Path:
    """Keys, tables, job and party files of the clinic and the laboratory."""
    make_keys(folder, ["localhost"], ["lab"])
    (folder / "owner").rename(folder / "clinic")
    shutil.copy(folder / "lab" / "identity.pub", folder / "clinic" / "lab.pub")
    shutil.copy(folder / "clinic" / "identity.pub", folder / "lab" / "clinic.pub")
    found = importlib.util.spec_from_file_location("make_tables", ROOT / "examples" / "federation" / "make_tables.py")
    assert found is not None and found.loader is not None
    tables: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(tables)
    for side, name in (("clinic", "job.toml"), ("lab", "party.toml")):
        tables.write_table(side, folder / side)
        (text,) = re.findall(rf'^```toml title="{side}: {name}"\n(.*?)^```', PAGE.read_text(), re.S | re.M)
        text = text.replace('labels = "protected"', 'labels = "inferable"')  # each test names the seals it is about
        (folder / side / name).write_text(text)
    return folder


class Job:
    """One job of the two, with the owner's side of every message that the laboratory sent in training."""

    def __init__(self, companies: Path, place: Path, *, rounds: int = 1, seals: Sequence[Seal] = ()) -> None:
        side_file = read_owner_file(companies / "clinic" / "job.toml")
        how = replace(side_file.job, train=replace(side_file.job.train, epochs=None, rounds=rounds), seals=tuple(seals))
        self.guest = PartySession(read_party_file(companies / "lab" / "party.toml"), place / "lab")
        self.heard: list[dict[str, Tensor]] = []
        listener: Any = Near({"lab": self.guest}, {"lab": self._hear})
        self.host = OwnerProcess(replace(side_file, job=how), place / "clinic", listener=listener)

    def _hear(self, request: Packet, reply: Packet) -> Packet:
        if request.kind == "step" and request.purpose == "train" and reply.frames:
            self.heard.append(decode_fields(reply.frames[0])[0])
        return reply

    def train(self) -> None:
        """All of it, as the page does."""
        self.host.gather()
        self.run = self.host.train()

    @property
    def victim(self) -> PartyServer:
        """The laboratory's own process, for controls and to judge what an attack found."""
        assert isinstance(self.guest.server, PartyServer)
        return self.guest.server

    def rebuilt(self, secret: bytes | None = None) -> PartyServer:
        """The laboratory as anybody can build it from terms and plan; a control has its secret, too."""
        plan = self.host.session.handshake.plan
        table = stand_in(plan, "lab")
        seat = party_spec(self.host.terms, plan, "lab", Identity.new(), table, table)
        return PartyServer(replace(seat, secret=secret))


def inverted(net: torch.nn.Sequential, outputs: Tensor, width: int, starts: int = 4, steps: int = 40) -> Tensor:
    """Inputs that a network maps to these outputs: damped least squares through its ReLU pattern, the best of some."""
    outputs, draw = outputs.double(), torch.Generator().manual_seed(0)
    best, least = torch.zeros(len(outputs), width).double(), torch.full((len(outputs),), torch.inf).double()
    for _ in range(starts):
        x = torch.randn(len(outputs), width, generator=draw).double()
        damping = torch.full((len(outputs), 1, 1), 0.1).double()
        came, slope = passed(net, x)
        for _ in range(steps):
            normal = slope.mT @ slope + damping * torch.eye(width).double()
            tried = x + torch.linalg.solve(normal, slope.mT @ (outputs - came)[..., None])[..., 0]
            then, steeper = passed(net, tried)
            better = (then - outputs).norm(dim=1) < (came - outputs).norm(dim=1)
            x, came = torch.where(better[:, None], tried, x), torch.where(better[:, None], then, came)
            slope = torch.where(better[:, None, None], steeper, slope)
            damping = torch.where(better[:, None, None], damping / 5, damping * 4).clamp(1e-12, 1e6)
        left = (came - outputs).norm(dim=1)
        best, least = torch.where((left < least)[:, None], x, best), torch.minimum(left, least)
    return best


def passed(net: torch.nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
    """What a chain of linear layers and ReLUs makes of inputs, and its slope there."""
    slope = torch.eye(x.shape[1]).double().expand(len(x), -1, -1)
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            weight = layer.weight.detach().double()
            x, slope = x @ weight.T + layer.bias.detach().double(), weight @ slope
        elif isinstance(layer, torch.nn.ReLU):
            x, slope = x.relu(), slope * (x > 0)[..., None]
    return x, slope
