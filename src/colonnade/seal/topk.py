"""The largest entries of every row and their positions (Aji, Heafield 2017; Castiglia et al. 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import ConfigError, MessageError
from colonnade.seal.codec import Codec, Draw, as_wire, codes_of, shape_of


@dataclass(frozen=True)
class TopK(Codec):
    """The largest ``share`` of every row's entries by magnitude; the others arrive as zero.

    >>> wire = TopK(0.5).encode("h", torch.tensor([[0.1, -3.0, 2.0, 0.0]]), torch.rand)
    >>> TopK(0.5).decode("h", wire).tolist()
    [[0.0, -3.0, 2.0, 0.0]]
    """

    kind: ClassVar[str] = "topk"
    parts: ClassVar[tuple[str, ...]] = ("", ".at", ".at.form")

    share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ConfigError(f"topk: share={self.share} is not a share; give a number above 0, up to 1.")

    def encode(self, name: str, values: Tensor, draw: Draw) -> dict[str, Tensor]:
        """The kept values of every row, and packed positions."""
        rows = values.flatten(1).to(torch.float32)
        at = rows.abs().topk(self._sent(rows.shape[1]), dim=1, sorted=False).indices.sort(dim=1).values
        positions = at.to(torch.int32).numpy().astype(np.uint32)
        coded = as_wire(f"{name}.at", positions, _index_bits(rows.shape[1]), values.shape)
        return {name: rows.gather(1, at), **coded}

    def decode(self, name: str, wire: dict[str, Tensor]) -> Tensor:
        """The rows, with zeros for entries that were not sent."""
        values = wire[name]
        shape = shape_of(f"{name}.at", wire)
        width = math.prod(shape[1:])
        # The number of values must fit the share, so that a short message cannot claim rows that fill the memory.
        if values.dtype != torch.float32 or tuple(values.shape) != (shape[0], self._sent(width)):
            raise MessageError(f"{tuple(values.shape)} values of '{name}' came for rows of the shape {shape}.")
        positions = codes_of(f"{name}.at", wire, _index_bits(width), values.numel())
        at = positions.astype(np.int64).reshape(tuple(values.shape))
        if at.size and at.max() >= width:
            raise MessageError(f"a value of '{name}' stands at position {at.max()} of a row with {width} entries.")
        if (np.diff(at, axis=1) <= 0).any():
            raise MessageError(f"two values of '{name}' stand at one position of a row, or not in their order.")
        return torch.zeros(shape[0], width).scatter_(1, torch.from_numpy(at), values).reshape(shape)

    def _sent(self, width: int) -> int:
        """How many entries of a row are sent."""
        return math.ceil(self.share * width - 1e-9)  # 0.07 of 100 is 7, in spite of rounding


def _index_bits(width: int) -> int:
    return max(1, (width - 1).bit_length())
