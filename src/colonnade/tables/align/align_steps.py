"""The party steps of an alignment: all that a party does for the owner. ``mine.peer`` is the party's end."""

from __future__ import annotations

from typing import Protocol

from colonnade.core.method import Turn, party_step
from colonnade.tables.align.align_messages import AlignVerdict, Box, Greeting, Locks, Macs, Roster, Signed, WantedPlaces
from colonnade.tables.align.alignment_party import AlignmentParty


class AlignmentMine(Protocol):
    """What a step sees of its own side."""

    peer: AlignmentParty


@party_step
def greet(mine: AlignmentMine, turn: Turn) -> Greeting:
    """Present the party and say how many ids it has."""
    return mine.peer.greet()


@party_step
def confirm(mine: AlignmentMine, turn: Turn, message: Roster) -> Signed:
    """Check all greetings and sign them."""
    return mine.peer.confirm(message)


@party_step
def join(mine: AlignmentMine, turn: Turn, message: Signed) -> None:
    """Check that everybody signed the same."""
    mine.peer.join(message)


@party_step
def take(mine: AlignmentMine, turn: Turn, message: Box) -> None:
    """Take a part of another party's masked list."""
    mine.peer.take(message)


@party_step
def give(mine: AlignmentMine, turn: Turn, message: WantedPlaces) -> Box:
    """Give a part of a list, shuffled and masked by this party too, to the next one on its way."""
    return mine.peer.give(message)


@party_step
def compare(mine: AlignmentMine, turn: Turn) -> AlignVerdict:
    """Compare all lists, and tell everybody how many ids are common if they are enough."""
    return mine.peer.compare()


@party_step
def hear(mine: AlignmentMine, turn: Turn, message: AlignVerdict) -> None:
    """Hear that enough ids are common."""
    mine.peer.hear(message)


@party_step
def show(mine: AlignmentMine, turn: Turn, message: WantedPlaces) -> Box:
    """Show where the common ids are in a list, to the party that it came from."""
    return mine.peer.show(message)


@party_step
def trace(mine: AlignmentMine, turn: Turn, message: Box) -> Box:
    """Say where some places of a list were before this party shuffled it, to the party that it came from."""
    return mine.peer.trace(message)


@party_step
def keep(mine: AlignmentMine, turn: Turn, message: Box) -> None:
    """Keep the party's own rows of the common ids."""
    mine.peer.keep(message)


@party_step
def lock(mine: AlignmentMine, turn: Turn) -> Locks:
    """Show the party's rows to those who have the same, and to nobody else."""
    return mine.peer.lock()


@party_step
def prove(mine: AlignmentMine, turn: Turn, message: Locks) -> Macs:
    """Tell every other party that this party has the same rows."""
    return mine.peer.prove(message)


@party_step
def verify(mine: AlignmentMine, turn: Turn, message: Macs) -> None:
    """Check what all others told."""
    mine.peer.verify(message)
