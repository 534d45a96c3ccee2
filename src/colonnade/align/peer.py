"""One party's end of an alignment: its ids, its secret, its shuffles. It has no input or output of its own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from colonnade.align.curve import POINT_BYTES, CurveMask, check_installed
from colonnade.align.messages import (
    CHUNK,
    GREETED,
    Greeting,
    Macs,
    Places,
    Points,
    Roster,
    Signed,
    Wanted,
    as_tensor,
    checked,
    checked_places,
    number_of,
)
from colonnade.align.plain import PlainMask, ordered
from colonnade.align.proof import MAC_BYTES, check, digest, mac, pair_keys
from colonnade.errors import PrivacyError, SealError
from colonnade.seal.keys import Hello, Identity, Membership, pack

MODES = ("psi", "plain")


@dataclass(frozen=True)
class Terms:
    """What all parties agreed on before: how, among whom (the owner first), and what each refuses."""

    mode: str
    names: tuple[str, ...]
    seed: int
    minimum: int
    maximum: int | None

    @property
    def job(self) -> bytes:
        """The name of the job, which every party signs: who agreed on something else is refused."""
        agreed = pack(self.mode, str(self.seed), self.minimum, str(self.maximum), *self.names)
        return hashlib.sha256(pack("colonnade/align/1", agreed)).digest()


class Mask(Protocol):
    """What hides ids: a secret key, or in plain mode nothing."""

    def own(self, ids: Sequence[bytes]) -> bytes:
        """The party's own ids, masked."""

    def again(self, points: bytes, whose: str) -> bytes:
        """Another party's masked ids, masked once more."""


def shuffle(count: int) -> np.ndarray:
    """A random order, from the operating system's generator."""
    return np.argsort(np.frombuffer(os.urandom(8 * count), np.uint64), kind="stable")


