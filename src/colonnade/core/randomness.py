"""Where a side's randomness comes from: the public seed in a simulation, 32 bytes that only the side knows elsewhere.

What all sides must agree on, such as the rows of a round, follows from the seed alone (``schedule.py``). Everything
that a side draws for itself, such as its first weights, dropout, or how few bits are rounded, comes from here. Whoever
knows the seed knows those of a simulation, which therefore repeats.

A seed of torch's generator has 32 bits that count, so that one could be found by trial. A secret therefore fills the
generator's whole state: 624 words by SHAKE-256 from a key that is an HMAC of the secret and of what is drawn for. Each
purpose, round and step has a state of its own. Within one of them the generator is not a cryptographic one; noise that
a proof relies on comes from ``seal/noise.py``, under :meth:`Randomness.key`.
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
_BEFORE = 24  # bytes of the state in front of its words: seed, two counters, the place of the next word


@dataclass(frozen=True)
class Randomness:
    """One side's randomness, by what is drawn for; with a secret the seed has no part in it.

    >>> one, other = Randomness(0, bytes(32)), Randomness(0)
    >>> torch.equal(*(torch.rand(2, generator=one.generator("init", 0)) for _ in range(2)))
    True
    >>> torch.equal(*(torch.rand(2, generator=each.generator("init", 0)) for each in (one, other)))
    False
    """

    seed: int
    secret: bytes | None = None

    def __post_init__(self) -> None:
        if self.secret is not None and len(self.secret) != SECRET_BYTES:
            raise ConfigError(f"a side's secret has {len(self.secret)} bytes; {SECRET_BYTES} are expected.")

    def __repr__(self) -> str:
        return f"Randomness({'a secret' if self.secret is not None else self.seed})"  # a log must not show it

    def key(self, purpose: str, *what: object) -> bytes:
        """Thirty-two bytes for what is drawn with another cipher than torch's generator."""
        if self.secret is None:
            return hashlib.sha256("/".join(map(str, (purpose, self.seed, *what))).encode()).digest()
        return hmac.digest(self.secret, repr((purpose, *map(str, what))).encode(), "sha256")

    def generator(self, *what: object) -> Generator:
        """A generator of its own for what is drawn."""
        generator = Generator()
        self._set(generator, what)
        return generator

    @contextmanager
    def drawing(self, *what: object) -> Iterator[None]:
        """Let all that torch draws within follow from this randomness, and nothing outside notice it."""
        before = torch.get_rng_state()
        self._set(torch.default_generator, what)
        try:
            yield
        finally:
            torch.set_rng_state(before)

    def within(self, name: str) -> Randomness:
        """The same side's randomness for a part of it, whose purposes have names that may be taken already."""
        return Randomness(derive_seed(self.seed, name), None if self.secret is None else self.key("within", name))

    def _set(self, generator: Generator, what: tuple[object, ...]) -> None:
        if self.secret is None:
            # Not torch.manual_seed, which also tells accelerators that are not there, at the cost of a small step.
            generator.manual_seed(derive_seed(self.seed, *what))
        else:
            generator.set_state(_state(self.key("torch", *what)))


@dataclass(frozen=True)
class Sources:
    """The randomness of every side of a run that computes in this process.

    Without ``secrets`` that is the seed's. With them a side whose secret is not here must draw nothing here.
    """

    seed: int
    secrets: Mapping[str, bytes] | None = field(default=None, repr=False)

    def of(self, side: str) -> Randomness:
        """One side's, by its name in the ledger."""
        if self.secrets is None:
            return Randomness(self.seed)
        if side not in self.secrets:
            raise ConfigError(f"'{side}' was to draw something in a process that does not have its secret.")
        return Randomness(self.seed, self.secrets[side])


def _state(key: bytes) -> Tensor:
    """A state of torch's generator all of whose words follow from a key."""
    words = np.frombuffer(hashlib.shake_256(key).digest(4 * _WORDS), "<u4")
    state = _empty_state().copy()
    state[_BEFORE : _BEFORE + 8 * _WORDS].view("<u8")[:] = words
    return torch.from_numpy(state)


@cache
def _empty_state() -> np.ndarray:
    """The state of a fresh generator; refused if its words are not where we put others."""
    seed = 1
    state = Generator().manual_seed(seed).get_state().numpy()
    found = state[_BEFORE : _BEFORE + 8 * _WORDS]
    due = np.random.RandomState(seed).get_state(legacy=False)["state"]["key"]  # numpy seeds the same generator alike
    if len(found) != 8 * _WORDS or not np.array_equal(found.view("<u8"), due):
        raise ColonnadeError(f"torch {torch.__version__} keeps its generator's state in a form that is not known here.")
    return state
