"""The interface of masks, which hide ids with a secret key; in plain mode they hide nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Mask(Protocol):
    """One party's secret of one alignment, which masks ids and points."""

    def own(self, ids: Sequence[bytes]) -> bytes:
        """The party's own ids, masked."""

    def again(self, points: bytes, whose: str) -> bytes:
        """Another party's masked ids, masked once more."""
