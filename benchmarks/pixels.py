"""What it costs to send the data set itself: every party's pixels as they are, compressed, once."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Sequence

import numpy as np

import colonnade as cn

PACKERS: dict[str, Callable[[bytes], bytes]] = {"zlib": lambda pixels: zlib.compress(pixels, 9), "lzma": lzma.compress}


def packed_size(tables: Sequence[cn.Table], rows: np.ndarray, packer: str) -> int:
    """Bytes of all parties' pixels of these rows, each party's packed by itself."""
    each = [table.columns[rows].numpy() for table in tables if table.columns is not None]
    assert all(pixels.dtype == np.uint8 for pixels in each), "pixels have 8 bits"
    return sum(len(PACKERS[packer](pixels.tobytes())) for pixels in each)
