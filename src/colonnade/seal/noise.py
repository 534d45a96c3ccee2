"""Gaussian noise on a party's messages, under a privacy budget that says when the party must stop.

**Mechanism.** A party scales a message down to L2 norm C (``clip``) per unit, and adds Gaussian noise of standard
deviation ``sigma * clip`` to every entry. Two neighbouring inputs differ by *replacing* a unit, so a message moves by
up to 2 C, and the accountant's multiplier is ``sigma / 2``. (Xie et al., "Improving privacy-preserving vertical
federated learning by efficient communication with ADMM", SaTML 2024, count C, which is right for adding or removing
a party only.) A unit is one of these:

* ``party``: all rows of a party together; the norm is that of the whole message. This is a full guarantee: whatever
  a message depends on, it moves by 2 C at most.
* ``row``: one row of one party; the norm is that of the row's entries. The budget adds up all rows of one person, in
  all tables, by their id: ids are people, so give the same id to the same person in every table. This covers what a
  row's own vectors say, for given networks. It does *not* cover what the row does to the party's weights in training,
  and through them to the vectors of all other rows. Nothing here bounds that, and it need not be small; for a full
  guarantee use ``party``.

Neither covers labels, see ``labels.py``.

**Why a grid.** Floating-point noise has holes that show the value below it (Mironov, "On significance of the least
significant bits for differential privacy", CCS 2012). We round the clipped values towards zero to multiples of a
power of two, which cannot increase their norm, and the noise to the nearest multiple. Since then
``x + round(N) = round(x + N)``, the result is a post-processing of the continuous mechanism, and exact in float64.

**Where noise comes from.** ChaCha20, under a key that is an HMAC of the label and of the values themselves (the idea
of synthetic nonces, RFC 5297). A round that is repeated after a crash gives the same bytes again, so it reveals nothing
new. If its values are different, the noise is independent. A label must name *one* message of a job (round, step,
table, purpose): two equal messages under one label can be recognised as equal.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from torch import Tensor

from colonnade.errors import ConfigError, SealError, TrainingError, unknown
from colonnade.seal import accountant
from colonnade.seal.accountant import UNITS, Budget
from colonnade.seal.base import Seal

__all__ = ["Budget", "Noise", "NoiseSource"]

_LEAST_KEY = 32
# Grid steps in one standard deviation: fine enough for a large message of norm C, and float32 holds 32 deviations.
_STEPS = 2.0**18
# More than the rounding error of a sum of squares in float64, so that no clipped norm exceeds C.
_ROOM = 1.0 - 2.0**-32


class NoiseSource:
    """The randomness of one party: a keyed function of a label and a digest, so there is no state to save.

    >>> source = NoiseSource(bytes(32))
    >>> once, again = (source.gaussian("round 1", b"values", (2, 3)) for _ in range(2))
    >>> torch.equal(once, again), torch.equal(once, source.gaussian("round 1", b"others", (2, 3)))
    (True, False)
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < _LEAST_KEY:
            raise SealError(
                f"a noise key of {len(key)} bytes came, expected at least {_LEAST_KEY}; use os.urandom(32)."
            )
        self._key = bytes(key)

    def uniform(self, label: str, digest: bytes, shape: Sequence[int]) -> Tensor:
        """Float64 numbers k / 2^53 in [0, 1)."""
        name = label.encode()
        # The length in front makes every pair (label, digest) give different bytes.
        text = len(name).to_bytes(8, "little") + name + digest
        stream = ChaCha20(hmac.digest(self._key, text, "sha256"), bytes(16))  # used once, so the nonce may be zero
        raw = Cipher(stream, mode=None).encryptor().update(bytes(8 * math.prod(shape)))
        whole = np.frombuffer(raw, dtype="<u8") >> np.uint64(11)
        return torch.from_numpy(whole.astype(np.float64) * 2.0**-53).reshape(tuple(shape))

    def gaussian(self, label: str, digest: bytes, shape: Sequence[int]) -> Tensor:
        """Standard normal float64 numbers, by Box and Muller; the cut at 8.5 deviations weighs 1e-17."""
        count = math.prod(shape)
        first, second = self.uniform(label, digest, (2, (count + 1) // 2))
        radius = (1.0 - first).log_().mul_(-2.0).sqrt_()  # 1 - u is exact and never 0
        angle = second * (2.0 * math.pi)
        return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count].reshape(tuple(shape))


@dataclass(frozen=True)
class Noise(Seal):
    """Differential privacy for a party's columns: clip every unit to ``clip``, add noise of ``sigma * clip``.

    ``epsilon`` is a party's privacy budget, at ``delta``; it cannot be exceeded. ``sigma`` is the standard deviation of
    the noise in units of the clip; replacing a unit moves a message by two clips. The module's docstring says
    what each ``unit`` covers; the weaker one, ``row``, leaves out a row's influence on the weights.

    >>> Noise(epsilon=8.0, sigma=10.0).releases
    61
    """

    kind: ClassVar[str] = "noise"

    epsilon: float = 8.0
    delta: float = 1e-5
    sigma: float = 10.0
    clip: float = 1.0
    unit: str = "row"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit not in UNITS:
            raise unknown("unit", self.unit, UNITS)
        for name, low, high in (("sigma", 0.01, 1e3), ("clip", 1e-9, 1e9), ("epsilon", 1e-6, 1e6)):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"noise: {name}={getattr(self, name)} is out of range; from {low:g} to {high:g}.")
        if not 0.0 < self.delta < 1.0:
            raise ConfigError(f"noise: delta={self.delta} is out of range; it must lie between 0 and 1.")
        if self.releases == 0:
            once = accountant.epsilon(1, self.multiplier, self.delta)
            raise ConfigError(
                f"noise: epsilon={self.epsilon} does not pay for one release at sigma={self.sigma}, which costs "
                f"{once:.3g}; raise sigma or epsilon."
            )

    @property
    def multiplier(self) -> float:
        """Standard deviation over sensitivity, for the accountant."""
        return self.sigma / 2.0

    @property
    def releases(self) -> int:
        """How often a unit may be released."""
        return accountant.releases_within(self.epsilon, self.multiplier, self.delta)

    def budget(self, party: str) -> Budget:
        """A fresh budget for one party."""
        epsilon, delta, multiplier, unit = self._terms
        return Budget(party, epsilon=epsilon, delta=delta, multiplier=multiplier, unit=unit)

    @property
    def _terms(self) -> tuple[float, float, float, str]:
        return self.epsilon, self.delta, self.multiplier, self.unit

    @property
    def grid(self) -> float:
        """The power of two that every sent value is a multiple of."""
        return float(2.0 ** math.floor(math.log2(self.sigma * self.clip)) / _STEPS)

    def release(
        self,
        message_fields: Mapping[str, Tensor],
        *,
        source: NoiseSource,
        budget: Budget,
        people: Tensor,
        label: str,
        purpose: str,
    ) -> dict[str, Tensor]:
        """The noisy message, which may leave the party; it is counted in the budget before any noise is drawn.

        ``people`` has one number per row of the message: the person's, the same in every table.
        """
        if (budget.granted, budget.delta, budget.multiplier, budget.unit) != self._terms:
            raise SealError(f"noise: the budget of '{budget.party}' was made for other noise; make it with budget().")
        if not message_fields:
            return {}
        with torch.no_grad():
            values = self._units(message_fields, len(people))
            steps, clipped = self._clip(values)
            budget.spend(people, purpose)
            budget.seen += len(steps)
            budget.clipped += clipped
            noise = source.gaussian(label, self._digest(message_fields, people, steps), steps.shape)
            sent = noise.mul_(self.sigma * self.clip / self.grid).round_().add_(steps).mul_(self.grid)
            return _fields(sent, message_fields)

    def _units(self, message: Mapping[str, Tensor], rows: int) -> Tensor:
        """The message as a float64 matrix with one line per unit."""
        for name, values in message.items():
            if not values.is_floating_point():
                raise SealError(f"noise: '{name}' holds {values.dtype}, expected real numbers; send it without noise.")
            if not bool(values.isfinite().all()):
                raise TrainingError(f"noise: '{name}' is not finite; lower the learning rate or check the columns.")
            if self.unit == "row" and (values.dim() == 0 or len(values) != rows):
                raise SealError(
                    f"noise: '{name}' has shape {list(values.shape)}, expected {rows} rows in front; "
                    "use unit='party' for messages that are not made of rows."
                )
        lines = rows if self.unit == "row" else 1
        flat = [
            values.to("cpu", torch.float64).reshape(lines, values.numel() // max(lines, 1))
            for values in message.values()
        ]
        return torch.cat(flat, 1)

    def _clip(self, values: Tensor) -> tuple[Tensor, int]:
        """Whole grid steps, of norm C at most in every line, and how many lines were longer."""
        norm = torch.linalg.vector_norm(values, dim=1, keepdim=True)
        scale = (self.clip * _ROOM / norm).clamp(max=1.0)  # a line of zeros: C / 0 = inf, so 1
        return (values * scale).div_(self.grid).trunc_(), int((norm > self.clip).sum())

    def _digest(self, message: Mapping[str, Tensor], people: Tensor, steps: Tensor) -> bytes:
        """A digest of everything that the message consists of before noise.

        The seal is part of it: with the same noise at two sigmas one could compute the values.
        """
        shapes = [(name, tuple(values.shape)) for name, values in message.items()]
        digest = hashlib.sha256(repr((self, shapes, len(people))).encode())
        for part in (people.to("cpu", torch.int64), steps + 0.0):  # + 0.0: minus zero is zero
            digest.update(part.contiguous().numpy().tobytes())
        return digest.digest()


def _fields(sent: Tensor, message: Mapping[str, Tensor]) -> dict[str, Tensor]:
    widths = [values.numel() // max(len(sent), 1) for values in message.values()]
    parts = zip(message.items(), sent.split(widths, 1), strict=True)
    return {name: part.reshape(values.shape).to(values) for (name, values), part in parts}
