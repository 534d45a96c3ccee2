"""Owners that lie in an alignment, with real keys and real parties; for the attacks on it."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import Any

import torch

from colonnade.runtime.setup import local_parties
from colonnade.signatures import Identity
from colonnade.tables.align.align_messages import Box, WantedPlaces
from colonnade.tables.align.align_sheets import AlignmentGroup
from colonnade.tables.align.align_terms import AlignTerms
from colonnade.tables.align.alignment_owner import AlignmentOwner
from colonnade.tables.align.alignment_party import POINTS, AlignmentParty
from colonnade.tables.align.curve import CurveMask, elligator, multiply
from colonnade.wire.ends import Ends
from colonnade.wire.owner_half import OwnerHalf

NAMES = ("owner", "shop", "post", "mill")
Ids = list[list[bytes]]


def people(parties: int, common: int, own: int = 6) -> Ids:
    shared = [b"common %d" % k for k in range(common)]
    return [[*shared, *(b"%d only %d" % (party, k) for k in range(own))] for party in range(parties)]


def split(points: bytes) -> list[bytes]:
    return [points[at : at + 32] for at in range(0, len(points), 32)]


class Liar(AlignmentParty):
    """An owner with real keys that masks as it likes, and keeps all that it can open."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.saw: list[bytes] = []

    def bare(self, ids: Sequence[bytes]) -> list[bytes]:
        """The points of ids under no mask."""
        return split(elligator([CurveMask(self.member.roster)._digest(one) for one in ids]))

    def own(self) -> bytes:
        """The list that it says is of its own ids."""
        raise NotImplementedError

    def foreign(self, points: list[bytes]) -> bytes:
        """What it makes of a list that came to it."""
        raise NotImplementedError

    def give(self, wanted: WantedPlaces) -> Box:
        whose = int(wanted.whose)
        if whose == 0:
            return self._boxed(self.terms.after(0, 0), self.own(), POINTS, 0, 0)
        came = split(self._received[whose][0].numpy().tobytes())
        self.saw += came
        return self._boxed(self.terms.after(whose, 0), self.foreign(came), POINTS, whose, 0)


class KeyPerId(Liar):
    """The attack on the alignment of before: every id under a key of its own."""

    def own(self) -> bytes:
        self.each = [secrets.token_bytes(32) for _ in self.ids]
        return b"".join(multiply(key, one, "me") for key, one in zip(self.each, self.bare(self.ids), strict=True))

    def foreign(self, points: list[bytes]) -> bytes:
        return b"".join(multiply(random.choice(self.each), one, "me") for one in points)


class ManyTimes(Liar):
    """Lets some entries of others count three times: three keys for each id, three answers for each such entry."""

    def own(self) -> bytes:
        self.three = [secrets.token_bytes(32) for _ in range(3)]
        real = self.bare(self.ids[: len(self.ids) // 3])
        return b"".join(multiply(key, one, "me") for one in real for key in self.three)

    def foreign(self, points: list[bytes]) -> bytes:
        chosen = random.sample(points, -(-len(points) // 3))
        return b"".join([multiply(key, one, "me") for one in chosen for key in self.three][: len(points)])


def seated(ids: Ids, minimum: int, owner: type[AlignmentParty] = AlignmentParty) -> tuple[list[Any], AlignmentOwner]:
    terms = AlignTerms("psi", NAMES[: len(ids)], seed=0, minimum=minimum, maximum=None)
    identities = {name: Identity.new() for name in terms.names}
    keys = {name: identity.public for name, identity in identities.items()}
    kinds = [owner, *[AlignmentParty] * (len(ids) - 1)]
    peers = [
        kind(terms, place, own, identities[name], keys)
        for place, (kind, name, own) in enumerate(zip(kinds, terms.names, ids, strict=True))
    ]
    seats = [AlignmentGroup(place, peer) for place, peer in enumerate(peers)]
    return peers, AlignmentOwner(local_parties([seat.name for seat in seats], seats, OwnerHalf(Ends()), {0}), terms)


def brought_round(
    ids: Ids, minimum: int, owner: type[AlignmentParty] = AlignmentParty
) -> tuple[list[Any], AlignmentOwner]:
    """An alignment up to the comparison."""
    peers, ring = seated(ids, minimum, owner)
    ring.agree()
    for whose in ring.terms.lists:
        ring.round(whose)
    return peers, ring


def of(whose: int, start: int = 0) -> WantedPlaces:
    return WantedPlaces(torch.tensor(whose), torch.tensor(start))
