"""Compression: a tensor as few-bit codes, or as its largest entries.

======================  =====================================================================
``Bits(n)``             uniform stochastic quantisation: 2^n levels from the lowest to the highest
                        value, rounded up or down at random so that the mean is right
``TopK(share)``         the largest entries of every row by magnitude, and where they stand
======================  =====================================================================

Only training messages are compressed, and of them the tensors that have one row per sample:
embeddings, logits, gradients, ADMM gaps. The field's name says which it is (``h``, ``o``, ``slope``,
``u``), and each has a scale of its own that suits it, see ``seal/bits.py``.

With ``feedback=True`` a side keeps, for every sample, what the last compression lost and adds it to the
next message about that sample (Seide et al. 2014; Richtarik et al. 2021).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from colonnade.errors import ConfigError, MessageError, unknown
from colonnade.seal.base import Seal
from colonnade.seal.pack import Codes, pack, unpack

WAYS = ("both", "up", "down")
MAX_ENTRIES = 1 << 28  # of one decoded tensor; few bits on the wire must not become a monstrous tensor
Draw = Callable[[tuple[int, ...]], Tensor]
"""Uniform numbers from 0 to 1 of a shape; the caller decides from which seed."""


@dataclass(frozen=True)
class Codec(Seal):
    """Base of the two: how a float tensor becomes wire tensors, and back."""

    ways: str = field(default="both", kw_only=True)
    feedback: bool = field(default=False, kw_only=True)
    max_clipped: float = field(default=0.05, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ways not in WAYS:
            raise unknown(f"ways of {self.kind}", self.ways, WAYS)
        if not 0 <= self.max_clipped <= 1:
            raise ConfigError(f"{self.kind}: max_clipped={self.max_clipped} is not a share; give a number from 0 to 1.")

    @property
    def bound(self) -> float:
        """The largest magnitude that can be written."""
        return math.inf

    @abstractmethod
    def encode(self, name: str, values: Tensor, draw: Draw) -> dict[str, Tensor]:
        """The wire tensors of one field."""

    @abstractmethod
    def decode(self, name: str, wire: dict[str, Tensor]) -> Tensor:
        """The field's values from its wire tensors."""


def as_wire(name: str, codes: Codes, bits: int, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Packed codes, and what the receiver needs to unpack them: their width and the tensor's shape."""
    form = torch.tensor([bits, *shape], dtype=torch.int32)
    return {name: torch.from_numpy(pack(codes, bits)), f"{name}.form": form}


def from_wire(name: str, wire: dict[str, Tensor], bits: int) -> tuple[Codes, tuple[int, ...]]:
    """The codes and their tensor's shape, or :class:`MessageError`."""
    shape = shape_of(name, wire)
    came = int(wire[f"{name}.form"][0])
    if came != bits:
        raise MessageError(f"'{name}' came in codes of {came} bits where {bits} were agreed; use the same seals.")
    if wire[name].dtype != torch.uint8:
        raise MessageError(f"'{name}' came as {wire[name].dtype} where packed codes were expected.")
    return unpack(wire[name].numpy(), bits, math.prod(shape)), shape


def shape_of(name: str, wire: dict[str, Tensor]) -> tuple[int, ...]:
    """The shape that came with a field's codes, checked before anything is allocated."""
    form = wire.get(f"{name}.form")
    if form is None or name not in wire or form.dtype != torch.int32 or form.ndim != 1 or len(form) < 1:
        raise MessageError(f"'{name}' came without the form of its codes; do both sides use the same seals?")
    shape = tuple(int(size) for size in form[1:])
    if min(shape, default=0) < 0 or math.prod(max(size, 1) for size in shape) > MAX_ENTRIES:
        raise MessageError(f"'{name}' came with the shape {shape}, which is beyond what a message may hold.")
    return shape
