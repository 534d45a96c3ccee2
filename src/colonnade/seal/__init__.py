"""Seals: protection and compression of a message, or of the labels, before another side sees them.

::

    the party's values ── Noise ── Bits or TopK ── Blind ──> frame ──> the owner
                          clip,    few bits,       masks that
                          noise,   fewer entries   cancel in
                          budget                   the sum

    the owner's gradients ── Marvell, ClassNoise or MaxNorm ── Bits or TopK ──> frame ──> a party

The order is always this one, whatever the order of the list in ``seal=``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from colonnade.errors import ConfigError, SealError, unknown
from colonnade.seal.base import Seal
from colonnade.seal.bits import Bits
from colonnade.seal.blind import Blind
from colonnade.seal.codec import Codec
from colonnade.seal.gradient_noise import ClassNoise, GradientSeal, MaxNorm
from colonnade.seal.label_noise import LaplaceLabels, RandomLabels
from colonnade.seal.marvell import Marvell
from colonnade.seal.noise import Noise
from colonnade.seal.topk import TopK

__all__ = [
    "SEALS",
    "Bits",
    "Blind",
    "ClassNoise",
    "LaplaceLabels",
    "Marvell",
    "MaxNorm",
    "Noise",
    "RandomLabels",
    "Seal",
    "Seals",
    "TopK",
    "describe",
    "listed",
    "make_seal",
    "make_seals",
]

_CLASSES: tuple[type[Seal], ...] = (
    Bits,
    TopK,
    Blind,
    Noise,
    RandomLabels,
    LaplaceLabels,
    Marvell,
    ClassNoise,
    MaxNorm,
)
SEALS: dict[str, type[Seal]] = {cls.kind: cls for cls in _CLASSES}


@dataclass(frozen=True)
class Seals:
    """The seals of a run, by their role."""

    up: Codec | None = None
    down: Codec | None = None
    blind: Blind | None = None
    noise: Noise | None = None
    labels: RandomLabels | LaplaceLabels | None = None
    gradients: GradientSeal | None = None

    def __post_init__(self) -> None:
        if self.gradients is not None and self.labels is not None:
            raise SealError(
                f"{self.gradients.kind} looks at the true labels, and what {self.labels.kind} promises would no longer "
                "hold; leave one of them out."
            )
        if self.blind is None or self.up is None:
            return
        if not isinstance(self.up, Bits):
            raise SealError(
                f"{type(self.up).__name__} keeps other entries at every party, so what Blind hides would not add up; "
                "use Bits with Blind, or TopK(ways='down')."
            )
        self.up.fixed_scale("o")  # refuses a scale that is not the same at all parties
        if self.up.feedback and self.blind.recover:
            raise SealError(
                "Bits(feedback=True) relies on every message arriving, and Blind(recover=True) goes on without some; "
                "use one of them, or feedback with ways='down'."
            )


def make_seals(seals: Any) -> Seals:
    """The seals of a run from one seal, a list of seals, or None.

    >>> make_seals([Blind(), Bits(4)]).up
    Bits(ways='both', feedback=False, bits=4, scale='auto', max_clipped=0.05)
    """
    places: dict[str, Any] = {}
    for seal in listed(seals):
        if not isinstance(seal, Seal):
            raise ConfigError(f"seal= holds {seal!r}; give seals such as cn.Bits(4) or cn.Blind(), alone or in a list.")
        for place in _places(seal):
            if place in places:
                raise ConfigError(f"seal= holds {places[place]!r} and {seal!r}, which do the same; keep one of them.")
            places[place] = seal
    return Seals(**places)


def make_seal(kind: str, **options: Any) -> Seal:
    """A seal from its name, as a job file writes it.

    >>> make_seal("bits", bits=2).bits
    2
    """
    if kind not in SEALS:
        raise unknown("seal", kind, SEALS)
    known = [field.name for field in fields(SEALS[kind]) if field.default is not MISSING]
    for option in options:
        if option not in known:
            raise unknown(f"option of seal {kind}", option, known)
    return SEALS[kind](**options)


def describe(seals: Iterable[Seal]) -> list[dict[str, Any]]:
    """Seals as plain data for a run's config."""
    return [{"kind": seal.kind, **asdict(seal)} for seal in seals]


def listed(seals: Any) -> list[Seal]:
    """The value of ``seal=`` as a list."""
    return [] if seals is None else list(seals) if isinstance(seals, list | tuple) else [seals]


def _places(seal: Seal) -> list[str]:
    if isinstance(seal, Codec):
        return ["up", "down"] if seal.ways == "both" else [seal.ways]
    if isinstance(seal, RandomLabels | LaplaceLabels):
        return ["labels"]
    if isinstance(seal, GradientSeal):
        return ["gradients"]
    return [seal.kind]
