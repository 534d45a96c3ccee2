"""A network without a hidden layer gives its party's columns away; a party signs one only if it is told to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import colonnade as cn
from colonnade.core.schedule import Schedule
from colonnade.errors import ManifestError
from colonnade.federation.network_rules import columns_of
from colonnade.runtime.remote.packet import Packet
from colonnade.wire.message import Envelope, decode_fields, encode
from near import Sides, lead, make_sides

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")

BARE = '[model]\nkind = "mlp"\nhidden = []'
SHOWN = 'labels = "shown"'
KNOWN = 8  # rows of which the owner knows the columns, say from another source


def run(sides: Sides, **job: Any) -> None:
    lead(sides.host(**job))


def first_embeddings(sides: Sides, more: str) -> tuple[Tensor, Tensor]:
    """What the owner has of the shop's rows after one round, and the columns that it would like to know."""
    seen: list[Tensor] = []

    def look(request: Packet, reply: Packet) -> Packet:
        if request.purpose == "train" and request.round == 0 and reply.frames and not seen:
            seen.append(decode_fields(reply.frames[0])[0]["h"].float())
        return reply

    run(sides, spoil={"shop": look}, more=more)
    tables = sides.guests["shop"].handshake._tables
    assert tables is not None
    table = tables[0]
    return seen[0], table.draw(Schedule(table.rows, 16, 0, 0.0).batch_of(0))


def solved(h: Tensor, columns: Tensor, exact: float = np.inf) -> float:
    """The share of rows whose columns follow: units that are awake on enough known rows are linear in the columns.

    ``exact`` leaves units out that are not linear on the known rows, by their relative error.
    """
    h, columns = (h / h[:KNOWN].amax(dim=0).clamp(min=1e-30)).double(), columns.double()
    known = torch.cat([columns, torch.ones(len(columns), 1)], dim=1)[:KNOWN].numpy()
    weights = {}
    for unit in range(h.shape[1]):
        awake = h[:KNOWN, unit].numpy() > 0
        if awake.sum() > columns.shape[1] + np.isfinite(exact):
            fit, _, rank, _ = np.linalg.lstsq(known[awake], h[:KNOWN, unit].numpy()[awake], rcond=None)
            off = np.abs(known[awake] @ fit - h[:KNOWN, unit].numpy()[awake]).max()
            if rank == known.shape[1] and off < exact:
                weights[unit] = fit
    hits = 0
    for row in range(KNOWN, len(h)):
        units = [unit for unit in weights if h[row, unit] > 0]
        matrix = np.array([weights[unit] for unit in units]).reshape(len(units), known.shape[1])
        if len(units) >= columns.shape[1]:
            goal = np.array([float(h[row, unit]) for unit in units]) - matrix[:, -1]
            guess = np.linalg.lstsq(matrix[:, :-1], goal, rcond=None)[0]
            hits += bool(np.abs(guess - columns[row].numpy()).max() < 1e-2)
    return hits / (len(h) - KNOWN)


def test_columns_follow_from_a_network_without_hidden_layers(sides: Sides) -> None:
    with pytest.raises(ManifestError, match=r"pass no hidden layer, and has 3 columns.*write layers = 0"):
        run(sides, more=BARE)
    sides.restart()
    sides.write_parties("layers = 0\nruns = 9")
    for folder in sides.folder.glob("run-*"):
        shutil.rmtree(folder)
    assert solved(*first_embeddings(sides, BARE)) > 0.9, "whoever allows it is read, though its weights are secret"


def test_a_hidden_layer_ends_that_attack(sides: Sides) -> None:
    assert solved(*first_embeddings(sides, "")) < 0.2


