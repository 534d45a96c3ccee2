"""Rebuilding columns from messages by a decoder: a line or a small network that is fitted to 200 rows known in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from colonnade.privacy.attack import Attack, register
from colonnade.privacy.attacks.candidates import blind_guess, choose
from colonnade.privacy.attacks.row_features import received, side_by_side, windows_of, without_streams
from colonnade.privacy.attacks.secret_streams import embeddings_of, with_secret
from colonnade.privacy.attacks.small_models import line, network
from colonnade.privacy.material import Array, Material, Stream

ROWS = 200
"""Known rows at most."""
LEAST_ROWS_KNOWN = 100
NARROW = 16
"""Messages of so few numbers tell more as they change from round to round."""


@register
class Decoder(Attack):
    """All columns from all that was received about a row."""

    name: ClassVar[str] = "decoder"
    secret: ClassVar[str] = "columns"
    citation: ClassVar[str] = (
        "Erdogan, Kupcu, Cicek: UnSplit: data-oblivious model inversion, model stealing, and label inference attacks "
        "against split learning, WPES 2022; He, Zhang, Lee: Model inversion attacks against collaborative inference, "
        "ACSAC 2019 (its attack with known rows in place of queries)"
    )
    adversary: ClassVar[str] = f"keeps the messages that it receives and knows all columns of {ROWS} rows"
    without: ClassVar[str] = "fits the same rows to what it has of its own (columns, labels), and to shuffled messages"
    rows_known: ClassVar[int] = ROWS
    trains: ClassVar[bool] = True

    def unfit(self, material: Material) -> str:
        """It needs messages and known rows."""
        return lacks_rows(material) if received(material) else "no messages were received"

    def guess(self, material: Material, rng: np.random.Generator) -> Array:
        """By messages, alone and beside what it has of its own, or by the latter alone."""
        return choose(material, rebuilt(material, received(material), rng))

    def control(self, material: Material, rng: np.random.Generator) -> Array:
        """The mean, a decoder of what it has of its own, or one of shuffled messages."""
        return choose(material, rebuilt_without(material, received(material), rng))

    def planted(self, material: Material, rng: np.random.Generator) -> Material:
        """Embeddings along the main directions of the columns."""
        return with_secret(material, received(material), embeddings_of(material.truth, rng))


def lacks_rows(material: Material) -> str:
    """Why there are too few known rows, as the end of a sentence; empty if there are enough."""
    known = len(material.known)
    return "" if known >= LEAST_ROWS_KNOWN else f"it needs {LEAST_ROWS_KNOWN} known rows, and {known} are there"


def last_and_all(streams: Iterable[Stream]) -> tuple[list[Array], list[Array]]:
    """What was last received about each row; and the means over all windows, of wide messages only two."""
    each = [windows_of(stream.values) for stream in streams]
    last = [windows["last"] for windows in each]
    names = [("first", "early", "all", "late", "last") if x.shape[1] <= NARROW else ("last", "all") for x in last]
    return last, [windows[name] for windows, some in zip(each, names, strict=True) for name in some]


def rebuilt(material: Material, streams: list[Stream], rng: np.random.Generator) -> Iterator[Array]:
    """Columns of all rows as the adversary may rebuild them with messages."""
    own, (last, messages) = without_streams(material), last_and_all(streams)
    yield blind_guess(material)
    yield from decoded(material, own, rng)
    yield from decoded(material, last, rng)
    yield from decoded(material, messages + own, rng)


def rebuilt_without(material: Material, streams: list[Stream], rng: np.random.Generator) -> Iterator[Array]:
    """Columns of all rows as the adversary may rebuild them without messages, or with those of other rows."""
    yield blind_guess(material)
    yield from decoded(material, without_streams(material), rng)
    others = rng.permutation(len(material.truth))
    yield from decoded(material, [values[others] for values in last_and_all(streams)[0]], rng)


def decoded(material: Material, parts: list[Array], rng: np.random.Generator) -> Iterator[Array]:
    """Columns of all rows by a line and by a small network of these features, fitted to the known rows."""
    if parts:
        rows, x = material.known[:ROWS], side_by_side(parts)
        targets = np.asarray(material.truth[rows], dtype=np.float64).reshape(len(rows), -1)
        yield line(x, rows, targets)
        yield network(x, rows, targets, rng)
