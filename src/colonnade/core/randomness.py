"""A side's randomness: from the public seed in a simulation, from 32 secret bytes of that side between organisations.

What all sides must agree on, such as the rows of a round, follows from the seed alone (``schedule.py``). What a side
draws for itself comes from this module: its initial weights, dropout, the rounding to few bits. In a simulation it
follows from the seed, so a simulation can be repeated, and whoever knows the seed can compute it.

Only 32 bits of a torch generator's seed matter, so a seed could be found by trying all of them. A secret therefore
fills the generator's whole state: 624 words by SHAKE-256 from a key, which is an HMAC of the secret and the purpose of
the draw. Each purpose, round and step has a state of its own. The generator itself is not cryptographic. Noise on which
a privacy proof relies is drawn by ``seal/noise.py`` with :meth:`Randomness.key`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import Generator, Tensor

from colonnade.core.schedule import derive_seed
from colonnade.errors import ColonnadeError, ConfigError

SECRET_BYTES = 32
_WORDS = 624
_BEFORE = 24  # bytes of the state in front of its words: seed, two counters, the index of the next word


@dataclass(frozen=True)
class Randomness:
    """One side's randomness, separate for every purpose; with a secret it does not depend on the seed.

    >>> secret, seeded = Randomness(0, bytes(32)), Randomness(0)
    >>> torch.equal(*(torch.rand(2, generator=secret.generator("init", 0)) for _ in range(2)))
    True
    >>> torch.equal(*(torch.rand(2, generator=each.generator("init", 0)) for each in (secret, seeded)))
    False
    """

    seed: int
    secret: bytes | None = None

    def __post_init__(self) -> None:
        if self.secret is not None and len(self.secret) != SECRET_BYTES:
            raise ConfigError(f"a side's secret has {len(self.secret)} bytes; {SECRET_BYTES} are expected.")

    def __repr__(self) -> str:
        return f"Randomness({'a secret' if self.secret is not None else self.seed})"  # a log must not show the secret

    def key(self, purpose: str, *what: object) -> bytes:
        """A key of 32 bytes, for values that are not drawn with torch's generator."""
        if self.secret is None:
            return hashlib.sha256("/".join(map(str, (purpose, self.seed, *what))).encode()).digest()
        return hmac.digest(self.secret, repr((purpose, *map(str, what))).encode(), "sha256")

    def generator(self, *what: object) -> Generator:
        """A new generator for one purpose."""
        generator = Generator()
        self._set(generator, what)
        return generator

    @contextmanager
    def drawing(self, *what: object) -> Iterator[None]:
        """Make all that torch draws in this block follow from this randomness; restore torch's state after it."""
        before = torch.get_rng_state()
        self._set(torch.default_generator, what)
        try:
            yield
        finally:
            torch.set_rng_state(before)

    def within(self, name: str) -> Randomness:
        """The same side's randomness for one part of its work, whose purposes may have the same names as others."""
        return Randomness(derive_seed(self.seed, name), None if self.secret is None else self.key("within", name))

    def _set(self, generator: Generator, what: tuple[object, ...]) -> None:
        if self.secret is None:
            # Not torch.manual_seed: it also seeds every accelerator, which takes as long as a small training step.
            generator.manual_seed(derive_seed(self.seed, *what))
        else:
            generator.set_state(_state(self.key("torch", *what)))


@dataclass(frozen=True)
class Sources:
    """The randomness of every side that computes in this process.

    Without ``secrets`` it follows from the seed. With them, a side whose secret is not in this process may not draw.
    """

    seed: int
    secrets: Mapping[str, bytes] | None = field(default=None, repr=False)

    def of(self, side: str) -> Randomness:
        """One side's randomness, by the side's name in the ledger."""
        if self.secrets is None:
            return Randomness(self.seed)
        if side not in self.secrets:
            raise ConfigError(f"'{side}' was to draw something in a process that does not have its secret.")
        return Randomness(self.seed, self.secrets[side])


def _state(key: bytes) -> Tensor:
    """A state of torch's generator whose words all follow from a key."""
    words = np.frombuffer(hashlib.shake_256(key).digest(4 * _WORDS), "<u4")
    state = _empty_state().copy()
    state[_BEFORE : _BEFORE + 8 * _WORDS].view("<u8")[:] = words
    return torch.from_numpy(state)


@cache
def _empty_state() -> np.ndarray:
    """The state of a new generator; refused if its words are not where :func:`_state` writes them."""
    seed = 1
    state = Generator().manual_seed(seed).get_state().numpy()
    words = state[_BEFORE : _BEFORE + 8 * _WORDS]
    expected = np.random.RandomState(seed).get_state(legacy=False)["state"]["key"]  # numpy has the same generator
    if len(words) != 8 * _WORDS or not np.array_equal(words.view("<u8"), expected):
        raise ColonnadeError(f"torch {torch.__version__} keeps its generator's state in a form that is not known here.")
    return state
