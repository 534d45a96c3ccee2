"""The wire form of a message: encode, decode, exact size. No pickle, no code, no surprises.

A message is a named tuple of tensors, or a dictionary of them once it is sealed. On the wire it is one
frame, all integers little-endian::

    u32  length        bytes that follow this field
    4s   magic         b"CLND"
    u8   version
    u8   tensors       how many
    u16  header        bytes of the header
    header:
        u32 round   u8 len, step name   u8 len, sender name
        per tensor:  u8 len, field name   u8 dtype code   u8 dimensions   u32 per dimension
    payload: the tensors' raw little-endian bytes, in order, nothing between or behind them

``decode`` faces the network, so it trusts nothing: every count is limited, the shapes must
account for exactly the bytes that came, and floating-point values must be finite.
"""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from colonnade.core.state import MAX_DIMENSIONS
from colonnade.errors import MessageError, TrainingError

MAGIC = b"CLND"
VERSION = 1
MAX_TENSORS = 32
MAX_HEADER = 4096
MAX_NAME = 64
MAX_FRAME = 1 << 30  # one GiB; a caller that knows its schema passes a tighter limit

_PREFIX = struct.Struct("<I4sBBH")
_LENGTH_FIELD = _ROUND = 4
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_CODE = {dtype: code for code, dtype in enumerate(_DTYPES)}

M = TypeVar("M")
Described = tuple[str, torch.dtype, tuple[int, ...]]
"""A tensor as a header describes it: its field, its kind of numbers, its shape."""


class Envelope(NamedTuple):
    """What a frame says about itself beside its tensors."""

    step: str
    sender: str
    round: int


@dataclass(frozen=True)
class Size:
    """Bytes of one frame: the tensors themselves, and the frame around them."""

    payload: int
    overhead: int

    @property
    def total(self) -> int:
        """All bytes on the wire."""
        return self.payload + self.overhead


@dataclass(frozen=True)
class Frame:
    """A frame in pieces, so that its numbers are copied once: into the message that it travels in."""

    pieces: tuple[bytes | memoryview, ...]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))


def fields_of(message: Any) -> dict[str, Tensor]:
    """A message's tensors by name."""
    return message._asdict() if isinstance(message, tuple) else dict(message)  # type: ignore[attr-defined]


def check(message: Any) -> None:
    """Refuse what has no wire form, so that what was simulated can also be deployed."""
    items = message if isinstance(message, dict) else fields_of(message)
    if len(items) > MAX_TENSORS:
        raise MessageError(f"a message of {len(items)} tensors came where at most {MAX_TENSORS} are allowed.")
    for name, tensor in items.items():
        _name(name)
        if tensor.dtype not in _CODE or tensor.ndim > MAX_DIMENSIONS:
            raise MessageError(
                f"field '{name}' has dtype {tensor.dtype} and {tensor.ndim} dimensions, which has no wire form."
            )


def sendable(message: Any, sender: str, step: str, round: int) -> dict[str, Tensor]:
    """A message's tensors as they may travel: of a wire form, finite, and in the order of the wire."""
    fields = fields_of(message)
    check(fields)
    for name, tensor in fields.items():
        if tensor.is_floating_point() and not _is_finite(tensor):
            raise TrainingError(
                f"{sender} sent values that are not finite in '{name}' of step '{step}' in round {round}; "
                "lower the learning rate or check that party's columns (the last good checkpoint is kept)."
            )
    # In the order of the wire, whether it is there or not: products of other layouts round otherwise.
    return {name: tensor.detach().contiguous() for name, tensor in fields.items()}


def as_message(kind: Any, form: dict[str, Tensor], fields: dict[str, Tensor]) -> Any:
    """A message of this class whose fields have the kinds of numbers that ``form`` has."""
    return kind(**{name: tensor.to(form[name].dtype) for name, tensor in fields.items()})


