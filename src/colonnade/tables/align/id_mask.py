"""What hides ids: a secret key, or in plain mode nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Mask(Protocol):
    """One party's secret of one alignment, and what it makes of ids and points."""

    def own(self, ids: Sequence[bytes]) -> bytes:
        """The party's own ids, masked."""

    def again(self, points: bytes, whose: str) -> bytes:
        """Another party's masked ids, masked once more."""
