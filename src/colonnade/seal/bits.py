"""Few-bit codes: uniform stochastic quantisation (Alistarh et al., *QSGD*, 2017), packed without gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import ConfigError, MessageError, SealError, unknown
from colonnade.seal.codec import Codec, Draw, as_wire, from_wire, kind_of
from colonnade.seal.pack import Codes, smallest

SCALES: dict[str, tuple[str, float]] = {
    # kind of field: the scale that is sent with the codes; under Blind, the bound of the first sum
    "h": ("tensor", 8.0),  # embeddings: rows have similar ranges
    "o": ("tensor", 4.0),  # one party's share of the logits
    "slope": ("row", 0.01),  # gradients: those of learnt rows are orders of magnitude smaller
    "u": ("tensor", 4.0),  # ADMM gaps: rows have similar ranges, which the duals limit
}
HALF = 60_000.0  # slightly less than the largest half-precision float
LARGEST_SCALE = 1e30  # with a larger one, sums of levels overflow float32
SOFT_MAXIMUM = 8
"""The mean of this power replaces the largest magnitude: it can be summed over parties, and ignores outliers."""


@dataclass(frozen=True)
class Bits(Codec):
    """Stochastic quantisation to 2^bits levels.

    ``scale`` is the range of the levels: "tensor" (around the tensor's mean, as wide as its values except outliers),
    "row" (one for each row, symmetric), a number (fixed, from minus to plus that number), or "auto" (by the kind of
    message; under Blind it follows the common range of all parties' values).
    Values beyond a fixed scale are clipped and counted; a tensor with a larger share than ``max_clipped`` is refused.

    >>> values = torch.tensor([[-3.0, -1.0], [1.0, 3.0]])
    >>> wire = Bits(2, scale=3.0).encode("h", values, torch.rand)
    >>> wire["h"].tolist(), Bits(2, scale=3.0).decode("h", wire).tolist()
    ([228], [[-3.0, -1.0], [1.0, 3.0]])
    """

    kind: ClassVar[str] = "bits"
    parts: ClassVar[tuple[str, ...]] = ("", ".form", ".scale")
    unchecked: ClassVar[tuple[str, ...]] = ("scale",)

    bits: int = 4
    scale: float | str = "auto"
    max_clipped: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= 16:
            raise ConfigError(f"bits: bits={self.bits} is out of range; give a whole number from 1 to 16.")
        if isinstance(self.scale, str):
            if self.scale not in ("auto", "tensor", "row"):
                raise unknown("scale of bits", self.scale, ["auto", "tensor", "row", "a positive number"])
        elif (
            isinstance(self.scale, bool)
            or not isinstance(self.scale, int | float)
            or not 0 < self.scale <= LARGEST_SCALE
        ):
            raise ConfigError(f"bits: scale={self.scale!r} is out of range; give a positive number up to 1e30.")
        if not 0 <= self.max_clipped <= 1:
            raise ConfigError(f"bits: max_clipped={self.max_clipped} is not a share; give a number from 0 to 1.")

    def limits(self) -> tuple[float, float]:
        """A fixed scale, if there is one."""
        return (math.inf, 1.0) if isinstance(self.scale, str) else (float(self.scale), self.max_clipped)

    @property
    def loading(self) -> float:
        """The levels' range in soft maxima: with few levels, smaller steps are worth clipping some values."""
        return 0.4 * self.bits

    @property
    def levels(self) -> int:
        """The highest code."""
        return int(2**self.bits - 1)

    def fixed_scale(self, name: str) -> float:
        """The bound that is the same at all parties, so that their codes can be added."""
        if self.scale in ("tensor", "row"):
            raise SealError(
                f"Bits(scale='{self.scale}') gives every party a scale of its own, and blinded codes add only on a "
                "common one; give a number, such as Bits(4, scale=4.0), or scale='auto'."
            )
        return SCALES.get(kind_of(name), ("", 4.0))[1] if isinstance(self.scale, str) else float(self.scale)

    def encode(self, name: str, values: Tensor, draw: Draw) -> dict[str, Tensor]:
        """Codes of ``bits`` bits, and their scale."""
        scale = self._scale_of(name)
        wire = {}
        if scale == "tensor":
            wire[f"{name}.scale"] = self._tensor_scale(values)
        elif scale == "row":
            wire[f"{name}.scale"] = _row_scale(values)
        else:
            wire[f"{name}.scale"] = torch.tensor([float(scale)])  # sent, so that a receiver with another scale notices
        low, high = self._range(wire[f"{name}.scale"], scale)
        codes = self.quantise(values, low, high, draw)
        return {**as_wire(name, codes, self.bits, values.shape), **wire}

    def decode(self, name: str, wire: dict[str, Tensor]) -> Tensor:
        """The values of the codes."""
        codes, shape = from_wire(name, wire, self.bits)
        scale = self._scale_of(name)
        travelled = wire.get(f"{name}.scale", torch.zeros(0))
        expected = {"tensor": (2,), "row": (shape[0], *[1] * (len(shape) - 1))}.get(str(scale), (1,))
        fits = tuple(travelled.shape) == expected and travelled.dtype in (torch.float16, torch.float32)
        if not fits or (expected == (1,) and float(travelled) != torch.tensor(float(scale))):
            raise MessageError(
                f"the codes of '{name}' came on the scale {travelled.flatten()[:2].tolist()} where '{scale}' was "
                "agreed; use the same seals on both sides."
            )
        low, high = self._range(travelled, scale)
        return self.levels_of(torch.from_numpy(codes.astype(np.int32)).reshape(shape), low, high)

    def quantise(self, values: Tensor, low: Tensor, high: Tensor, draw: Draw) -> Codes:
        """The codes of values in [low, high], rounded at random so that their mean is right."""
        step = (high - low) / self.levels
        position = torch.where(step > 0, (values - low) / step, torch.zeros(()))
        codes = (position + draw(tuple(values.shape))).floor().clamp(0, self.levels)
        return codes.to(torch.int32).numpy().astype(smallest(self.bits))

    def levels_of(self, codes: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The values of codes."""
        return (low + codes * ((high - low) / self.levels)).to(torch.float32)

    def _tensor_scale(self, values: Tensor) -> Tensor:
        if not values.numel():
            return torch.zeros(2)
        low, high = values.double().aminmax()
        centre = values.double().mean()
        unit = (high - low).clamp(min=1e-300)  # divided out, so that a high power neither overflows nor vanishes
        soft = ((values.double() - centre) / unit).abs().pow(SOFT_MAXIMUM).mean().pow(1 / SOFT_MAXIMUM) * unit
        reach = self.loading * soft
        return torch.stack([torch.maximum(low, centre - reach), torch.minimum(high, centre + reach)]).float()

    def _scale_of(self, name: str) -> str | float:
        return SCALES.get(kind_of(name), ("tensor", 0.0))[0] if self.scale == "auto" else self.scale

    def _range(self, travelled: Tensor, scale: str | float) -> tuple[Tensor, Tensor]:
        travelled = travelled.to(torch.float64)  # the difference of two float32 may overflow
        return (travelled[0], travelled[1]) if scale == "tensor" else (-travelled, travelled)


def _row_scale(values: Tensor) -> Tensor:
    """Each row's largest magnitude, rounded up to half precision, or as float32 if one is too large for that."""
    largest = values.flatten(1).abs().amax(1) if values.numel() else values.new_zeros(len(values))
    shaped = largest.reshape(-1, *[1] * (values.ndim - 1)).to(torch.float32)
    if values.numel() and float(largest.max()) > HALF:
        return shaped
    return (shaped * (1 + 2**-10) + 6e-8).to(torch.float16)
