"""Ids by counting up: whoever receives the hashes of an alignment in plain mode tries every id that there may be.

This is about an alignment and not about a run, so it is a function and not in the registry. An audit of an alignment
calls :func:`count_up` with the list that the owner received from a party and prints :meth:`FoundIds.sentence`. In psi
mode the same list is masked with a key that nobody else has, and counting finds nothing.

Citation: Demir, Kumar, Cunche, Lauradoux: *The pitfalls of hashing for privacy*, IEEE Communications Surveys and
Tutorials 2018.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from colonnade.tables.align.id_texts import texts
from colonnade.tables.align.plain_ids import hashes

DIGEST = 32  # bytes of a masked id in either mode
AT_ONCE = 100_000


@dataclass(frozen=True)
class FoundIds:
    """Which of a party's ids were found, by their place in its list."""

    party: str
    ids: dict[int, str] = field(repr=False)
    listed: int
    tried: int

    @property
    def share(self) -> float:
        """The share of the party's ids that were found."""
        return len(self.ids) / self.listed if self.listed else 0.0

    def sentence(self) -> str:
        """The finding with its figures."""
        found = (
            f"finds {len(self.ids):,} of the {self.listed:,} ids" if self.ids else f"finds none of {self.listed:,} ids"
        )
        return (
            f"Who received the list of '{self.party}' {found} ({100 * self.share:.0f} %) by trying {self.tried:,} ids; "
            "without the list it finds none."
        )


def count_up(party: str, masked: bytes, guesses: Iterable[object], seed: int) -> FoundIds:
    """Try ids on a party's list, which is its masked ids one after the other as the receiver has them.

    >>> list_of_shop = b"".join(hashes([b"17", b"ann"], seed=0))
    >>> count_up("shop", list_of_shop, range(100), seed=0).ids
    {0: '17'}
    """
    found, tried = ids_by_counting(_split(masked), guesses, seed)
    return FoundIds(party, found, len(masked) // DIGEST, tried)


def ids_by_counting(masked: Sequence[bytes], guesses: Iterable[object], seed: int) -> tuple[dict[int, str], int]:
    """The ids among the guesses by their place in the list, and how many were tried; the seed stands in the terms."""
    place = {digest: number for number, digest in enumerate(masked)}
    found, tried, some = dict[int, str](), 0, list[object]()
    for guess in guesses:
        some.append(guess)
        if len(some) == AT_ONCE:
            found |= _recognised(place, some, seed)
            tried, some = tried + len(some), []
    if some:
        found |= _recognised(place, some, seed)
    return dict(sorted(found.items())), tried + len(some)


def _recognised(place: dict[bytes, int], guesses: list[object], seed: int) -> dict[int, str]:
    known = texts(guesses, "the guesses")
    digests = zip(hashes(known, seed), known, strict=True)
    return {place[digest]: text.decode() for digest, text in digests if digest in place}


def _split(masked: bytes) -> list[bytes]:
    return [masked[start : start + DIGEST] for start in range(0, len(masked), DIGEST)]
