"""What travels between the owner's process and a party's: a request or a reply.

It is a header around the frames of :mod:`colonnade.wire.message`.

All integers little-endian::

    4s   magic         b"CLNL"
    u8   version
    u8   kind          one of KINDS
    u32  round    u32 turn    u32 part      which rows, as every side computes them
    u32  serial   u16 attempt               which blinded sum, and which try at it
    u64  sequence                           counts the requests of a session; a reply has its request's
    16s  job      16s session   16s plan    hashes and ids that both sides agreed on before
    names: sender, step, purpose, table, leader; each u8 length and ASCII
    u32  length and bytes of a request that wants no reply and is served first; most have none
    u8   frames, each u32 length and bytes

``read_packet`` faces the network: it trusts nothing and allocates nothing but slices of what came.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from colonnade.core.schedule import OWNER
from colonnade.errors import MessageError
from colonnade.wire.message import MAX_FRAME, MAX_NAME, Frame

MAGIC = b"CLNL"
VERSION = 1
KINDS = ("step", "sum", "blind", "keep", "back", "place", "spent", "end", "answer", "refusal", "talk")
MAX_FRAMES = 3
_HEAD = struct.Struct("<4sBBIIIIHQ16s16s16s")
_NAMES = ("sender", "step", "purpose", "table", "leader")
_NUMBERS = ("round", "turn", "part", "serial", "attempt", "sequence", "job", "session", "plan")
_numbers_of, _names_of = attrgetter(*_NUMBERS), attrgetter(*_NAMES)
_said_in = attrgetter(*_NAMES[1:], *_NUMBERS)
NOBODY = bytes(16)


@dataclass(frozen=True)
class Packet:
    """One request or reply: what it is about, and its messages as frames. Fields stand in the order of the wire."""

    kind: str
    sender: str = OWNER
    step: str = ""
    purpose: str = ""
    table: str = ""
    leader: str = OWNER
    round: int = 0
    turn: int = 0
    part: int = 0
    serial: int = 0
    attempt: int = 0
    sequence: int = 0
    job: bytes = NOBODY
    session: bytes = NOBODY
    plan: bytes = NOBODY
    before: bytes | memoryview = b""
    """Another request as bytes, one that wants no reply; with it two steps are one message."""
    frames: tuple[bytes | memoryview, ...] = ()

    def reply(self, kind: str, sender: str, *frames: bytes) -> Packet:
        """A reply to this request."""
        fields: list[Any] = [kind, sender, *_said_in(self), b"", frames]
        return Packet(*fields)

    def is_about(self, request: Packet) -> bool:
        """Whether a reply says what its request said, beside its kind, its sender and its frames."""
        return bool(_said_in(self) == _said_in(request))

    @property
    def overhead(self) -> int:
        """Bytes around the frames."""
        names = sum(1 + len(getattr(self, name)) for name in _NAMES)
        return _HEAD.size + names + 4 + len(self.before) + 1 + 4 * len(self.frames)


def write_packet(packet: Packet, *more: Frame) -> bytes:
    """The bytes that :func:`read_packet` reads; ``more`` are frames behind its own whose bytes are copied here."""
    try:
        head = _HEAD.pack(MAGIC, VERSION, KINDS.index(packet.kind), *_numbers_of(packet))
    except struct.error as error:
        raise MessageError(f"a packet of round {packet.round} cannot travel: {error}.") from None
    parts: list[bytes | memoryview] = [head, *map(_written, _names_of(packet))]
    parts += [len(packet.before).to_bytes(4, "little"), packet.before, bytes([len(packet.frames) + len(more)])]
    for frame in packet.frames:
        parts += [len(frame).to_bytes(4, "little"), frame]
    for pieces in more:
        parts += [len(pieces).to_bytes(4, "little"), *pieces.pieces]
    return b"".join(parts)


@lru_cache(maxsize=256)
def _written(name: str) -> bytes:
    if len(name) > MAX_NAME or not (name.isascii() and name.isprintable()):
        raise MessageError(f"the name {name!r} cannot travel; use up to {MAX_NAME} printable ASCII characters.")
    return bytes([len(name)]) + name.encode("ascii")


def read_packet(raw: bytes | memoryview, limit: int = MAX_FRAME) -> Packet:
    """The request or reply in some bytes, or :class:`MessageError`."""
    kind, numbers = _head(raw, limit)
    at, about = _HEAD.size, dict(zip(_NUMBERS, numbers, strict=True))
    names, at = _names(raw, at, len(_NAMES))
    about |= zip(_NAMES, names, strict=True)
    whole = memoryview(raw)
    about["before"], at = _bytes(whole, at, "packet")
    return Packet(kind, frames=_frames(whole, at), **about)


def title(raw: bytes | memoryview) -> tuple[str, int]:
    """What a log says of a packet, its step or else its kind, and its round, without reading the rest."""
    kind, numbers = _head(raw)
    (_, step), _ = _names(raw, _HEAD.size, 2)
    return step or kind, numbers[0]


def _head(raw: bytes | memoryview, limit: int = MAX_FRAME) -> tuple[str, list[Any]]:
    if not _HEAD.size <= len(raw) <= limit:
        raise MessageError(f"a packet of {len(raw)} bytes came; it has from {_HEAD.size} to {limit}.")
    magic, version, kind, *numbers = _HEAD.unpack_from(raw)
    if magic != MAGIC or version != VERSION or kind >= len(KINDS):
        raise MessageError(f"a packet starts with {magic!r}, version {version}, kind {kind}; it is not one of ours.")
    return KINDS[kind], numbers


def _names(raw: bytes | memoryview, at: int, count: int) -> tuple[list[str], int]:
    """So many names from here on, and where they end."""
    names, size = [], len(raw)
    for _ in range(count):
        length = raw[at] if at < size else size
        end = at + 1 + length
        if end > size or length > MAX_NAME:
            raise MessageError("a packet ends in the middle of a name.")
        names.append(_read(bytes(raw[at + 1 : end])))
        at = end
    return names, at


@lru_cache(maxsize=256)
def _read(name: bytes) -> str:
    text = name.decode("ascii", errors="replace")
    if text and not (text.isascii() and text.isprintable()):
        raise MessageError(f"a packet holds the name {text!r}, which is not printable.")
    return text


def _frames(raw: memoryview, at: int) -> tuple[memoryview, ...]:
    if at >= len(raw) or raw[at] > MAX_FRAMES:
        raise MessageError(f"a packet lacks its frames, or has more than {MAX_FRAMES}.")
    count, at = raw[at], at + 1
    frames = []
    for _ in range(count):
        frame, at = _bytes(raw, at, "frame")
        frames.append(frame)
    if at != len(raw):
        raise MessageError(f"a packet has {len(raw) - at} bytes too many.")
    return tuple(frames)


def _bytes(raw: memoryview, at: int, what: str) -> tuple[memoryview, int]:
    start = at + 4
    end = start + int.from_bytes(raw[at:start], "little")
    if end > len(raw):
        raise MessageError(f"a packet announces a {what} of {end - start} bytes and has {max(len(raw) - start, 0)}.")
    return raw[start:end], end
