"""What the owner asks for, in which order: the ring of masks, the comparison, the way back, the proof.

Each set goes once round the ring of parties, through the owner, who relays. It leaves its party masked and shuffled,
and every other party masks and shuffles it once more. Then all sets are masked by all keys, so equal ids are equal
points, and the owner compares. The places of the common ones go back along the hops of each set, and each party undoes
its own shuffle, until the set's own party finds its rows. Points are never unmasked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from colonnade.align import steps
from colonnade.align.curve import POINT_BYTES
from colonnade.align.messages import (
    CHUNK,
    GREETED,
    Macs,
    Places,
    Points,
    Roster,
    Signed,
    Wanted,
    checked,
    checked_places,
)
from colonnade.align.peer import Terms
from colonnade.align.proof import MAC_BYTES
from colonnade.errors import MessageError, NoCommonIdError, PrivacyError
from colonnade.method import Parties, Turn

PURPOSE = "align"
Progress = Callable[[int, int], None]
"""Called with how many ids were masked so far, and how many will be in all."""


def common(lists: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Where the values that are in all lists are in each of them, in the order of the values.

    >>> [places.tolist() for places in common([np.array([b"c", b"a", b"b"]), np.array([b"a", b"x", b"c"])])]
    [[1, 0], [0, 2]]
    """
    shared = lists[0]
    for one in lists[1:]:
        shared = np.intersect1d(shared, one, assume_unique=True)
    orders = [np.argsort(one, kind="stable") for one in lists]
    return [order[np.searchsorted(one, shared, sorter=order)] for one, order in zip(lists, orders, strict=True)]


class Ring:
    """An alignment as the owner leads it; the owner is the first of the parties."""

    def __init__(self, parties: Parties, terms: Terms, on_progress: Progress | None = None) -> None:
        self.parties, self.terms, self.on_progress = parties, terms, on_progress
        self.turn = Turn(0, torch.arange(0), purpose=PURPOSE)
        self.sizes: list[int] = []
        self._done = 0

    def run(self) -> int:
        """All of it; gives how many ids are common. The rows themselves are at the parties."""
        self.agree()
        places = common([self._comparable(whose) for whose in range(len(self.parties))])
        self.check_enough(len(places[0]))
        opened = [self.back(whose, torch.from_numpy(own)) for whose, own in enumerate(places)]
        for whose, own in enumerate(opened):
            self.parties.tell(steps.keep, self.turn, each=[Places(torch.tensor(whose), own)], to=[whose])
        self.prove()
        return len(places[0])

    def agree(self) -> None:
        """Everybody hears who takes part with how many ids, and signs it."""
        greetings = self.parties.ask(steps.greet, self.turn)
        for name, greeting in zip(self.parties.names, greetings, strict=True):
            for part, (kind, width) in zip(greeting, GREETED, strict=True):
                checked(part, kind, (1, width), f"the greeting of '{name}'")
        roster = Roster(*(torch.cat(parts) for parts in zip(*greetings, strict=True)))
        signed = self.parties.ask(steps.confirm, self.turn, all=roster)
        self.sizes = roster.rows.flatten().tolist()
        for name, one in zip(self.parties.names, signed, strict=True):
            checked(one.signatures, torch.uint8, (1, 64), f"the signature of '{name}'")
        self.parties.tell(steps.join, self.turn, all=Signed(torch.cat([one.signatures for one in signed])))

    def hops(self, whose: int) -> list[int]:
        """Who masks a party's set after itself, in this order; in plain mode nobody."""
        parties = len(self.parties)
        return [(whose + hop) % parties for hop in range(1, parties)] if self.terms.mode == "psi" else []

    def round(self, whose: int) -> Tensor:
        """A party's set after all its hops."""
        points = self._given(whose, whose)
        for party in self.hops(whose):
            for part in points.split(CHUNK):
                self.parties.tell(steps.take, self.turn, each=[Points(torch.tensor(whose), part)], to=[party])
            points = self._given(whose, party)
        return points

    def check_enough(self, count: int) -> None:
        """Refuse an intersection that is too small, before anybody is told anything of it."""
        names = ", ".join(self.parties.names)
        if count == 0:
            raise NoCommonIdError(
                f"no id is common to all of {names}; check that the ids are of the same kind and written alike."
            )
        if count < self.terms.minimum:
            raise PrivacyError(
                f"{count} ids are common to all of {names} and minimum={self.terms.minimum}; nobody was told which, so "
                "bring more rows, or agree on a smaller minimum."
            )

    def back(self, whose: int, places: Tensor) -> Tensor:
        """Places in a set after all its hops, as places in the list that its party sent."""
        rows, count = self.sizes[whose], len(places)
        for party in reversed(self.hops(whose)):
            (found,) = self.parties.ask(steps.trace, self.turn, each=[Places(torch.tensor(whose), places)], to=[party])
            places = checked_places(found.places, rows, count, f"'{self.parties.names[party]}'")
        return places

    def prove(self) -> None:
        """Let everybody check that all orders agree."""
        parties = len(self.parties)
        told = self.parties.ask(steps.prove, self.turn)
        for name, one in zip(self.parties.names, told, strict=True):
            checked(one.macs, torch.uint8, (parties, MAC_BYTES), f"the proof of '{name}'")
        self.parties.tell(steps.verify, self.turn, all=Macs(torch.stack([one.macs for one in told])))

    def _given(self, whose: int, party: int) -> Tensor:
        """A set as one of the parties masked and shuffled it, part by part."""
        found = []
        for start in range(0, self.sizes[whose], CHUNK):
            wanted = Wanted(torch.tensor(whose), torch.tensor(start))
            (part,) = self.parties.ask(steps.give, self.turn, each=[wanted], to=[party])
            due = min(CHUNK, self.sizes[whose] - start)
            what = f"the set of '{self.parties.names[whose]}' by '{self.parties.names[party]}'"
            found.append(checked(part.points, torch.uint8, (due, POINT_BYTES), what))
            self._progress(due)
        return torch.cat(found)

    def _comparable(self, whose: int) -> np.ndarray:
        """A party's set after all its hops, as numpy compares and sorts it."""
        values = self.round(whose).numpy().view(f"S{POINT_BYTES}").ravel()
        if len(np.unique(values)) < len(values):
            raise MessageError(
                f"the set of '{self.parties.names[whose]}' holds an id twice after all masks; leave that party out."
            )
        return values

    def _progress(self, more: int) -> None:
        self._done += more
        if self.on_progress is not None:
            each = len(self.parties) if self.terms.mode == "psi" else 1
            self.on_progress(self._done, each * sum(self.sizes))
