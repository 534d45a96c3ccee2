"""The party steps of an alignment: all that a party does for the owner. ``mine.peer`` is the party's end."""

from __future__ import annotations

from typing import Protocol

from colonnade.align.messages import Greeting, Macs, Places, Points, Roster, Signed, Wanted
from colonnade.align.peer import Peer
from colonnade.method import Turn, party_step


class Seat(Protocol):
    """What a step sees of its own side."""

    peer: Peer


@party_step
def greet(mine: Seat, turn: Turn) -> Greeting:
    """Present the party and say how many ids it has."""
    return mine.peer.greet()


@party_step
def confirm(mine: Seat, turn: Turn, message: Roster) -> Signed:
    """Check all greetings and sign them."""
    return mine.peer.confirm(message)


@party_step
def join(mine: Seat, turn: Turn, message: Signed) -> None:
    """Check that everybody signed the same."""
    mine.peer.join(message)


@party_step
def take(mine: Seat, turn: Turn, message: Points) -> None:
    """Take a part of another party's masked list."""
    mine.peer.take(message)


@party_step
def give(mine: Seat, turn: Turn, message: Wanted) -> Points:
    """Give a part of a list, shuffled and masked by this party too."""
    return mine.peer.give(message)


@party_step
def trace(mine: Seat, turn: Turn, message: Places) -> Places:
    """Say where some places of a list were before this party shuffled it."""
    return mine.peer.trace(message)


@party_step
def keep(mine: Seat, turn: Turn, message: Places) -> None:
    """Keep the party's own rows of the common ids."""
    mine.peer.keep(message)


@party_step
def prove(mine: Seat, turn: Turn) -> Macs:
    """Tell every other party, sealed, which rows this party has."""
    return mine.peer.prove()


@party_step
def verify(mine: Seat, turn: Turn, message: Macs) -> None:
    """Check what all others told."""
    mine.peer.verify(message)
