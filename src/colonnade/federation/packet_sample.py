"""A few of the packets that a side's audit log has digests of, kept whole beside the view that was recorded of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from colonnade.disk.json_form import COUNT, TEXT, Form, first_wrong
from colonnade.disk.small_files import read_json, read_small
from colonnade.disk.whole_files import write_bytes, write_text
from colonnade.errors import CheckpointError, MessageError
from colonnade.runtime.remote.packet import read_packet, title
from colonnade.wire.witness import TRAIN, Witness

INDEX = "packets.json"
LARGEST = 4 << 20
"""Bytes of one packet; larger ones are not kept."""
MOST_BYTES = 16 << 20
FIRST_ROUNDS = 2
"""Of these rounds of a recorded epoch: what a party is sent in a round may travel with the next round's request."""
_FORM: Form = [{"epoch": COUNT, "way": TEXT, "peer": TEXT, "kind": TEXT, "round": COUNT, "file": TEXT}]


class SampledPacket(NamedTuple):
    """A packet as it travelled, and what the audit log says of it."""

    epoch: int
    way: str
    """"sent" or "received"."""
    peer: str
    kind: str
    round: int
    data: bytes

    @property
    def digest(self) -> str:
        """What the audit log has of it."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"packet-{self.digest[:32]}.bin"


@final
class PacketSample:
    """The packets of one peer in the first rounds of every recorded epoch; the peers take turns."""

    def __init__(self, peers: Sequence[str] = ()) -> None:
        self.peers = sorted(peers)
        self._witness: Witness | None = None
        self._kept: list[SampledPacket] = []

    def follow(self, witness: Witness | None, kept: Sequence[SampledPacket] = ()) -> None:
        """Keep packets of the epochs that this witness records, beside those that an earlier process kept."""
        self._witness, self._kept = witness, [*kept]

    def offer(self, way: str, peer: str, data: bytes | memoryview) -> None:
        """Keep a packet if it is one of the sample; it is as it was sent, or as it came."""
        if self._witness is None or len(data) > LARGEST:
            return
        kind, number = title(data)
        epoch, position = divmod(number, self._witness.rule.per_epoch)
        if position < FIRST_ROUNDS and peer == self.peers[epoch % len(self.peers)] and _is_training(data):
            self._keep(SampledPacket(epoch, way, peer, kind, number, bytes(data)))

    def _keep(self, packet: SampledPacket) -> None:
        """Keep the newest packet of its name, and none of rounds that come again: the witness forgets those, too."""
        newest = max((one.round for one in self._kept), default=0)
        if packet.round < newest:
            self._kept = [one for one in self._kept if one.round < packet.round]
        self._kept = [one for one in self._kept if one[1:5] != packet[1:5]] + [packet]
        if self._has_too_many():
            self._kept = self.kept()

    def kept(self) -> list[SampledPacket]:
        """Those whose epochs the view has, as many as fit."""
        if self._witness is not None:
            self._kept = [packet for packet in self._kept if packet.epoch in self._witness.epochs]
        while self._has_too_many():
            epochs = sorted({packet.epoch for packet in self._kept})
            stay = set(epochs[::2]) if len(epochs) > 1 else set()
            self._kept = [packet for packet in self._kept if packet.epoch in stay]
        return [*self._kept]

    def _has_too_many(self) -> bool:
        return sum(len(packet.data) for packet in self._kept) > MOST_BYTES


def _is_training(data: bytes | memoryview) -> bool:
    try:
        packet = read_packet(data)
    except MessageError:  # whoever reads it next says so
        return False
    return packet.purpose == TRAIN and packet.kind in ("step", "sum", "answer")


def write_packets(place: Path, packets: Sequence[SampledPacket]) -> None:
    """Write packets beside a view; the index comes last."""
    for packet in packets:
        if not (place / packet.file).exists():
            write_bytes(place / packet.file, packet.data, private=True)
    index = [{**_facts(packet), "file": packet.file} for packet in packets]
    write_text(place / INDEX, json.dumps(index), private=True)
    for path in place.glob("packet-*.bin"):
        if path.name not in {packet.file for packet in packets}:
            path.unlink()


def read_packets(place: Path) -> list[SampledPacket]:
    """The packets beside a view; none if there is no index."""
    try:
        index = read_json(place / INDEX)
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        raise _damaged(place / INDEX) from None
    if first_wrong(index, _FORM) is not None:
        raise _damaged(place / INDEX)
    return [_read(place, entry) for entry in index]


def _read(place: Path, entry: dict[str, Any]) -> SampledPacket:
    file = str(entry["file"])
    try:
        data = b"" if "/" in file else read_small(place / file, LARGEST)
    except OSError:
        data = b""
    packet = SampledPacket(**{name: entry[name] for name in SampledPacket._fields if name != "data"}, data=data)
    if packet.file != file:
        raise _damaged(place / file)
    return packet


def _facts(packet: SampledPacket) -> dict[str, Any]:
    return {name: value for name, value in packet._asdict().items() if name != "data"}


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(f"{path}, which a recorded view was made of, is missing or altered; bring it back.")