class Asking:
    """An owner that trains the shop's network with gradients of its choice, and evaluates after each."""

    def __init__(self, sides: Sides, more: str) -> None:
        self.sides, self.turns = sides, 1000
        host = sides.host(more=more, train="rounds = 5")
        try:
            host.gather()
            run, _ = host.session.with_all(host._ready)
        except ManifestError:
            host.close()
            raise
        self.shop: Any = run.parties.backend.parties["shop"]  # type: ignore[attr-defined]

    def seen_in(self, times: int, push: float, spread: float) -> tuple[Tensor, Tensor]:
        """All that it has of the test rows after so many steps, and their columns."""
        draw, seen = torch.Generator().manual_seed(0), [self._embed("evaluate", "test")]
        for number in range(times):
            h = self._embed("train", "train", number % 5)
            slope = (spread * torch.randn(h.shape, generator=draw) - push) / len(h)
            self._post("follow", "train", "train", number % 5, {"slope": slope})
            self.shop.reply(replies=False)
            seen.append(self._embed("evaluate", "test"))
        tables = self.sides.guests["shop"].handshake._tables
        assert tables is not None
        return torch.cat(seen, dim=1), tables[1].draw(torch.arange(tables[1].rows))

    def _embed(self, purpose: str, table: str, round: int = 0) -> Tensor:
        self.turns += 1
        self._post("embed", purpose, table, round)
        return self.shop.reply()["h"].float()  # type: ignore[no-any-return]

    def _post(self, step: str, purpose: str, table: str, round: int, message: dict[str, Tensor] | None = None) -> None:
        about = {"step": step, "purpose": purpose, "table": table, "round": round, "turn": self.turns}
        self.shop.post("step", about, *([encode(message, Envelope(step, "owner", round))] if message else []))


def test_a_narrow_network_without_hidden_layers_is_read_by_asking_again(tmp_path: Path) -> None:
    sides = Sides(make_sides(tmp_path / "sides", rows=100))
    narrow = (
        BARE + '\n[method]\nembedding = 2\noptimizer = "sgd"'
    )  # two numbers of three columns, and of a test row none in training
    with pytest.raises(ManifestError, match="send 2 numbers of each row in a round that pass no hidden layer"):
        Asking(sides, narrow)
    sides.restart()
    sides.write_parties("layers = 0\nruns = 9")
    assert solved(*Asking(sides, narrow).seen_in(30, push=0.5, spread=0.2)) > 0.9
    sides.restart()


def test_what_is_not_promised_a_hidden_layer_against_an_owner_that_steers(tmp_path: Path) -> None:
    """Gradients that push everything up leave the hidden units awake for all rows, and the network linear."""
    sides = Sides(make_sides(tmp_path / "sides", rows=100))
    h, columns = Asking(sides, '[method]\noptimizer = "sgd"').seen_in(25, push=1.0, spread=0.0)
    assert solved(h[:, :60], columns) < 0.2, "of the first message nothing follows"
    assert solved(h, columns, exact=1e-4) > 0.9
    sides.restart()


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("", {"method": "fdml", "federation": SHOWN, "more": BARE, "train": "rounds = 8"}, "send 2 numbers of each row"),
    (
        "mix = 1",
        {"method": "fdml", "federation": SHOWN, "more": BARE + '\n[[seal]]\nkind = "blind"', "train": "rounds = 8"},
        "send 2 numbers of each row",
    ),
    ("", {"method": "vfedmh", "federation": SHOWN, "more": BARE}, "send 62 numbers of each row"),
    ("", {"method": "apfed", "federation": SHOWN}, "send 60 numbers of each row"),
    ("", {"more": '[model]\nkind = "table-net"\nhidden = []'}, "pass no hidden layer"),
    ("layers = 2", {}, "a network with 1 hidden layers for 'shop', and it allows 2"),
    ("width = 59", {}, "send 60 numbers of a row in a round, and it allows 59"),
    ('networks = ["cnn"]', {}, "the network 'mlp' for 'shop', which allows cnn"),
    ("outputs = 1", {}, "2 outputs, and 'shop' allows 1"),
]


@pytest.mark.parametrize(("allow", "job", "said"), REFUSED, ids=[one[2] for one in REFUSED])
def test_what_a_party_refuses(sides: Sides, allow: str, job: dict[str, str], said: str) -> None:
    sides.write_parties(allow)
    with pytest.raises(ManifestError) as caught:
        run(sides, **job)
    assert said in str(caught.value) and "[allow]" in str(caught.value)


@pytest.mark.parametrize(
    ("allow", "job"),
    [
        ("", {"method": "local", "more": BARE}),  # which sends nothing
        ("", {"method": "apfed", "federation": SHOWN, "more": '[method]\nloss = "contrastive"'}),
        ('networks = ["mlp"]\nlayers = 1\nwidth = 60\noutputs = 2', {}),
    ],
)
def test_what_it_does_not(sides: Sides, allow: str, job: dict[str, str]) -> None:
    sides.write_parties(allow)
    run(sides, **job)


def test_a_column_that_became_several_inputs_is_one() -> None:
    table = cn.Table(["ann"], [[41.0, 1.0, 0.0, 0.0]], column_names=("age", "job=clerk", "job=smith", "job=other"))
    assert columns_of(table) == 2
