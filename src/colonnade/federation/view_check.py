"""Whether a recorded view is what passed: compared with the packets that were kept of it, and with the audit log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade import seal
from colonnade.core.schedule import OWNER, schedule_of
from colonnade.core.settings import Settings
from colonnade.errors import CheckpointError, ColonnadeError, FolderError
from colonnade.federation.audit_check import log_entries
from colonnade.federation.job_folder import JobFolder
from colonnade.federation.packet_sample import SampledPacket, read_packets
from colonnade.federation.view_record import RECORDED, index_digest
from colonnade.methods import make_method
from colonnade.runtime.remote.packet import read_packet
from colonnade.seal import Seals
from colonnade.seal.codec import Codec, is_state
from colonnade.store.view_files import PLACE, read_view
from colonnade.wire.message import decode_fields
from colonnade.wire.view import Seen, View
from colonnade.wire.witness import TRAIN

LOG = "audit.jsonl"
Fields = Mapping[str, Tensor]


class LogFacts(NamedTuple):
    """What an audit log says of messages, and of the view."""

    path: Path
    passed: Mapping[tuple[str, str, str], int]
    """The line of each message, by way, peer and digest."""
    lines: Mapping[tuple[str, str, str, str], list[int]]
    """The lines of messages by way, peer, kind and round."""
    recorded: tuple[int, str]
    """The last line that names a view, and the digest of the view's index."""


class Agreed(NamedTuple):
    """What all sides signed that a check needs: the rows of every round, and the seals."""

    schedule: Any
    seals: Seals


def check_view(folder: Path) -> View:
    """The view that a side of a federation recorded in its job folder, if its audit log bears it out.

    The log must name the index of this very view. Every packet that was kept whole must be in the log, and what the
    view has of it must be what the packet says. Sums of blinded replies are in no packet, so they are not compared.
    """
    folder = Path(folder)
    view, _ = read_view(folder)
    log = _log_of(folder)
    line, digest = log.recorded
    if not line:
        raise CheckpointError(f"{log.path} has no line about the view in {folder}, so nothing bears it out.")
    if digest != index_digest(folder):
        raise CheckpointError(
            f"the view in {folder} is not the one that line {line} of {log.path} is about; bring that one back."
        )
    packets = read_packets(folder / PLACE)
    if not packets:  # as of a prediction, whose packets are not kept
        return view
    agreed, seen = _agreed_in(folder), _by_message(view)
    for packet in packets:
        number = _line_of(packet, log)
        for message in _messages_in(packet, view.side):
            _check_message(message, seen[message[:-1]], agreed, f"line {number} of {log.path}")
    return view


def _log_of(folder: Path) -> LogFacts:
    """The audit log of a folder, which is above it for a job's later runs, every line checked."""
    path = next((place / LOG for place in (folder, folder.parent) if (place / LOG).exists()), folder / LOG)
    passed: dict[tuple[str, str, str], int] = {}
    lines: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    recorded = 0, ""
    try:
        for line, entry in enumerate(log_entries(path), start=1):
            if entry.get("what") in ("sent", "received"):
                way, peer = str(entry["what"]), str(entry.get("peer"))
                passed[way, peer, str(entry.get("digest"))] = line
                lines[way, peer, str(entry.get("kind")), str(entry.get("round"))].append(line)
            elif entry.get("event") == RECORDED:
                recorded = line, str(entry.get("facts", {}).get("digest"))
    except FolderError as error:
        raise CheckpointError(f"the view in {folder} cannot be compared with its audit log: {error}") from None
    return LogFacts(path, passed, lines, recorded)


def _line_of(packet: SampledPacket, log: LogFacts) -> int:
    """The log's line of a packet."""
    line = log.passed.get((packet.way, packet.peer, packet.digest))
    if line is None:
        near = log.lines.get((packet.way, packet.peer, packet.kind, str(packet.round)), [])
        where = f"line {near[0]} of {log.path} has another one" if near else f"{log.path} has no such line"
        raise CheckpointError(
            f"the view was made of a message '{packet.kind}' of round {packet.round} with '{packet.peer}' that is not "
            f"in the audit log: {where}."
        )
    return line