class Peer:
    """A party that greets, masks, shuffles, finds its rows and proves their order, each once and in that order."""

    def __init__(self, terms: Terms, place: int, ids: list[bytes], identity: Identity, keys: dict[str, bytes]) -> None:
        if terms.mode == "psi":
            check_installed()
        self.terms, self.place, self.ids = terms, place, ids
        self.name = terms.names[place]
        self.member = Membership(terms.job, self.name, identity, keys)
        self.sizes: list[int] = []
        self.rows = np.empty(0, np.int64)
        self.proof = ""
        self._mask: Mask | None = None
        self._orders: dict[int, np.ndarray] = {}  # by set: where each point of the list that left was before
        self._came: dict[int, list[Tensor]] = {}  # by set: the points of a list that is still to be masked
        self._opened: dict[int, int] = {}  # by set: how many common ids were looked up
        self._keys: dict[str, bytes] = {}

    # Who is here

    def greet(self) -> Greeting:
        """Present this party."""
        _, key, incarnation, signature = self.member.hello()
        return Greeting(_line(key), _line(incarnation), _line(signature), torch.tensor([[len(self.ids)]]))

    def confirm(self, roster: Roster) -> Signed:
        """Check who takes part and with how many ids, and sign that."""
        parties = len(self.terms.names)
        for part, (kind, width) in zip(roster, GREETED, strict=True):
            checked(part, kind, (parties, width), "the greetings of all parties")
        said = roster[:3]
        lines = zip(self.terms.names, *said, strict=True)
        signature = self.member.confirm(
            [Hello(name, *(part.numpy().tobytes() for part in line)) for name, *line in lines]
        )
        self.sizes = roster.rows.flatten().tolist()
        self._check_sizes()
        return Signed(_line(signature))

    def _check_sizes(self) -> None:
        if self.sizes[self.place] != len(self.ids):
            raise SealError(
                f"the owner says that '{self.name}' has {self.sizes[self.place]} ids; it has {len(self.ids)}."
            )
        for name, size in zip(self.terms.names, self.sizes, strict=True):
            if size < 1:
                raise SealError(f"'{name}' announces {size} ids; an alignment needs at least one of everybody.")
            if self.terms.maximum is not None and size > self.terms.maximum:
                raise PrivacyError(
                    f"'{name}' brings {size} ids and maximum={self.terms.maximum} was agreed on, because who brings "
                    "many can try out whom others have; bring fewer, or agree on more."
                )

    def join(self, signed: Signed) -> None:
        """Check that everybody signed the same; then draw this alignment's secret."""
        lines = checked(signed.signatures, torch.uint8, (len(self.terms.names), 64), "the signatures of all parties")
        self.member.join({name: line.numpy().tobytes() for name, line in zip(self.terms.names, lines, strict=True)})
        plain = self.terms.mode == "plain"
        self._mask = PlainMask(self.terms.seed) if plain else CurveMask(self.member.roster)
        self._orders[self.place] = shuffle(len(self.ids))

    # Masks and shuffles

    def take(self, came: Points) -> None:
        """Keep a part of another party's list until all of it is here."""
        whose = self._set(came.whose)
        if whose in self._orders:
            raise SealError(f"the set of {self._named(whose)} came to '{self.name}' a second time; stop.")
        parts = self._came.setdefault(whose, [])
        due = min(CHUNK, self.sizes[whose] - sum(map(len, parts)))
        parts.append(checked(came.points, torch.uint8, (due, POINT_BYTES), f"the set of {self._named(whose)}"))
        if sum(map(len, parts)) == self.sizes[whose]:
            self._came[whose] = [torch.cat(parts)]
            self._orders[whose] = shuffle(self.sizes[whose])

    def give(self, wanted: Wanted) -> Points:
        """A part of a list, its own or another party's, masked by this party and in an order that only it knows."""
        whose = self._set(wanted.whose)
        if whose not in self._orders or (whose != self.place and whose not in self._came):
            raise SealError(
                f"the set of {self._named(whose)} is wanted of '{self.name}', which does not hold it; stop."
            )
        start = number_of(wanted.start, self.sizes[whose], "the start of a part")
        order = self._orders[whose][start : start + CHUNK]
        if whose == self.place:
            masked = self._secret().own([self.ids[row] for row in order.tolist()])
        else:
            points = self._came[whose][0][torch.from_numpy(order)]
            masked = self._secret().again(points.numpy().tobytes(), self._named(whose))
        if start + CHUNK >= self.sizes[whose]:
            self._came.pop(whose, None)  # the list went on, and only its order is needed from here
        return Points(wanted.whose, as_tensor(masked, POINT_BYTES))

    # The way back

    def trace(self, came: Places) -> Places:
        """Where the common ids were in another party's list before this party shuffled it."""
        whose = self._set(came.whose)
        if whose == self.place:
            raise SealError(f"'{self.name}' was asked to tell its own rows, which nobody needs to know; stop.")
        return Places(came.whose, torch.from_numpy(self._opening(whose, came.places)))

    def keep(self, came: Places) -> None:
        """Find this party's own rows of the common ids, and put them in the order that everybody puts them in."""
        if self._set(came.whose) != self.place:
            raise SealError(f"'{self.name}' was told the rows of {self._named(self._set(came.whose))}; stop.")
        rows = self._opening(self.place, came.places)
        self.rows = rows[ordered([self.ids[row] for row in rows.tolist()], self.terms.seed)]

    def _opening(self, whose: int, places: Tensor) -> np.ndarray:
        if whose not in self._orders or whose in self._opened:
            raise SealError(f"the common ids of {self._named(whose)} can be looked up once, after its set came; stop.")
        checked_places(places, self.sizes[whose], None, "the owner")
        if len(places) < self.terms.minimum:
            raise PrivacyError(
                f"the owner wants to open {len(places)} common ids and minimum={self.terms.minimum} was agreed on; "
                f"'{self.name}' refuses."
            )
        if any(count != len(places) for count in self._opened.values()):
            raise SealError(
                f"the owner opens {len(places)} ids of {self._named(whose)} and another number of an earlier set; "
                "the common ids are as many in all sets, so stop."
            )
        self._opened[whose] = len(places)
        found: np.ndarray = self._orders[whose][places.numpy()]
        return found

    # Do the orders agree?

    def prove(self) -> Macs:
        """Tell each other party, under the key of the two, which rows this party has."""
        proved = self._proved()
        own = [mac(self._keys[name], self.name, proved) if name in self._keys else b"" for name in self.terms.names]
        return Macs(as_tensor(b"".join(one.ljust(MAC_BYTES, b"\0") for one in own), MAC_BYTES))

    def verify(self, came: Macs) -> None:
        """Check that everybody else has the same rows in the same order."""
        parties = len(self.terms.names)
        checked(came.macs, torch.uint8, (parties, parties, MAC_BYTES), "the proofs of all parties")
        proved = self._proved()
        for name, line in zip(self.terms.names, came.macs[:, self.place], strict=True):
            if name != self.name:
                check(self._keys[name], name, proved, line.numpy().tobytes(), self.name)
        self.proof = hashlib.sha256(came.macs.numpy().tobytes()).hexdigest()

    def _proved(self) -> bytes:
        if not len(self.rows):
            raise SealError(f"'{self.name}' was asked to prove its rows before it was told them; stop.")
        self._keys = self._keys or pair_keys(self.member)
        sizes = dict(zip(self.terms.names, self.sizes, strict=True))
        return digest([self.ids[row] for row in self.rows.tolist()], sizes)

    def _set(self, whose: Tensor) -> int:
        self._secret()
        return number_of(whose, len(self.terms.names), "the number of a set")

    def _secret(self) -> Mask:
        if self._mask is None:
            raise SealError(f"'{self.name}' was asked for ids before everybody signed who takes part; stop.")
        return self._mask

    def _named(self, whose: int) -> str:
        return f"'{self.terms.names[whose]}'"


def _line(raw: bytes) -> Tensor:
    return as_tensor(raw, len(raw))
