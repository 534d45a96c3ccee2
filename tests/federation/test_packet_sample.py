"""Which packets are kept whole beside a view: few, the newest of their name, and none that was refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from colonnade.federation import packet_sample
from colonnade.federation.packet_sample import PacketSample
from colonnade.federation.view_check import check_view
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.wire.message import decode_fields, encode
from colonnade.wire.recorded_epochs import RecordedEpochs
from colonnade.wire.witness import Witness
from near import Near, Sides, make_sides


@pytest.fixture
def sample() -> PacketSample:
    made, witness = PacketSample(["owner"]), Witness(torch.arange(4), RecordedEpochs(per_epoch=2))
    witness.epochs = {epoch: [] for epoch in range(5)}
    made.follow(witness)
    return made


def step(number: int, sequence: int = 0, name: str = "follow", size: int = 0, purpose: str = "train") -> bytes:
    about = Packet("step", step=name, purpose=purpose, table="train", round=number, sequence=sequence)
    return write_packet(replace(about, frames=(bytes(size),)))


def test_a_flood_of_packets_fills_no_memory(sample: PacketSample, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lying owner may ask for any step of a round as often as it likes."""
    monkeypatch.setattr(packet_sample, "MOST_BYTES", 10_000)
    for sequence in range(50):
        sample.offer("received", "owner", step(0, sequence, size=1000))
    assert [read_packet(one.data).sequence for one in sample.kept()] == [49], "the newest of its name"
    for name in range(50):
        sample.offer("received", "owner", step(0, name=f"step{name}", size=1000))
        assert sum(len(one.data) for one in sample._kept) <= 10_000


def test_rounds_of_every_epoch_are_kept_and_those_that_come_again_anew(sample: PacketSample) -> None:
    for number in range(8):
        sample.offer("sent", "owner", step(number))
        sample.offer("sent", "owner", step(number, name="fit"))
    assert [one.round for one in sample.kept()] == [number for number in range(8) for _ in range(2)]
    sample.offer("sent", "owner", step(5, sequence=99))
    assert [one.round for one in sample.kept()] == [number for number in range(5) for _ in range(2)] + [5]
    assert read_packet(sample.kept()[-1].data).sequence == 99


@pytest.mark.parametrize("data", [step(0)[:-3], step(0) + b"x", step(0, purpose="evaluate")])
def test_what_is_no_packet_of_training_is_left_to_others(sample: PacketSample, data: bytes) -> None:
    """Recording refuses nothing: whoever reads the packet next says what is wrong with it."""
    sample.offer("received", "owner", data)
    assert sample.kept() == []
    sample.offer("received", "owner", step(0))
    assert len(sample.kept()) == 1


def test_a_request_that_was_refused_does_not_make_a_view_look_altered(tmp_path: Path) -> None:
    sides, refused = Sides(make_sides(tmp_path)), []
    record = "[audit]\nrecord = true"
    sides.write_parties(more=record)
    host = sides.host(train="rounds = 4", more=record)

    class Lying(Near):
        def send(self, party: str, connection: int, data: bytes) -> None:
            super().send(party, connection, data)
            packet = read_packet(data)
            if packet.kind == "step" and len(packet.before):
                inner = read_packet(packet.before)
                fields, about = decode_fields(inner.frames[0])
                frame = encode({name: value + 1 for name, value in fields.items()}, about)
                other = write_packet(replace(inner, frames=(frame,)))
                forged = write_packet(replace(packet, session=bytes(16), before=other))
                refused.append(read_packet(self.guests[party].serve(forged)).kind)

    host.session.transport.connections = Lying(sides.guests, {})
    host.gather()
    host.train()
    host.close()
    assert refused and set(refused) == {"refusal"}
    for name in ("shop", "mill"):
        folder = next((tmp_path / f"run-{name}").glob("*/plan.json")).parent
        assert check_view(folder).side == name
