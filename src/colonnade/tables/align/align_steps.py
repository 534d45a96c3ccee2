"""The party steps of an alignment. Each calls the method of its name on ``mine.peer``, the party's end."""

from __future__ import annotations

from typing import Protocol

from colonnade.core.method import Turn, party_step
from colonnade.tables.align.align_messages import (
    AlignVerdict,
    Box,
    Greeting,
    LeftPlaces,
    Locks,
    Macs,
    Roster,
    Signed,
    WantedPlaces,
)
from colonnade.tables.align.alignment_party import AlignmentParty


class AlignmentMine(Protocol):
    """The party's own side as a step sees it."""

    peer: AlignmentParty


@party_step
def greet(mine: AlignmentMine, turn: Turn) -> Greeting:
    """Send the party's key and the number of its ids."""
    return mine.peer.greet()


@party_step
def confirm(mine: AlignmentMine, turn: Turn, message: Roster) -> Signed:
    """Check all greetings and sign them."""
    return mine.peer.confirm(message)


@party_step
def join(mine: AlignmentMine, turn: Turn, message: Signed) -> None:
    """Check that all parties signed the same greetings."""
    mine.peer.join(message)


@party_step
def take(mine: AlignmentMine, turn: Turn, message: Box) -> None:
    """Take a part of another party's masked list."""
    mine.peer.take(message)


@party_step
def give(mine: AlignmentMine, turn: Turn, message: WantedPlaces) -> Box:
    """Send a part of a list, shuffled and masked by this party too, to the next party on its path."""
    return mine.peer.give(message)


@party_step
def compare(mine: AlignmentMine, turn: Turn) -> AlignVerdict:
    """Compare all lists, and tell all parties the number of common ids, if it is large enough."""
    return mine.peer.compare()


@party_step
def hear(mine: AlignmentMine, turn: Turn, message: AlignVerdict) -> None:
    """Receive the number of common ids."""
    mine.peer.hear(message)


@party_step
def show(mine: AlignmentMine, turn: Turn, message: WantedPlaces) -> Box:
    """Send the places of the common ids in a list to the party that the list came from."""
    return mine.peer.show(message)


@party_step
def trace(mine: AlignmentMine, turn: Turn, message: Box) -> Box:
    """Undo this party's shuffle of some places of a list, and send them to the party that the list came from."""
    return mine.peer.trace(message)


@party_step
def keep(mine: AlignmentMine, turn: Turn, message: Box) -> None:
    """Find and keep the party's own rows of the common ids."""
    mine.peer.keep(message)


@party_step
def lock(mine: AlignmentMine, turn: Turn) -> Locks:
    """Send a lock from which only a party with the same rows can learn that they are the same."""
    return mine.peer.lock()


@party_step
def prove(mine: AlignmentMine, turn: Turn, message: Locks) -> Macs:
    """Prove to every other party that this party has the same rows."""
    return mine.peer.prove(message)


@party_step
def verify(mine: AlignmentMine, turn: Turn, message: Macs) -> None:
    """Check the proofs of all other parties."""
    mine.peer.verify(message)


@party_step
def spread(mine: AlignmentMine, turn: Turn, message: LeftPlaces) -> None:
    """In a left join: learn the places of the common rows among all of the owner's."""
    mine.peer.spread(message)