def size(message: Any, envelope: Envelope) -> Size:
    """The exact number of bytes that :func:`encode` would give, without encoding.

    >>> class Embedding(NamedTuple):
    ...     h: Tensor
    >>> message, envelope = Embedding(torch.zeros(1024, 60)), Envelope("embed", "party 1", 0)
    >>> size(message, envelope)
    Size(payload=245760, overhead=42)
    >>> size(message, envelope).total == len(encode(message, envelope))
    True
    """
    items = message if isinstance(message, dict) else fields_of(message)
    payload = sum(tensor.numel() * tensor.element_size() for tensor in items.values())
    fields = sum(3 + len(name) + 4 * tensor.ndim for name, tensor in items.items())
    header = 4 + 1 + len(envelope.step) + 1 + len(envelope.sender) + fields
    return Size(payload, _PREFIX.size + header)


def encode(message: Any, envelope: Envelope) -> bytes:
    """One frame from a named tuple or a dictionary of tensors."""
    return b"".join(framed(message, envelope).pieces)


def framed(message: Any, envelope: Envelope) -> Frame:
    """What :func:`encode` gives, in pieces that are parts of the tensors, so to be written before those change."""
    check(message)
    items = fields_of(message)
    if not 0 <= envelope.round < 1 << 32:
        raise MessageError(f"round {envelope.round} cannot travel; rounds are numbered from 0 to 2^32 - 1.")
    described = tuple((name, tensor.dtype, tuple(tensor.shape)) for name, tensor in items.items())
    header = envelope.round.to_bytes(4, "little") + _written_header(envelope.step, envelope.sender, described)
    payload = [_raw(tensor) for tensor in items.values()]
    length = _PREFIX.size - _LENGTH_FIELD + len(header) + sum(len(raw) for raw in payload)
    if len(header) > MAX_HEADER or length + _LENGTH_FIELD > MAX_FRAME:
        raise MessageError(f"a message of {length + _LENGTH_FIELD} bytes is beyond what a frame may hold.")
    return Frame((_PREFIX.pack(length, MAGIC, VERSION, len(items), len(header)), header, *payload))


def decode(frame: bytes | memoryview, kind: type[M], limit: int = MAX_FRAME) -> tuple[M, Envelope]:
    """The message of the named-tuple class ``kind`` in a frame, or :class:`MessageError`."""
    fields, envelope = decode_fields(frame, limit)
    expected = kind._fields  # type: ignore[attr-defined]
    if tuple(fields) != expected:
        raise MessageError(f"fields {tuple(fields)} came where {kind.__name__}{expected} was expected.")
    return kind(*fields.values()), envelope


def decode_fields(frame: bytes | memoryview, limit: int = MAX_FRAME) -> tuple[dict[str, Tensor], Envelope]:
    """The tensors in a frame by name, for a receiver that takes their seals off."""
    if sys.byteorder != "little":
        raise MessageError("this machine stores numbers big-endian; the wire form needs a little-endian one.")
    frame = memoryview(frame)
    if len(frame) > limit:
        raise MessageError(f"a frame of {len(frame)} bytes came where at most {limit} are allowed.")
    count, header, payload = _open(frame)
    if len(header) < _ROUND:
        raise MessageError("a frame's header ends in the middle of a field.")
    step, sender, described = _read_header(bytes(header[_ROUND:]), count)
    envelope = Envelope(step, sender, int.from_bytes(header[:_ROUND], "little"))
    return _read_tensors(described, payload), envelope


def _is_finite(tensor: Tensor) -> bool:
    # A finite sum proves finite terms and is one fast pass; only a suspicious sum is looked at closely.
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


@lru_cache(maxsize=256)  # in training the same headers come round after round
def _written_header(step: str, sender: str, described: tuple[Described, ...]) -> bytes:
    """A frame's header behind its round."""
    header = bytearray(_name(step) + _name(sender))
    for name, dtype, shape in described:
        header += _name(name) + struct.pack(f"<BB{len(shape)}I", _CODE[dtype], len(shape), *shape)
    return bytes(header)


@lru_cache(maxsize=256)
def _name(text: str) -> bytes:
    raw = text.encode("ascii", errors="strict") if text.isascii() else b""
    if not 0 < len(raw) <= MAX_NAME or not text.isprintable():
        raise MessageError(f"the name {text!r} cannot travel; use 1 to {MAX_NAME} printable ASCII characters.")
    return bytes([len(raw)]) + raw


