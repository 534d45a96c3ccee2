"""Compression: a tensor as few-bit codes, or as its largest entries.

======================  =====================================================================
``Bits(n)``             uniform stochastic quantisation to 2^n levels; between levels the mean is right,
                        beyond them values are clipped
``TopK(share)``         the largest entries of every row by magnitude, and their positions
======================  =====================================================================

Only training messages are compressed, and only their tensors with numbers per sample. A field's name tells its kind,
see ``KINDS``; other fields (weights, counts) are sent unchanged.

With ``feedback=True`` a side remembers the compression error of every sample. The error of an *increment* (a gradient,
a gap) is added to the next increment of the same sample (Seide et al. 2014). Of a *state* (embeddings, logits) only the
change since the last message is sent, and both sides add it up (EF21, Richtarik et al. 2021).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.core.state import MAX_DIMENSIONS
from colonnade.errors import MessageError, unknown
from colonnade.seal.base import Seal
from colonnade.seal.pack import Codes, pack, unpack

WAYS = ("both", "up", "down")
KINDS = {
    "h": "state",  # embeddings
    "o": "state",  # logits
    "goal": "state",  # the logits to aim at: VIMADMM's target, also in the paper's variables
    "dual": "state",
    "residual": "state",
    "slope": "increment",  # gradients
    "u": "increment",  # ADMM gaps
}
"""The kind of a field, by the first word of its name (``h_others`` is an ``h``)."""
MAX_ENTRIES = 1 << 28  # of one decoded tensor, so that a short message cannot fill the memory
Draw = Callable[[tuple[int, ...]], Tensor]
"""A function that draws uniform numbers from 0 to 1 of a shape; the caller decides the seed."""


@dataclass(frozen=True)
class Codec(Seal):
    """Base of ``Bits`` and ``TopK``: from a float tensor to wire tensors, and back."""

    parts: ClassVar[tuple[str, ...]]
    """The suffixes of a field's name in the names of its wire tensors."""

    ways: str = field(default="both", kw_only=True)
    feedback: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ways not in WAYS:
            raise unknown(f"ways of {self.kind}", self.ways, WAYS)

    def limits(self) -> tuple[float, float]:
        """The largest magnitude that can be written, and the share of a tensor that may lie beyond it."""
        return math.inf, 1.0

    @abstractmethod
    def encode(self, name: str, values: Tensor, draw: Draw) -> dict[str, Tensor]:
        """The wire tensors of one field."""

    @abstractmethod
    def decode(self, name: str, wire: dict[str, Tensor]) -> Tensor:
        """The field's values from its wire tensors."""


def kind_of(name: str) -> str:
    """The first word of a field's name, which tells its kind."""
    return name.partition("_")[0]


def rows_field(name: str, values: Tensor, rows: int) -> bool:
    """Whether a field has numbers per sample, so that it may be compressed."""
    return kind_of(name) in KINDS and values.ndim >= 2 and values.is_floating_point() and len(values) == rows


def is_state(name: str) -> bool:
    """Whether a field is a state, not an increment."""
    return KINDS.get(kind_of(name)) == "state"


def as_wire(name: str, codes: Codes, bits: int, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Packed codes, with their width and the tensor's shape, which the receiver needs to unpack them."""
    form = torch.tensor([bits, *shape], dtype=torch.int32)
    return {name: torch.from_numpy(pack(codes, bits)), f"{name}.form": form}


def from_wire(name: str, wire: dict[str, Tensor], bits: int) -> tuple[Codes, tuple[int, ...]]:
    """The codes and their tensor's shape, or :class:`MessageError`."""
    shape = shape_of(name, wire)
    return codes_of(name, wire, bits, math.prod(shape)), shape


def codes_of(name: str, wire: dict[str, Tensor], bits: int, count: int) -> Codes:
    """Unpack ``count`` codes of ``bits`` bits, or refuse the message; its form was checked before."""
    width = int(wire[f"{name}.form"][0])
    if width != bits:
        raise MessageError(f"'{name}' came in codes of {width} bits where {bits} were agreed; use the same seals.")
    if wire[name].dtype != torch.uint8:
        raise MessageError(f"'{name}' came as {wire[name].dtype} where packed codes were expected.")
    return unpack(wire[name].numpy(), bits, count)


def shape_of(name: str, wire: dict[str, Tensor]) -> tuple[int, ...]:
    """The shape that was sent with a field's codes, checked before anything is allocated."""
    form = wire.get(f"{name}.form")
    if form is None or name not in wire or form.dtype != torch.int32 or form.ndim != 1:
        raise MessageError(f"'{name}' came without the form of its codes; do both sides use the same seals?")
    if not 1 <= len(form) <= 1 + MAX_DIMENSIONS:
        raise MessageError(f"'{name}' came in codes with a form of {len(form)} numbers, which none has.")
    shape = tuple(form[1:].tolist())
    if min(shape, default=0) < 0 or math.prod(max(size, 1) for size in shape) > MAX_ENTRIES:
        raise MessageError(f"'{name}' came with the shape {shape}, which is beyond what a message may hold.")
    return shape
