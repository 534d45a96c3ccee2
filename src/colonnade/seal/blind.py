"""Blind: the owner reads only the sum over parties (Bonawitz et al. 2017, with fresh keys for every sum).

What a party sends is fixed-point numbers (or the codes of ``Bits``) in a ring, plus one mask per other party.
The masks of a pair are equal and opposite, so the sum over all parties has none left, bit for bit.

What no mask can hide: the sum itself. The owner with all parties but one learns that one's values, and with
two blinded parties each can subtract its own from a sum that it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import ConfigError
from colonnade.seal.base import Seal
from colonnade.seal.bits import Bits
from colonnade.seal.codec import Draw
from colonnade.seal.pack import Codes
from colonnade.seal.ring import FixedPoint, Ring

SPREAD = ".spread"
"""Behind a field's name: the statistic of how far its values reach, which is summed beside its few-bit codes."""


@dataclass(frozen=True)
class Blind(Seal):
    """Masks that cancel in the sum, for methods that need only the sum.

    ``ring`` is the width of the numbers: 32 bits with 16 after the point, or 64 with 32. ``clip`` is the largest
    magnitude, 0 for as large as the ring allows; a tensor with more than ``max_clipped`` beyond it is refused.
    A party that does not answer makes the sum be asked for again, up to ``attempts`` times; ``recover=True``
    (four parties or more) gives the sum of those that did answer instead, for more bytes per sum.

    >>> Blind(clip=8.0).code(4).ring.bits
    32
    """

    kind: ClassVar[str] = "blind"

    ring: int = 32
    clip: float = 0.0
    max_clipped: float = 0.001
    recover: bool = False
    attempts: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ring not in (32, 64):
            raise ConfigError(f"blind: ring={self.ring} is unknown; choose 32 or 64 bits.")
        if self.clip < 0 or not 0 <= self.max_clipped <= 1 or self.attempts < 1:
            raise ConfigError(
                f"blind: clip={self.clip}, max_clipped={self.max_clipped}, attempts={self.attempts} are out of range; "
                "clip is at least 0, max_clipped a share from 0 to 1, attempts at least 1."
            )

    def code(self, parties: int) -> FixedPoint:
        """How values that are not compressed become ring elements."""
        return FixedPoint(parties=parties, bits=self.ring, limit=self.clip or None)


class WholeCode:
    """Full precision: fixed point in the ring of ``Blind``."""

    feedback = False

    def __init__(self, blind: Blind, parties: int) -> None:
        self.point = blind.code(parties)
        self.ring = self.point.ring
        self.bound, self.most = self.point.clip, blind.max_clipped

    def encode(self, values: Tensor, draw: Draw) -> Codes:
        """Ring elements, rounded to the nearest."""
        return self.point.encode(values.numpy())[0]

    def decode(self, total: Codes, count: int) -> Tensor:
        """What the sum of ``count`` parties' codes stands for."""
        return torch.from_numpy(self.point.decode(total)).to(torch.float32)


class FewBitCode:
    """The codes of ``Bits`` on a scale that all parties share, in the smallest ring that holds their sum."""

    def __init__(self, bits: Bits, name: str, parties: int, bound: Tensor | None = None) -> None:
        self.bits = bits
        self.ring = Ring((parties * bits.levels).bit_length())
        self.bound = bits.fixed_scale(name) if bound is None else float(bound)
        # A scale that follows the values clips a few and is not at fault if they jump; a fixed one is.
        self.most = 1.0 if bits.scale == "auto" else bits.max_clipped
        self.feedback = bits.feedback
        self.low, self.high = torch.tensor(-self.bound), torch.tensor(self.bound)

    def encode(self, values: Tensor, draw: Draw) -> Codes:
        """Ring elements, rounded up or down at random."""
        return self.bits.quantise(values, self.low, self.high, draw).astype(self.ring.dtype)

    def decode(self, total: Codes, count: int) -> Tensor:
        """What the sum of ``count`` parties' codes stands for."""
        step = (self.high - self.low) / self.bits.levels
        return torch.from_numpy(total.astype(np.int64)) * step + count * self.low


SumCode = WholeCode | FewBitCode


class Coded(NamedTuple):
    """One tensor of one party as ring elements, not masked yet, and the ring and scale that it is in."""

    codes: Codes
    ring: Ring
    bound: float