def _raw(tensor: Tensor) -> memoryview:
    """The tensor's own bytes, not copied."""
    return tensor.detach().contiguous().numpy().reshape(-1).data.cast("B")


def _open(frame: memoryview) -> tuple[int, memoryview, memoryview]:
    if len(frame) < _PREFIX.size:
        raise MessageError(f"{len(frame)} bytes came where a frame has at least {_PREFIX.size}.")
    length, magic, version, count, header_length = _PREFIX.unpack_from(frame)
    if magic != MAGIC or version != VERSION:
        raise MessageError(f"a frame starts with {magic!r} version {version}; {MAGIC!r} version {VERSION} is ours.")
    if length + _LENGTH_FIELD != len(frame):
        raise MessageError(f"a frame announces {length + _LENGTH_FIELD} bytes but has {len(frame)}.")
    if count > MAX_TENSORS or header_length > min(MAX_HEADER, len(frame) - _PREFIX.size):
        raise MessageError(f"a frame with {count} tensors and {header_length} header bytes is beyond the limits.")
    header_end = _PREFIX.size + header_length
    return count, frame[_PREFIX.size : header_end], frame[header_end:]


class _Reader:
    """Reads integers and names from a header, never past its end."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> memoryview:
        if self.at + count > len(self.data):
            raise MessageError("a frame's header ends in the middle of a field.")
        self.at += count
        return self.data[self.at - count : self.at]

    def integer(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def name(self) -> str:
        raw = bytes(self.take(self.integer(1)))
        text = raw.decode("ascii", errors="replace")
        if not 0 < len(raw) <= MAX_NAME or not text.isascii() or not text.isprintable():
            raise MessageError(f"a frame holds the name {text!r}, which is not 1 to {MAX_NAME} printable characters.")
        return text


@lru_cache(maxsize=256)  # in training the same headers come round after round
def _read_header(header: bytes, count: int) -> tuple[str, str, tuple[Described, ...]]:
    """The step, the sender and the tensors of a frame, from its header behind the round."""
    reader = _Reader(memoryview(header))
    step, sender = reader.name(), reader.name()
    described: list[Described] = []
    for _ in range(count):
        name, code, dimensions = reader.name(), reader.integer(1), reader.integer(1)
        if code >= len(_DTYPES) or dimensions > MAX_DIMENSIONS:
            raise MessageError(f"field '{name}' has dtype code {code} and {dimensions} dimensions; not ours.")
        shape = tuple(reader.integer(4) for _ in range(dimensions))
        if math.prod(max(d, 1) for d in shape) > MAX_FRAME:  # an empty tensor may not hide a monstrous shape
            raise MessageError(f"field '{name}' has the shape {shape}, which is beyond what a frame may hold.")
        described.append((name, _DTYPES[code], shape))
    if reader.at != len(header):
        raise MessageError(f"a frame's header has {len(header) - reader.at} bytes too many.")
    names = [name for name, _, _ in described]
    if len(set(names)) < len(names):
        raise MessageError(f"a frame names a field twice: {', '.join(names)}.")
    return step, sender, tuple(described)


def _read_tensors(described: tuple[Described, ...], payload: memoryview) -> dict[str, Tensor]:
    # Python integers do not overflow, so the products are exact and checked before any allocation.
    lengths = [math.prod(shape) * dtype.itemsize for _, dtype, shape in described]
    if sum(lengths) != len(payload):
        raise MessageError(f"the shapes account for {sum(lengths)} bytes but the payload has {len(payload)}.")
    tensors: dict[str, Tensor] = {}
    at = 0
    for (name, dtype, shape), length in zip(described, lengths, strict=True):
        raw = bytearray(payload[at : at + length])  # a copy: the tensor must own memory it may write
        tensor = torch.frombuffer(raw, dtype=dtype).reshape(shape) if length else torch.empty(shape, dtype=dtype)
        if dtype.is_floating_point and not _is_finite(tensor):
            raise MessageError(f"field '{name}' holds values that are not finite.")
        tensors[name] = tensor
        at += length
    return tensors
