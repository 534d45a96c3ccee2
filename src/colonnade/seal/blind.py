"""Blind: the owner reads only the sum over parties (Bonawitz et al. 2017, with fresh keys for every sum).

A party sends fixed-point numbers (or the codes of ``Bits``) in a ring, plus one mask per other party. The two masks of
a pair are equal and opposite, so they cancel in the sum over all parties, bit for bit.

Masks cannot hide the sum itself. If all parties but one help the owner, it learns that party's values. With two blinded
parties, each can subtract its own values from a sum that it is told.
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
"""The suffix of a field's range statistic, which is summed beside the field's few-bit codes."""


@dataclass(frozen=True)
class Blind(Seal):
    """Masks that cancel in the sum, for methods that need only the sum.

    ``ring`` is the width of the numbers: 32 bits with 16 after the point, or 64 with 32. ``clip`` is the largest
    magnitude, 0 for the largest that the ring allows; a tensor with a larger share than ``max_clipped`` beyond it is
    refused. If a party is absent, the sum is asked for again, up to ``attempts`` times. With ``recover=True`` (four
    parties or more) the result is then the sum of the others, for more bytes per sum.

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
        """The code from values without compression to ring elements."""
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
        """The values of the sum of ``count`` parties' codes."""
        return torch.from_numpy(self.point.decode(total)).to(torch.float32)


class FewBitCode:
    """The codes of ``Bits`` on a scale that all parties share, in the smallest ring that holds their sum."""

    def __init__(self, bits: Bits, name: str, parties: int, bound: Tensor | None = None) -> None:
        self.bits = bits
        self.ring = Ring((parties * bits.levels).bit_length())
        self.bound = bits.fixed_scale(name) if bound is None else float(bound)
        # A scale that follows the values may clip more of them when they jump; only a fixed one has a limit.
        self.most = 1.0 if bits.scale == "auto" else bits.max_clipped
        self.feedback = bits.feedback
        self.low, self.high = torch.tensor(-self.bound), torch.tensor(self.bound)

    def encode(self, values: Tensor, draw: Draw) -> Codes:
        """Ring elements, rounded up or down at random."""
        return self.bits.quantise(values, self.low, self.high, draw).astype(self.ring.dtype)

    def decode(self, total: Codes, count: int) -> Tensor:
        """The values of the sum of ``count`` parties' codes."""
        step = (self.high - self.low) / self.bits.levels
        return torch.from_numpy(total.astype(np.int64)) * step + count * self.low


SumCode = WholeCode | FewBitCode


class Coded(NamedTuple):
    """One tensor of one party as ring elements before masking, with its ring and its scale."""

    codes: Codes
    ring: Ring
    bound: float