def _agreed_in(folder: Path) -> Agreed:
    place = JobFolder(folder) if (folder / LOG).exists() else JobFolder(folder.parent)
    plan, terms = JobFolder(folder).plan(), place.terms() or {}
    try:
        options = dict(plan["method"])
        method = make_method(options.pop("name"), **options)
        how, rows = Settings(**plan["settings"]), int(plan["tables"][0][1])
        seals = seal.make_seals([seal.make_seal(**entry) for entry in terms["seals"]])
        return Agreed(schedule_of(how, rows, several_owners=method.several_owners), seals)
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        RuntimeError,
        ColonnadeError,
    ):  # torch has no room for its rows
        raise CheckpointError(f"{folder} has no plan that says which rows its messages are about.") from None


class PacketMessage(NamedTuple):
    """One message in a packet, before its seals are taken off."""

    step: str
    sender: str
    receiver: str
    round: int
    wire: Fields


def _messages_in(packet: SampledPacket, side: str) -> Iterator[PacketMessage]:
    """The messages of training in a packet, and in the request that travelled with it; masked replies are none."""
    whole = read_packet(packet.data)
    inside = [read_packet(whole.before)] if len(whole.before) else []
    for one in (*inside, whole):
        is_masked = one.kind == "answer" and one.serial > 0
        if one.purpose == TRAIN and one.frames and len(one.frames[0]) and not is_masked:
            asked = packet.peer if packet.way == "sent" else side
            receiver = one.leader if one.kind == "answer" else asked
            yield PacketMessage(one.step, one.sender, receiver, one.round, decode_fields(one.frames[0])[0])


def _by_message(view: View) -> dict[tuple[str, str, str, int], list[Seen]]:
    """What the view has of training, by step, sender, receiver and round."""
    found: dict[tuple[str, str, str, int], list[Seen]] = defaultdict(list)
    for one in view.seen:
        if one.purpose == TRAIN:
            found[one.step, one.sender, one.receiver, one.round].append(one)
    return found


def _check_message(message: PacketMessage, recorded: Sequence[Seen], agreed: Agreed, where: str) -> None:
    """Refuse a view in which a message says something else than its packet; a repeated round has it twice."""
    if recorded and not any(_is_as_it_travelled(one, message, agreed) for one in recorded):
        raise CheckpointError(
            f"the view has other values of step '{message.step}' of round {message.round} from '{message.sender}' than "
            f"the message that {where} is about; it was altered."
        )


def _is_as_it_travelled(one: Seen, message: PacketMessage, agreed: Agreed) -> bool:
    rows = agreed.schedule.rows_of(one.round).numpy()
    at = np.flatnonzero(np.isin(rows, one.rows))
    codec = agreed.seals.down if message.sender == OWNER else agreed.seals.up
    if not np.array_equal(rows[at], one.rows):
        return False
    about = {name: (value, at) for name, value in one.fields.items()}
    beside = {name: (value, None) for name, value in one.others.items()}
    for name, (value, rows_of_it) in [*about.items(), *beside.items()]:
        read = _read(name, message.wire, codec)
        if read is not None:
            if rows_of_it is not None and read.shape[:1] != (len(rows),):
                return False
            values = read.numpy() if rows_of_it is None else read.numpy()[rows_of_it]
            if not np.array_equal(values.astype(value.dtype), value):
                return False
    return True


def _read(name: str, wire: Fields, codec: Codec | None) -> Tensor | None:
    """A field without its seal; None if it cannot be read alone, because error feedback sends changes of states."""
    parts = {key: value for key, value in wire.items() if key == name or key.startswith(f"{name}.")}
    if codec is None or len(parts) < 2:
        return wire.get(name, torch.empty(0))
    return None if codec.feedback and is_state(name) else codec.decode(name, parts)
