"""The owner's part of an alignment: the lists' paths through all parties, the comparison, the way back, the proof.

Each set of ids goes once through all parties. Its own party sends it masked and shuffled, and every other party masks
and shuffles it once more. Under all keys equal ids are equal points. The last party, the *comparer*, gets all sets in
this form. It counts the common ids and refuses too few. Only then does it send their places, which go back along the
path of each set. Each party undoes its shuffle, until the set's own party finds its rows. Points are never unmasked.

The owner relays all messages, encrypted for the next party on the path. It can open only the lists that it masks
itself, and no two of these are under the same keys.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from colonnade.core.method import Parties, Turn
from colonnade.errors import MessageError
from colonnade.tables.align import align_messages as messages
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.alignment_party import VERDICT_BYTES, AlignmentParty
from colonnade.tables.align.box import OVER
from colonnade.tables.align.curve import POINT_BYTES
from colonnade.tables.align.order_proof import MAC_BYTES

PURPOSE = "align"
Progress = Callable[[int, int], None]
"""Called with the number of ids that were masked so far, and their number in total."""


class AlignmentOwner:
    """The owner's part of an alignment; the owner is the first of the parties."""

    def __init__(self, parties: Parties, terms: AlignTerms, on_progress: Progress | None = None) -> None:
        self.parties, self.terms, self.on_progress = parties, terms, on_progress
        self.turn = Turn(0, torch.arange(0), purpose=PURPOSE)
        self.sizes: list[int] = []
        self._done = 0

    def run(self) -> int:
        """Run the alignment and return the number of common ids; each party keeps its own rows."""
        self.agree()
        for whose in self.terms.lists:
            self.round(whose)
        self.decide()
        counts = [self.back(whose) for whose in range(len(self.parties)) if len(self.terms.path(whose)) > 1]
        self.prove()
        return counts[0]

    def agree(self) -> None:
        """Let all parties learn who takes part with how many ids, and sign that."""
        greetings = self.parties.ask(AlignmentParty.greet, self.turn)
        for name, greeting in zip(self.parties.names, greetings, strict=True):
            for part, (kind, width) in zip(greeting, messages.GREETED, strict=True):
                messages.checked(part, kind, (1, width), f"the greeting of '{name}'")
        roster = messages.Roster(*(torch.cat(parts) for parts in zip(*greetings, strict=True)))
        self.sizes = roster.rows.flatten().tolist()
        self.terms.check_sizes(self.sizes)
        signed = self.parties.ask(AlignmentParty.confirm, self.turn, all=roster)
        for name, reply in zip(self.parties.names, signed, strict=True):
            messages.checked(reply.signatures, torch.uint8, (1, 64), f"the signature of '{name}'")
        self.parties.tell(
            AlignmentParty.join, self.turn, all=messages.Signed(torch.cat([reply.signatures for reply in signed]))
        )

    def round(self, whose: int) -> None:
        """Bring a list from its own party through all others to the comparer."""
        path = self.terms.path(whose)
        for sender, receiver in pairwise(path):
            for start in range(0, self._length(whose), messages.CHUNK):
                box = self._asked_part(whose, sender, start)
                self.parties.tell(AlignmentParty.take, self.turn, each=[box], to=[receiver])
                if receiver == self.terms.comparer and self._masked_there(whose):
                    self._progress(min(messages.CHUNK, self._length(whose) - start))

    def decide(self) -> None:
        """Let the comparer count the common ids, and tell all other parties that there are enough."""
        comparer = self.terms.comparer
        (verdict,) = self.parties.ask(AlignmentParty.compare, self.turn, to=[comparer])
        what = f"the verdict of '{self.parties.names[comparer]}'"
        messages.checked(verdict.sealed, torch.uint8, (len(self.parties), VERDICT_BYTES), what)
        others = [party for party in range(len(self.parties)) if party != comparer]
        self.parties.tell(AlignmentParty.hear, self.turn, all=verdict, to=others)

    def back(self, whose: int) -> int:
        """Bring the places of the common ids from the comparer back to a set's own party; return their number."""
        *hops, comparer = self.terms.path(whose)
        wanted = messages.WantedPlaces(torch.tensor(whose), torch.tensor(0))
        (box,) = self.parties.ask(AlignmentParty.show, self.turn, each=[wanted], to=[comparer])
        count = self._count(box.sealed, comparer)
        self._check_box(box, whose, count * messages.PLACE_BYTES, f"the places by '{self.parties.names[comparer]}'")
        for party in reversed(hops[1:]):
            (box,) = self.parties.ask(AlignmentParty.trace, self.turn, each=[box], to=[party])
            self._check_box(box, whose, count * messages.PLACE_BYTES, f"the places by '{self.parties.names[party]}'")
        self.parties.tell(AlignmentParty.keep, self.turn, each=[box], to=[whose])
        return count

    def prove(self) -> None:
        """Let all parties check that their orders agree."""
        parties = len(self.parties)
        locks = self.parties.ask(AlignmentParty.lock, self.turn)
        for name, lock in zip(self.parties.names, locks, strict=True):
            messages.checked(lock.locks, torch.uint8, (1, POINT_BYTES), f"the lock of '{name}'")
        proofs = self.parties.ask(
            AlignmentParty.prove, self.turn, all=messages.Locks(torch.cat([reply.locks for reply in locks]))
        )
        for name, proof in zip(self.parties.names, proofs, strict=True):
            messages.checked(proof.macs, torch.uint8, (parties, MAC_BYTES), f"the proof of '{name}'")
        self.parties.tell(
            AlignmentParty.verify, self.turn, all=messages.Macs(torch.stack([proof.macs for proof in proofs]))
        )

    def tell_places(self, places: np.ndarray, total: int) -> None:
        """In a left join: tell the other party the places of the common rows among all of the owner's."""
        message = messages.LeftPlaces(torch.tensor(total), torch.from_numpy(places))
        self.parties.tell(AlignmentParty.spread, self.turn, all=message, to=[1])

    def _asked_part(self, whose: int, party: int, start: int) -> messages.Box:
        """A part of a list that a party masked and shuffled, encrypted for the next party."""
        wanted = messages.WantedPlaces(torch.tensor(whose), torch.tensor(start))
        (box,) = self.parties.ask(AlignmentParty.give, self.turn, each=[wanted], to=[party])
        count = min(messages.CHUNK, self._length(whose) - start)
        what = f"the set of {self.terms.named(whose)} by '{self.parties.names[party]}'"
        self._check_box(box, whose, count * POINT_BYTES, what)
        self._progress(count)
        return box

    def _check_box(self, box: messages.Box, whose: int, size: int, what: str) -> None:
        messages.checked(box.sealed, torch.uint8, (size + OVER,), what)
        if int(messages.checked(box.whose, torch.int64, (), what)) != whose:
            raise MessageError(f"{what} came as of list {int(box.whose)} where {whose} was asked for; leave it out.")

    def _count(self, sealed: Tensor, comparer: int) -> int:
        """How many places the comparer's box has."""
        count, rest = divmod(sealed.numel() - OVER, messages.PLACE_BYTES)
        if rest or not self.terms.minimum <= count <= min(self.sizes):
            raise MessageError(
                f"'{self.parties.names[comparer]}' gave places in {sealed.numel()} bytes; from {self.terms.minimum} to "
                f"{min(self.sizes)} ids can be common, in {messages.PLACE_BYTES} bytes each and {OVER}: leave it out."
            )
        return count

    def _length(self, whose: int) -> int:
        return self.terms.length(whose, self.sizes)

    def _masked_there(self, whose: int) -> bool:
        """Whether the comparer masks a list when it receives it."""
        if whose == self.terms.comparer:
            return self.terms.trial is not None
        return self.terms.mode == "psi" and whose != self.terms.trial

    def _progress(self, more: int) -> None:
        self._done += more
        if self.on_progress is not None:
            self.on_progress(self._done, sum(map(self._masks, self.terms.lists)))

    def _masks(self, whose: int) -> int:
        """How many masks the ids of a list get in total."""
        return (len(self.terms.path(whose)) - 1 + self._masked_there(whose)) * self._length(whose)
