"""The secret that the owner and the parties hide from the helper: the order of the rows, and the unit of every query.

Both follow from one key by AES in counter mode, so nobody without the key can identify the rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.seal.masks import keystream
from colonnade.seal.ring import Ring

KEY_BYTES = 16


@dataclass(frozen=True)
class Secret:
    """Orders and lengths that follow from a key, a purpose and a number.

    >>> secret = Secret(bytes(KEY_BYTES))
    >>> sorted(secret.order(5, "rows", 1).tolist()), torch.equal(secret.order(5, "rows", 1), secret.order(5, "rows", 2))
    ([0, 1, 2, 3, 4], False)
    """

    key: bytes

    @classmethod
    def of_seed(cls, seed: int) -> Secret:
        """The key of a simulation; it follows from the seed, because a simulation must be repeatable."""
        return cls(hashlib.sha256(f"select/{seed}".encode()).digest()[:KEY_BYTES])

    def order(self, count: int, what: str, number: int) -> Tensor:
        """A permutation of ``range(count)``."""
        return torch.from_numpy(np.argsort(self._numbers(count, what, number), kind="stable"))

    def lengths(self, count: int, what: str, number: int) -> Tensor:
        """Factors from 0.5 to 2."""
        return torch.from_numpy(0.5 + 1.5 * self._numbers(count, what, number) / 2.0**64).to(torch.float32)

    def _numbers(self, count: int, what: str, number: int) -> NDArray[np.unsignedinteger]:
        return keystream(hashlib.sha256(self.key + f"/{what}/{number}".encode()).digest(), count, Ring(64))
